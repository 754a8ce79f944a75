"""The settings of Lazy/Active on several sites, on counts: the shipped driver and policies without Spark or rows.

The streams are those of the runs on Spark, and keys are in the same groups. What a policy decides by is the same, but
for clocks: rows arrive as slowly as in the paper, so that sites are idle most of the time, and a tuple takes a
millisecond.
"""

from dataclasses import dataclass

import numpy as np

from watersmeet.lab.grouping import engine_group
from watersmeet.lab.reproduce.setting import Size
from watersmeet.lab.reproduce.spread import NO_BUDGET, Spread
from watersmeet.lab.reproduce.strategies import lab_strategies, thresholds
from watersmeet.runners.counts import Level, Limits, Pace, Simulation, Stream, Workload
from watersmeet.state.events import MoveEvent

TUPLE_MS, MINUTE_MS = 1.0, 60_000.0
ROW_BYTES = 40


@dataclass(frozen=True)
class Counted:
    """What a run gave: results at run time, spills, moves, and what all sites hold in the end."""

    results: int
    spills: int
    moves: int
    live_bytes: int


def workload_of(setting: Spread, size: Size) -> Workload:
    """A setting's streams as counts."""
    streams = []
    for name, epochs in setting.streams(size).items():
        keys = [table[f"{name.lower()}1"].to_numpy() for table in epochs]
        epoch = np.repeat(np.arange(len(keys)), [len(each) for each in keys])
        streams.append(Stream(epoch, np.concatenate(keys).astype(np.int64), ROW_BYTES))
    return Workload.prepare([Level(tuple(streams))], size.epochs, size.groups, engine_group)


@dataclass(frozen=True)
class Tuned:
    """The parameters of policies that balance memory, and which groups are spilled first."""

    theta_d: float
    span: int
    strategy: str


def counted(
    setting: Spread, workload: Workload, adaptation: str, tuned: Tuned, budget_bytes: int = NO_BUDGET
) -> Counted:
    """A run under a policy."""
    limits = Limits(budget_bytes, setting.sites, weights=setting.weights)
    pace = Pace(setting.minutes * MINUTE_MS / workload.epochs, TUPLE_MS)
    with lab_strategies(), thresholds(tuned.theta_d, tuned.span):
        run = Simulation(workload, limits, tuned.strategy, adaptation, pace)
        for _ in range(workload.epochs):
            run.step()
    found = run.outcome()
    moves = sum(isinstance(each, MoveEvent) for each in run.versions.events())
    return Counted(found.results, len(found.spills), moves, found.live_bytes[-1])
