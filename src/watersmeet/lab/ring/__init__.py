"""Rings in this process: the same rows on any number of sites, by any scheme."""
