"""Decisions: pure functions from manifests and statistics to changes; one file per policy."""
