"""Rings: what a number of sites costs, and which is best (`cost`)."""
