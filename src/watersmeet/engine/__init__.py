"""Queries on Spark: the epoch loop, exchanges, site tasks and sinks. The lowest layer that imports pyspark."""
