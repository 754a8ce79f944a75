"""A join of two streams in counts: rows that come by group, results that follow, sites that take time for both.

What a policy parks is parked, and drained as the shipped cleanup has it, so that what parking brings can be seen.
"""

from dataclasses import dataclass, field

import numpy as np

from tests.support.states import JOIN, PLAN
from watersmeet.adapt.cleaning.policy import CleanPolicy
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.parking import ParkPolicy
from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.adapt.statistics import Statistics
from watersmeet.model.ids import BatchId, InputName, RunId, SiteId
from watersmeet.state.applying import apply, apply_all
from watersmeet.state.changes import AddRun, BeginCleaning, FinishBatch, FinishCleaning
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, OperatorState, RunFile
from watersmeet.state.sizes import rows_and_bytes
from watersmeet.state.vectors import Vector

ROW_BYTES = 10


@dataclass
class Bursts:
    """Every site has as many groups, and all groups as many rows at first; in an epoch, one row comes to each."""

    sites: int = 4
    groups: int = 20
    stored: int = 100
    executors: list[str] | None = None
    options: MemoryOptions = field(default_factory=MemoryOptions)
    policy: ParkPolicy = field(init=False)
    slowest_ms: list[float] = field(default_factory=list)
    drained: int = 0

    def __post_init__(self):
        self.policy = ParkPolicy(self.options)
        self.cleaning = CleanPolicy(self.options, draining=self.policy.draining)
        routing = tuple(SiteId(group * self.sites // self.groups) for group in range(self.groups))
        self.manifest = Manifest("q", PLAN, self.groups, self.sites, {JOIN: OperatorState(routing)})
        self.rows, self.ms_per_tuple = np.ones((2, self.groups)), np.full(self.sites, 0.1)
        self.executors = self.executors or [f"executor {site}" for site in range(self.sites)]
        self.end(self.came(np.full((2, self.groups), self.stored)))

    def came(self, rows):
        """The manifest with new rows."""
        changes = []
        for name, counts in zip("AB", rows, strict=True):
            held = GroupSet.within(counts > 0)
            own = counts[counts > 0].astype(int)
            run = RunId(f"{name}{self.manifest.version}")
            numbers = Vector.of(own), Vector.of(own * ROW_BYTES)
            total = int(own.sum())
            changes.append(AddRun(RunFile(run, run, JOIN, InputName(name), held, total, total, 0, *numbers)))
        return apply_all(self.manifest, changes)

    def end(self, manifest):
        self.manifest = apply(manifest, FinishBatch(BatchId(manifest.batch + 1)))

    def live(self):
        slices = [part for part in self.manifest.operators[JOIN].slices if part.tier == "memory"]
        of = [[part for part in slices if self.manifest.runs[part.run].input == name] for name in "AB"]
        return np.array([rows_and_bytes(self.manifest, some)[0] for some in of], np.float64)

    def load(self):
        live, rows = self.live(), self.rows
        results = (live + rows).prod(axis=0) - live.prod(axis=0)
        tuples = rows.sum(axis=0) + results
        busy = np.bincount(self.manifest.operators[JOIN].routing, tuples, self.sites) * self.ms_per_tuple
        workers = dict.fromkeys(self.executors, 1)
        return EpochLoad(busy.max() + 20.0, busy[None, :], {JOIN: tuples}, self.executors, workers, {}, {JOIN: rows})

    def epoch(self, *moves):
        """An epoch goes by; gives what is parked after it."""
        load, after = self.load(), apply_all(self.came(self.rows), moves)
        self.slowest_ms.append(float(load.busy_ms.max()))
        view = View("step", after, {JOIN: Statistics.cold(self.groups, 2)}, load=load)
        found = [each.what for each in self.policy.suggest(view)]
        live_again = [each.what for each in self.cleaning.suggest(view)]
        self.end(apply_all(after, [*found, *live_again]))
        between = View("between", self.manifest, {JOIN: Statistics.cold(self.groups, 2)})
        for begun in (each.what for each in self.cleaning.suggest(between)):
            assert isinstance(begun, BeginCleaning)
            self.drained += len(begun.cleaning.groups)
            done = FinishCleaning(GroupSet.of(begun.cleaning.groups), GroupSet())
            self.manifest = apply_all(self.manifest, [begun, done])
        return found

    def run(self, epochs):
        return [change for _ in range(epochs) for change in self.epoch()]

    @property
    def parked(self):
        return list(self.manifest.parked(JOIN))
