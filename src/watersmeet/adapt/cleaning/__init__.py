"""When and what to clean: which groups, how much at a time, and what becomes of them."""
