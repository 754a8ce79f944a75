"""Joins on any predicate: every row meets all rows of the other input, at all sites (`task`)."""
