"""Frozen values: ids, errors, queries and plans. Imports nothing of ours."""
