"""The live state of one operator, and what an epoch does to it.

The state is three kinds of counts: rows of plain streams by key, rows of the carrier (there or not), and results of the
level below by path. A path has as many live results as the product of the counts it needs. An epoch adds what arrived
to the counts; the results it completes are the product after, less the product before:

    (S1 + D1) x ... x (Sm + Dm)  -  S1 x ... x Sm

which is the engine's sum over i of ``(S1+D1) x ... x Di x ... x Sm``. A spill sets the counts of a group to 0, so its
rows meet none that come later: that is a closed generation.
"""

from copy import copy
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from watersmeet.adapt.statistics import Floats
from watersmeet.runners.counts.streams import Ints, Stream
from watersmeet.runners.counts.workload import Workload


@dataclass(frozen=True)
class Results:
    """What an epoch completed: some paths, and how many results of each."""

    paths: Ints
    counts: Floats


class Operator:
    """One level of a workload while it runs."""

    def __init__(self, workload: Workload, level: int) -> None:
        inputs, self.paths = workload.levels[level], workload.paths[level]
        self.groups, self.key_group = workload.groups, workload.key_groups[level]
        self.plain, self.carrier = inputs.plain, inputs.carrier
        self.rows_of = {id(stream): _by_epoch(stream, workload.epochs) for stream in inputs.streams}
        self.counts = [np.zeros(len(self.key_group)) for _ in self.plain]
        self.carried = np.zeros(len(self.carrier.key)) if self.carrier else np.empty(0)
        below = workload.paths[level - 1] if level else None
        self.from_below = np.zeros(len(below.key)) if below else np.empty(0)
        below_bytes = [workload.result_bytes(level - 1)] if level else []
        self.row_bytes = np.array([*(stream.row_bytes for stream in inputs.streams), *below_bytes], dtype=np.float64)
        self.below_group = _below_group(workload, level) if level else np.empty(0, dtype=np.int64)
        self.results = np.zeros(len(self.paths.key))
        self.reach = 0
        self.live_bytes = np.zeros(self.groups)

    def copy(self) -> "Operator":
        """The same state, to go on with on its own."""
        twin = copy(self)
        twin.counts = [counts.copy() for counts in self.counts]
        twin.carried, twin.from_below = self.carried.copy(), self.from_below.copy()
        twin.results, twin.live_bytes = self.results.copy(), self.live_bytes.copy()
        return twin

    def take(self, epoch: int, below: Results | None) -> tuple[Floats, Results]:
        """Take in an epoch's rows; give how many arrived, ``[input, group]``, and the results they complete."""
        arrived = []
        for counts, stream in zip(self.counts, self.plain, strict=True):
            keys = stream.key[self.rows_of[id(stream)][epoch]]
            np.add(counts, np.bincount(keys, minlength=len(counts)), out=counts)
            arrived.append(self._sum(self.key_group[keys]))
        if self.carrier:
            rows = self.rows_of[id(self.carrier)][epoch]
            self.carried[rows] = 1
            arrived.append(self._sum(self.key_group[self.carrier.key[rows]]))
        if below is not None:
            self.from_below[below.paths] += below.counts
            arrived.append(self._sum(self.below_group[below.paths], below.counts))
        by_input = np.stack(arrived)
        self.live_bytes += self.row_bytes @ by_input
        return by_input, self._completed(int(self.paths.until[epoch]))

    def spill(self, groups: NDArray[np.bool_]) -> None:
        """Close the generation of some groups."""
        kept = (~groups)[self.key_group]
        for counts in self.counts:
            np.multiply(counts, kept, out=counts)
        if self.carrier:
            self.carried *= kept[self.carrier.key]
        if len(self.from_below):
            self.from_below *= (~groups)[self.below_group]
        self.results[: self.reach] *= kept[self.paths.key[: self.reach]]
        self.live_bytes[groups] = 0

    def traced(self, level: int, results: Results) -> Floats:
        """Sum results by the groups they came through at a level."""
        return self._sum(self.paths.groups[level][results.paths], results.counts)

    def _completed(self, reach: int) -> Results:
        """The results that the first so many paths have now, and had not before."""
        factors = [reduce(np.multiply, self.counts).take(self.paths.key[:reach])] if self.counts else []
        if self.carrier:
            factors.append(self.carried.take(self.paths.carrier[:reach]))
        if len(self.from_below):
            factors.append(self.from_below.take(self.paths.below[:reach]))
        product: Floats = reduce(np.multiply, factors)
        completed = product - self.results[:reach]
        self.results[:reach], self.reach = product, reach
        made = np.flatnonzero(completed > 0)
        return Results(made, completed[made])

    def _sum(self, groups: Ints, counts: Floats | None = None) -> Floats:
        """How many there are of each group."""
        return np.bincount(groups, counts, minlength=self.groups).astype(np.float64)


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
