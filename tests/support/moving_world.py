"""Sites with groups on them, as policies that move groups see them."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from tests.support.states import JOIN, PLAN
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.policy import View
from watersmeet.adapt.statistics import Observation, Statistics
from watersmeet.model.ids import InputName, RunId, SiteId
from watersmeet.state.applying import apply
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, OperatorState, RowSet, RunFile, Slice
from watersmeet.state.vectors import Vector


@dataclass
class World:
    """One operator's groups: bytes and tuples of each, on sites of given speeds; moves that a policy makes are made."""

    bytes: list[float]
    routing: list[int]
    tuples: list[float] = field(default_factory=list)
    output: list[float] = field(default_factory=list)
    closed: tuple[int, ...] = ()
    ms_per_tuple: list[float] = field(default_factory=list)
    executors: list[str] | None = None
    overhead_ms: float = 20.0
    forced_bytes: int = 0

    def __post_init__(self):
        self.sites = max(max(self.routing) + 1, len(self.ms_per_tuple))
        self.tuples = self.tuples or [0.0] * len(self.bytes)
        self.ms_per_tuple = self.ms_per_tuple or [1.0] * self.sites
        self.executors = self.executors or [f"executor {site}" for site in range(self.sites)]

    @property
    def manifest(self):
        groups = len(self.bytes)
        held = GroupSet.of(range(groups))
        ones, sizes = Vector.of([1] * groups), Vector.of([int(size) for size in self.bytes])
        total = int(sum(self.bytes))
        run = RunFile(RunId("x"), "x", JOIN, InputName("A"), held, groups, total, 0, ones, sizes)
        closed = GroupSet.of(self.closed)
        slices = [Slice(run.id, RowSet(held - closed)), Slice(run.id, RowSet(closed), 1, "disk")]
        output = Vector.of(self.output) if self.output else Vector()
        state = OperatorState(tuple(map(SiteId, self.routing)), tuple(s for s in slices if s.rows), output)
        return Manifest(
            "q", PLAN, groups, self.sites, {JOIN: state}, {run.id: run}, version=5, forced_bytes=self.forced_bytes
        )

    @property
    def busy(self):
        work = np.bincount(self.routing, self.tuples, minlength=self.sites)
        return work * np.array(self.ms_per_tuple)

    @property
    def load(self):
        busy, places = self.busy, Counter(self.executors)
        duration = max(busy.max(), 1.0) + self.overhead_ms
        workers = dict.fromkeys(places, 1)
        results = {JOIN: np.array(self.output or [0.0] * len(self.bytes))}
        return EpochLoad(duration, busy[None, :], {JOIN: np.array(self.tuples)}, self.executors, workers, results)

    def epoch(self, policy):
        """An epoch goes by; gives what the policy suggests after it, and makes its moves."""
        sizes, output = np.array(self.bytes), np.array(self.output or [0.0] * len(self.bytes))
        known = Statistics.cold(len(sizes)).after(Observation(sizes, output, output, np.zeros(len(sizes))), 1)
        found = [each.what for each in policy.suggest(View("step", self.manifest, {JOIN: known}, load=self.load))]
        for change in found:
            after = apply(self.manifest, change)
            self.routing, self.forced_bytes = list(after.operators[JOIN].routing), after.forced_bytes
        return found


def moved(changes):
    return [(list(each.groups), each.before, each.after) for each in changes]
