"""Runs of a query without Spark: exact counts of rows and results, and the same decisions as the engine's.

The simulator knows no rows, only how many there are of each kind, and so answers in a second what a run on Spark takes
many minutes for. It drives the code of `watersmeet.adapt` that the engine drives.
"""

from watersmeet.runners.counts.hashing import key_group
from watersmeet.runners.counts.outcome import Outcome
from watersmeet.runners.counts.simulator import Limits, Simulation, by, simulate
from watersmeet.runners.counts.streams import Carrier, Level, Stream
from watersmeet.runners.counts.workload import Workload

__all__ = ["Carrier", "Level", "Limits", "Outcome", "Simulation", "Stream", "Workload", "by", "key_group", "simulate"]
