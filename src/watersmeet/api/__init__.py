"""What a user imports: flows, relations, writers and queries, in Spark's own words."""
