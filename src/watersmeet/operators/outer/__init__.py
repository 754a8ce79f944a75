"""Outer, semi and anti joins of two inputs: rows that come out alone, or once (`task`)."""
