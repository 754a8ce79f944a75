"""Spill strategies compared: settings of data, a policy that knows the future, and the table of `bench spill`."""
