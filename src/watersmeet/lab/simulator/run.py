"""Epochs of a simulated cluster: what the sites did is the load that policies are shown; their moves take their time.

The coordinator and the policies are the shipped ones, and so is the manifest they look at: one operator, its groups the
partitions of the paper, with one run that holds the state of all. An epoch is as long as the shortest collection phase,
or as long as it takes until what moves has arrived: that is the move phase.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.distribution import spread
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.policy import MemoryOptions, Policy, View
from watersmeet.driver.coordinator import Coordinator
from watersmeet.lab.simulator.cluster import Cluster
from watersmeet.lab.simulator.traffic import Disturbance
from watersmeet.model.ids import InputName, OperatorId, RunId, SiteId
from watersmeet.model.plan import Input, Operator, Plan
from watersmeet.state.applying import apply, apply_all
from watersmeet.state.changes import MoveGroups, ReviveGroups, SpillGroups
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, OperatorState, RowSet, RunFile, Slice
from watersmeet.state.vectors import Vector

OPERATOR = OperatorId("group1")
SLICE_MS, SECOND_MS = 2.0, 1000.0


@dataclass
class Course:
    """What happened: tuples and mean latency (in ms) of every second, and every move with its time."""

    tuples: list[float] = field(default_factory=list)
    latency_ms: list[float] = field(default_factory=list)
    moves: list[tuple[float, int, int, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def mean_per_second(self) -> float:
        """Tuples a second, of all seconds."""
        return float(np.mean(self.tuples))


def first_manifest(partitions: int, machines: int, partition_bytes: float, weights: tuple[float, ...] = ()) -> Manifest:
    """All state is there from the start, spread evenly or by weights."""
    held, source = GroupSet.all(partitions), InputName("S1")
    sizes = Vector.of(np.full(partitions, int(partition_bytes)))
    rows = Vector.of(np.ones(partitions, np.int64))
    total = int(partition_bytes) * partitions
    run = RunFile(RunId("state"), "state", OPERATOR, source, held, partitions, total, 0, rows, sizes)
    state = OperatorState(spread(partitions, machines, weights), (Slice(run.id, RowSet(held)),))
    plan = Plan((), (Operator(OPERATOR, 0, (Input(source, (), ()),), ()),), ())
    return Manifest("simulation", plan, partitions, machines, {OPERATOR: state}, {run.id: run})


def simulate(
    cluster: Cluster,
    seconds: float,
    disturbance: Disturbance,
    policies: Sequence[Policy] = (),
    epoch_ms: float = 10.0,
    slice_ms: float = SLICE_MS,
    weights: tuple[float, ...] = (),
) -> Course:
    """Let a cluster run for a while, under some policies."""
    return _Run(cluster, disturbance, policies, epoch_ms, slice_ms, weights).until(seconds * SECOND_MS)


class _Run:
    def __init__(
        self,
        cluster: Cluster,
        disturbance: Disturbance,
        policies: Sequence[Policy],
        epoch_ms: float,
        slice_ms: float,
        weights: tuple[float, ...],
    ) -> None:
        self.cluster, self.disturbance, self.epoch_ms, self.slice_ms = cluster, disturbance, epoch_ms, slice_ms
        machines, partitions = cluster.hardware.machines, len(cluster.traffic.shares)
        self.manifest = first_manifest(partitions, machines, cluster.traffic.partition_bytes, weights)
        self.coordinator = Coordinator.of(MemoryOptions(), machines, 1, movers=policies)
        self.has_policies = bool(policies)
        cluster.site = np.asarray(self.manifest.operators[OPERATOR].routing, np.int64)
        self.course = Course()
        self._told = (0.0, 0.0)

    def until(self, end_ms: float) -> Course:
        """Epoch after epoch."""
        while self.cluster.now_ms < end_ms:
            load = self._pass(self.epoch_ms)
            while moves := self._decide(load):
                load = self._move(moves)
        return self.course

    def _decide(self, load: EpochLoad) -> list[MoveGroups]:
        if not self.has_policies:
            return []
        self._tell_disks()
        changes = self.coordinator.decide(View("step", self.manifest, load=load))
        return [change for change in changes if isinstance(change, MoveGroups)]

    def _move(self, moves: list[MoveGroups]) -> EpochLoad:
        """Carry moves out: the partitions are stalled until their state has arrived."""
        cluster, hardware = self.cluster, self.cluster.hardware
        chosen = np.concatenate([each.groups.numbers for each in moves])
        for each in moves:
            at = (cluster.now_ms, len(each.groups), int(each.before), int(each.after))
            self.course.moves.append(at)
            self.course.reasons.append(each.reason)
        size = cluster.traffic.partition_bytes
        read = size if cluster.on_disk[chosen].any() else 0.0
        speeds = self.disturbance.speeds(cluster.now_ms)[cluster.site[chosen]]
        in_flight = hardware.queue_tuples / max(float(speeds.min()), 1e-9)
        cluster.stalled[chosen] = True
        load = self._pass(hardware.move_ms([size] * len(chosen), in_flight, read))
        self.manifest = apply_all(self.manifest, moves)
        cluster.site = np.asarray(self.manifest.operators[OPERATOR].routing, np.int64)
        cluster.stalled[chosen] = False
        cluster.on_disk[chosen] = False
        cluster.waiting[chosen] += cluster.aside[chosen]
        cluster.aside[chosen] = 0.0
        return load

    def _tell_disks(self) -> None:
        """What machines have put on disk is told to the manifest, as a spill."""
        known = GroupSet.union(self.manifest.generations(OPERATOR).values())
        now = GroupSet.within(self.cluster.on_disk)
        if gone := now - known:
            self.manifest = apply(self.manifest, SpillGroups(SiteId(0), {OPERATOR: gone}))
        if back := known - now:
            self.manifest = apply(self.manifest, ReviveGroups(OPERATOR, back))

    def _pass(self, duration_ms: float) -> EpochLoad:
        cluster, start = self.cluster, self.cluster.now_ms
        while cluster.now_ms < start + duration_ms - 1e-9:
            now = cluster.now_ms
            cluster.step(self.slice_ms, self.disturbance.speeds(now), self.disturbance.memories(now))
            if int(cluster.now_ms / SECOND_MS) > int(now / SECOND_MS):
                self._end_second()
        busy, tuples = cluster.taken()
        names = [str(site) for site in range(cluster.hardware.machines)]
        memory = cluster.memory_bytes(self.disturbance.memories(cluster.now_ms))
        duration, workers = cluster.now_ms - start, dict.fromkeys(names, 1)
        return EpochLoad(duration, busy[None, :], {OPERATOR: tuples}, names, workers, memory_bytes=memory)

    def _end_second(self) -> None:
        count, waited_ms = self.cluster.total_processed, self.cluster.total_waited_ms
        before, waited_before = self._told
        self.course.tuples.append(count - before)
        self.course.latency_ms.append((waited_ms - waited_before) / max(count - before, 1.0))
        self._told = (count, waited_ms)
