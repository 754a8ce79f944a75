"""Which runs become one: a size-tiered log-structured merge tree."""
