"""Find the pairs of rows that ranges let through, without looking at all others.

1. Sort the stored rows by each value that a range speaks of. Those in a range are then contiguous, and binary search
   finds where they begin and end for every probing row at once.
2. One value gives few enough pairs: its ranges are written out, and of every pair it is asked whether the place of its
   stored row among the others' values lies in their ranges, too: two comparisons of whole numbers.
3. Otherwise two values are asked for together, with a merge-sort tree: the rows in the order of the one are cut into
   blocks of 1, 2, 4, ... rows, each sorted by the other. A range of the first is made of at most two blocks of each
   size, and in each of these the rows in the range of the second are contiguous again. So two inequalities, or
   intervals that overlap, cost ``n log n`` and what they find (compare Khayyat et al., IEJoin, 2015).
4. Without any range, all pairs are let through.

Of intervals that overlap, none begins long before the other: not earlier than the longest of them is long. That is one
more range (`ranges.implied`), and where lengths are alike there are few pairs too many.

What is found are blocks (`watersmeet.operators.join.product`), which are written out in bounded batches.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.operators.join.product import Blocks
from watersmeet.operators.ranges import Index
from watersmeet.operators.ring.orders import order_of
from watersmeet.operators.ring.pieces import Mask, Piece, Values
from watersmeet.operators.ring.ranges import Conditions, implied, positions
from watersmeet.state.groups import Hashes

TREE_COST = 4
"""A step in the tree, for a stored or a probing row, takes as long as looking at so many pairs."""


@dataclass(frozen=True)
class Places:
    """For each probing row, from where to where the stored rows of its range lie in their order by one value."""

    order: Index
    start: Index
    stop: Index

    @property
    def pairs(self) -> int:
        """How many pairs it lets through."""
        return int((self.stop - self.start).sum())

    def ranks(self, count: int) -> Index:
        """The place of each stored row; -1 for one without a value, which is in no range."""
        ranks: Index = np.full(count, -1, dtype=np.int64)
        ranks[self.order] = np.arange(len(self.order))
        return ranks


@dataclass(frozen=True)
class InRanges:
    """Drops the pairs whose stored row is outside of a range of the probing one."""

    ranges: Sequence[tuple[Index, Places]]

    @classmethod
    def of(cls, places: Sequence[Places], count: int) -> "InRanges | None":
        """The check for some ranges of as many stored rows; None for no range."""
        return cls([(each.ranks(count), each) for each in places]) if places else None

    def passed(self, index: Sequence[Index]) -> list[Index]:
        """The pairs that stay."""
        probing, stored = index
        for ranks, each in self.ranges:
            place = ranks[stored]
            kept = (place >= each.start[probing]) & (place < each.stop[probing])
            probing, stored = probing[kept], stored[kept]
        return [probing, stored]


class StoredIndex:
    """The stored rows of a piece, sorted by the values that are asked for; each is sorted once.

    Of a ``run``, known by its hashes, orders are kept for the next step. Only ``kept`` rows count.
    """

    def __init__(self, stored: Piece, kept: Mask | None = None, run: Hashes | None = None) -> None:
        self.stored, self._kept, self._run = stored, kept, run
        self._sorted: dict[str, tuple[Index, Values]] = {}

    @property
    def everything(self) -> Index:
        """The rows that count."""
        everything: Index = np.arange(self.stored.count) if self._kept is None else np.flatnonzero(self._kept)
        return everything

    def ordered(self, name: str) -> tuple[Index, Values]:
        """The rows in the order of a value, and the values; those without one are left out."""
        if name not in self._sorted:
            values = self.stored.values(name)
            if values is None:
                raise ValueError(name)
            order = self._order(name, values) if self._run is None else self._kept_order(name, values, self._run)
            order = order if self._kept is None else order[self._kept[order]]
            self._sorted[name] = order, values[order]
        return self._sorted[name]

    def _kept_order(self, name: str, values: Values, run: Hashes) -> Index:
        return order_of(run, name, lambda: self._order(name, values))

    def _order(self, name: str, values: Values) -> Index:
        valid = self.stored.valid(name)
        if valid is None:
            return np.argsort(values, kind="stable")
        rows = np.flatnonzero(valid)
        order: Index = rows[np.argsort(values[rows], kind="stable")]
        return order

    def blocks(self, conditions: Conditions, probing: int, probe: Piece) -> Iterator[Blocks]:
        """The pairs that all ranges let through, of probing rows and stored ones, each once."""
        places = self._places(conditions, probing, probe)
        if not places:
            yield _all_pairs(probe.count, self.everything)
            return
        places.sort(key=lambda each: each.pairs)
        first, *others = places
        steps = math.ceil(math.log2(len(first.order) + 2))
        if others and first.pairs > TREE_COST * steps * (len(first.order) + probe.count):
            yield from _tree(first, others[0], self.stored.count, others[1:])
        else:
            yield _written_out(first, others, self.stored.count)

    def _places(self, conditions: Conditions, probing: int, probe: Piece) -> list[Places]:
        """The ranges of each value; of several, what they have in common."""
        found: dict[str, Places] = {}
        ranges = list(conditions.ranges(probing, probe, self.stored))
        for name, range_ in [*ranges, *implied(ranges, self.stored)]:
            order, values = self.ordered(name)
            start, stop = positions(values, range_)
            if name in found:
                start = np.maximum(start, found[name].start)
                stop = np.maximum(np.minimum(stop, found[name].stop), start)
            found[name] = Places(order, start, stop)
        return list(found.values())


def _all_pairs(probing: int, stored: Index) -> Blocks:
    count = np.array([[probing], [len(stored)]]) if probing and len(stored) else np.empty((2, 0), np.int64)
    return Blocks(np.zeros_like(count), count, np.zeros(count.shape[1], np.int64), (np.arange(probing), stored))


def _written_out(first: Places, others: Sequence[Places], count: int) -> Blocks:
    some = np.flatnonzero(first.stop > first.start)
    starts = np.stack([some, first.start[some]])
    lengths = np.stack([np.ones_like(some), first.stop[some] - first.start[some]])
    check = InRanges.of(others, count)
    return Blocks(starts, lengths, some, (np.arange(len(first.start)), first.order), check)


def _tree(first: Places, second: Places, count: int, others: Sequence[Places]) -> Iterator[Blocks]:
    """The rows in two ranges, size by size of the blocks that a range of the first is made of."""
    ranks = second.ranks(count)[first.order]
    rows, span = np.arange(len(ranks)), len(second.order) + 1
    low, high = first.start.copy(), first.stop.copy()
    check = InRanges.of(others, count)
    numbers = np.arange(len(low))
    size = 0
    while (low < high).any():
        rows = rows[np.argsort((rows >> size) * span + ranks[rows] + 1, kind="stable")]
        codes = (rows >> size) * span + ranks[rows] + 1
        ends_low, ends_high = (low < high) & (low & 1 == 1), (low < high) & (high & 1 == 1)
        probing = np.concatenate([numbers[ends_low], numbers[ends_high]])
        block = np.concatenate([low[ends_low], high[ends_high] - 1]) * span + 1
        start = np.searchsorted(codes, block + second.start[probing])
        stop = np.searchsorted(codes, block + second.stop[probing])
        some = stop > start
        starts = np.stack([probing[some], start[some]])
        lengths = np.stack([np.ones(int(some.sum()), np.int64), (stop - start)[some]])
        yield Blocks(starts, lengths, probing[some], (numbers, first.order[rows]), check)
        low, high = (low + ends_low) >> 1, (high - ends_high) >> 1
        size += 1
