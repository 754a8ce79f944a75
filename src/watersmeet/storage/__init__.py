"""The seam to file systems: what state asks of a place to live in. ``base`` tells what every back end promises.

Nothing is imported here: a worker that has its state on a local disk loads no library for remote ones.
"""
