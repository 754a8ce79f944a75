"""Runs of a query in this process, with the real site tasks and without Spark."""

from watersmeet.runners.local.messages import Evaluate, HashKeys, Tables, hash_whole_numbers
from watersmeet.runners.local.runner import LocalOffsets, LocalRunner

__all__ = ["Evaluate", "HashKeys", "LocalOffsets", "LocalRunner", "Tables", "hash_whole_numbers"]
