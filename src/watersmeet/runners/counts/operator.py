"""The live state of one operator, and what an epoch does to it.

The state is three kinds of counts: rows of plain streams by key, rows of the carrier (there or not), and results of the
level below by path. A path has as many live results as the product of the counts it needs. An epoch adds what arrived
to the counts; the results it completes are the product after, less the product before:

    (S1 + D1) x ... x (Sm + Dm)  -  S1 x ... x Sm

which is the engine's sum over i of ``(S1+D1) x ... x Di x ... x Sm``. A spill sets the counts of a group to 0, so its
rows meet none that come later: that is a closed generation.
"""

from copy import copy

import numpy as np
from numpy.typing import NDArray

from watersmeet.adapt.statistics import Floats
from watersmeet.runners.counts.streams import Ints, Stream
from watersmeet.runners.counts.workload import Workload


class Operator:
    """One level of a workload while it runs."""

    def __init__(self, workload: Workload, level: int) -> None:
        inputs, self.paths = workload.levels[level], workload.paths[level]
        self.groups, self.key_group = workload.groups, workload.key_groups[level]
        self.plain, self.carrier = inputs.plain, inputs.carrier
        self.inputs = len(inputs.streams) + (level > 0)
        self.rows_of = {id(stream): _by_epoch(stream, workload.epochs) for stream in inputs.streams}
        self.counts = [np.zeros(len(self.key_group)) for _ in self.plain]
        self.carried = np.zeros(len(self.carrier.key)) if self.carrier else np.empty(0)
        below = workload.paths[level - 1] if level else None
        self.from_below = np.zeros(len(below.key)) if below else np.empty(0)
        self.below_bytes = workload.result_bytes(level - 1) if level else 0
        self.below_group = _below_group(workload, level) if level else np.empty(0, dtype=np.int64)
        self.results = np.zeros(len(self.paths.key))
        self.live_bytes = np.zeros(self.groups)

    def copy(self) -> "Operator":
        """The same state, to go on with on its own."""
        twin = copy(self)
        twin.counts = [counts.copy() for counts in self.counts]
        twin.carried, twin.from_below = self.carried.copy(), self.from_below.copy()
        twin.results, twin.live_bytes = self.results.copy(), self.live_bytes.copy()
        return twin

    def arrive(self, epoch: int, below: Floats | None) -> Floats:
        """Take in an epoch's rows, ``below`` by path; give the bytes that arrived by input and group."""
        arrived = []
        for counts, stream in zip(self.counts, self.plain, strict=True):
            keys = self._keys(stream, epoch)
            np.add.at(counts, keys, 1)
            arrived.append(self._bytes(stream, keys))
        if self.carrier:
            self.carried[self.rows_of[id(self.carrier)][epoch]] = 1
            arrived.append(self._bytes(self.carrier, self._keys(self.carrier, epoch)))
        if below is not None:
            self.from_below[: len(below)] += below
            arrived.append(self.below_bytes * self._sum(self.below_group, below))
        by_input = np.stack(arrived)
        self.live_bytes += by_input.sum(axis=0)
        return by_input

    def join(self, epoch: int) -> Floats:
        """How many results of each path the epoch completes, of those paths that can exist."""
        reach = slice(int(self.paths.until[epoch]))
        product = self._product(reach)
        completed = product - self.results[reach]
        self.results[reach] = product
        return completed

    def spill(self, groups: NDArray[np.bool_]) -> None:
        """Close the generation of some groups."""
        keys = groups[self.key_group]
        for counts in self.counts:
            counts[keys] = 0
        if self.carrier:
            self.carried[keys[self.carrier.key]] = 0
        if len(self.from_below):
            self.from_below[groups[self.below_group]] = 0
        self.results[keys[self.paths.key]] = 0
        self.live_bytes[groups] = 0

    def traced(self, level: int, completed: Floats) -> Floats:
        """Sum results by the groups they came through at a level."""
        return self._sum(self.paths.groups[level], completed)

    def _product(self, reach: slice) -> Floats:
        product = np.ones(reach.stop)
        if self.counts:
            product *= np.prod(self.counts, axis=0)[self.paths.key[reach]]
        if self.carrier:
            product *= self.carried[self.paths.carrier[reach]]
        if len(self.from_below):
            product *= self.from_below[self.paths.below[reach]]
        return product

    def _keys(self, stream: Stream, epoch: int) -> Ints:
        return stream.key[self.rows_of[id(stream)][epoch]]

    def _bytes(self, stream: Stream, keys: Ints) -> Floats:
        return self._sum(self.key_group[keys], np.full(len(keys), float(stream.row_bytes)))

    def _sum(self, groups: Ints, values: Floats) -> Floats:
        return np.bincount(groups[: len(values)], weights=values, minlength=self.groups).astype(np.float64)


def _by_epoch(stream: Stream, epochs: int) -> list[Ints]:
    """The rows of each epoch."""
    order = np.argsort(stream.epoch, kind="stable")
    bounds = np.searchsorted(stream.epoch[order], np.arange(epochs + 1))
    return [order[bounds[epoch] : bounds[epoch + 1]] for epoch in range(epochs)]


def _below_group(workload: Workload, level: int) -> Ints:
    """The group, at a level, of each path of the level below."""
    carrier = workload.levels[level - 1].carrier
    if carrier is None:
        raise ValueError(f"level {level - 1} has no carrier: nothing tells where its results go")
    return workload.key_groups[level][carrier.next_key[workload.paths[level - 1].carrier]]
