"""Aggregates by key: partial ones are the state, and are combined when they are read (`task`)."""
