"""Runs of a query on exact counts of rows and results, without Spark and without rows.

The driver is the shipped one; what it drives (`runner`) knows only how many rows there are of each kind. So a
simulation answers in a second what a run on Spark takes many minutes for, and decides as that would.
"""

from watersmeet.runners.counts.hashing import key_group
from watersmeet.runners.counts.outcome import Outcome
from watersmeet.runners.counts.runner import CountsRunner, Pace
from watersmeet.runners.counts.simulation import Decide, Limits, Simulation, simulate
from watersmeet.runners.counts.streams import Carrier, Level, Stream
from watersmeet.runners.counts.workload import Workload

__all__ = [
    "Carrier",
    "CountsRunner",
    "Decide",
    "Level",
    "Limits",
    "Outcome",
    "Pace",
    "Simulation",
    "Stream",
    "Workload",
    "key_group",
    "simulate",
]
