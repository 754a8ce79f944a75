"""Rows are joined only where their lives overlap: a window join as a product of ranges (CAPE 3.2).

Every result has one row that begins last, its *latest* (of two that begin at once, the one of the later input). All
others live at that moment: they began before it and end after it. With the rows of a key in the order of their
beginnings, those of an input that live as long as one another and live at a moment are one contiguous range. So each
latest row and its ranges are a block (`watersmeet.operators.join.product`), and results are counted without being
written out. Lives of different lengths, as results of an operator below have them, make the range too wide; what ended
too early is then dropped as results are written out.

Conditions may bound how far apart two rows begin (`watersmeet.planning.reach`). What they say of the latest row and
another makes the range narrower. What they say of two others is looked at as results are written out. What they say of
streams that are joined higher up makes the end of a result earlier: no row begins at it or later that the result can
meet. So an end is compared with when *other* rows begin: it may be before its own begin.

A block has a new row if its latest row is new. If that is old, a new one must be among the others: only where rows come
late, or have no life, are old latest rows looked at again, and of these only those that are later than some new row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.join.gather import Gathered
from watersmeet.operators.join.product import Blocks, together
from watersmeet.operators.ranges import Index
from watersmeet.operators.spec import LifeSpec

FOREVER = np.iinfo(np.int64).max
CODES = 1 << 62
"""A key and a time of the rows at hand make one number; with more keys than fit, they are taken in parts."""

Which = Literal["all", "old", "new"]

Bounds = Sequence[tuple[int, int, int]]
"""By two inputs: how many microseconds later a row of the second may begin than the one of the first."""


@dataclass(frozen=True)
class Times:
    """When the rows of one input live; ``end`` is None where all live for ``length``, or for ever without one."""

    begin: Index
    end: Index | None = None
    length: int | None = None

    @classmethod
    def of(cls, rows: pa.RecordBatch, life: LifeSpec) -> "Times":
        """The lives of some rows."""
        begin = as_numbers(rows.column(life.begin))
        if life.end is None:
            return cls(begin, None, life.window_us)
        end = as_numbers(rows.column(life.end))
        longest = int((end - begin).max()) if len(end) and int(end.max()) < FOREVER else None
        return cls(begin, end, longest)

    def ends(self) -> Index:
        """The end of each life."""
        return self.end if self.end is not None else end_after(self.begin, self.length)


def as_numbers(column: pa.Array) -> Index:
    """Times as microseconds."""
    numbers: Index = column.view(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def end_after(begin: Index, length: int | None) -> Index:
    """When lives of a length end, or never without one.

    >>> end_after(np.array([5, 2**63 - 2]), 10).tolist() == [15, FOREVER]
    True
    """
    if length is None:
        return np.full(len(begin), FOREVER)
    return np.where(begin > FOREVER - length, FOREVER, begin + length)


def common_life(rows: Sequence[pa.RecordBatch], lives: Sequence[LifeSpec | None], index: Sequence[Index]) -> Times:
    """What the rows of each result have in common."""
    known = [(batch, life, numbers) for batch, life, numbers in zip(rows, lives, index, strict=True) if life]
    begin = np.maximum.reduce([as_numbers(batch.column(life.begin))[numbers] for batch, life, numbers in known])
    return Times(begin, np.minimum.reduce([_ends_above(batch, life)[numbers] for batch, life, numbers in known]))


def _ends_above(rows: pa.RecordBatch, life: LifeSpec) -> Index:
    """When the last rows begin that results with some rows can meet."""
    times = Times.of(rows, life)
    return np.minimum(times.ends(), end_after(times.begin, life.above_us))


def overlapping(sides: Sequence[Gathered], lives: Sequence[LifeSpec | None], bounds: Bounds = ()) -> Iterator[Blocks]:
    """The blocks of all results that new rows complete; of each input's parts, the first is old, the second new."""
    new = [side.part_of_rows == 1 for side in sides]
    yield Timeline.of(sides, lives, bounds).blocks(new, [("new", None), ("old", "new")])


def overlapping_missing(
    sides: Sequence[Gathered], lives: Sequence[LifeSpec | None], bounds: Bounds = ()
) -> Iterator[Blocks]:
    """The blocks of all results whose rows are not of one part: one part after the other is new to those before it."""
    timeline = Timeline.of(sides, lives, bounds)
    parts = [side.part_of_rows for side in sides]
    for part in range(1, sides[0].counts.shape[0]):
        some = timeline.where([each <= part for each in parts])
        yield some.blocks([each == part for each in parts], [("new", "old"), ("old", "new")])


def alive_from(moments: Index, length: int | None) -> Index:
    """When lives of a length began at the earliest that have not ended at some moments; no time is below 0.

    >>> alive_from(np.array([3, 12]), 10).tolist()
    [0, 3]
    """
    return np.zeros_like(moments) if length is None else np.maximum(moments - length + 1, 0)


@dataclass(frozen=True)
class _Lane:
    """The rows of one input: the key of each, its time, and which rows there are, in any order."""

    owners: Index
    times: Times | None
    kept: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Timeline:
    """The rows of some keys in every input, on one scale: ``key * span + time``, so that order is by key, then time."""

    lanes: tuple[_Lane, ...]
    earliest: int
    span: int
    bounds: Bounds = ()

    @classmethod
    def of(cls, sides: Sequence[Gathered], lives: Sequence[LifeSpec | None], bounds: Bounds = ()) -> "Timeline":
        """Put rows on a scale."""
        lanes = []
        for side, life in zip(sides, lives, strict=True):
            times = Times.of(side.rows, life) if life else None
            lanes.append(_Lane(side.owners, times, np.ones(len(side.owners), dtype=np.bool_)))
        begins = [lane.times.begin for lane in lanes if lane.times is not None and len(lane.owners)]
        earliest = min((int(begin.min()) for begin in begins), default=0)
        latest = max((int(begin.max()) for begin in begins), default=0)
        return cls(tuple(lanes), earliest, latest - earliest + 2, bounds)

    def where(self, kept: Sequence[npt.NDArray[np.bool_]]) -> "Timeline":
        """The same with some of the rows."""
        lanes = tuple(_Lane(lane.owners, lane.times, mask) for lane, mask in zip(self.lanes, kept, strict=True))
        return replace(self, lanes=lanes)

    def blocks(self, new: Sequence[npt.NDArray[np.bool_]], terms: Sequence[tuple[Which, Which | None]]) -> Blocks:
        """The blocks of some terms: which rows are the latest, and of which kind one other at least has to be."""
        orders = [self._ordered(lane, fresh) for lane, fresh in zip(self.lanes, new, strict=True)]
        found: list[Blocks] = []
        for number, lane in enumerate(self.lanes):
            if lane.times is not None:
                for which, among in terms:
                    found += self._terms(orders, number, which, among)
        order = tuple(np.concatenate([each.rows[which] for which in KINDS]) for each in orders)
        timed = {number: lane.times for number, lane in enumerate(self.lanes) if lane.times is not None}
        ends = {number: times.end for number, times in timed.items() if times.end is not None}
        between_others = self.bounds if len(timed) > len(("the latest", "another")) else ()
        begins = {number: times.begin for number, times in timed.items()}
        check = Apart(begins, ends, between_others) if ends or between_others else None
        blocks = together([_no_blocks(len(orders)), *found])
        return Blocks(blocks.starts, blocks.lengths, blocks.keys, order, check)

    def _ordered(self, lane: _Lane, new: npt.NDArray[np.bool_]) -> "_Ordered":
        codes = lane.owners * self.span
        if lane.times is not None:
            codes = codes + (lane.times.begin - self.earliest)
        everything = np.argsort(codes, kind="stable")
        everything = everything[lane.kept[everything]]
        is_new = new[everything]
        rows: dict[Which, Index] = {"all": everything, "old": everything[~is_new], "new": everything[is_new]}
        return _Ordered(rows, {which: codes[numbers] for which, numbers in rows.items()})

    def _terms(self, orders: Sequence["_Ordered"], number: int, which: Which, among: Which | None) -> Iterator[Blocks]:
        latest = orders[number].codes[which]
        keys = latest // self.span
        moments = latest - keys * self.span
        some = self._late(orders, number, moments, among)
        if not some.any():
            return
        first = orders[number].base(which)
        numbers, keys, moments = first + np.flatnonzero(some), keys[some], moments[some]
        others = [other for other in range(len(orders)) if other != number]
        if among is None:
            yield self._term(orders, number, numbers, keys, moments, dict.fromkeys(others, "all"))
            return
        before: Which = "old" if among == "new" else "new"
        for place, other in enumerate(others):
            kinds: dict[int, Which] = dict.fromkeys(others[:place], before)
            kinds |= {other: among} | dict.fromkeys(others[place + 1 :], "all")
            yield self._term(orders, number, numbers, keys, moments, kinds)

    def _late(
        self, orders: Sequence["_Ordered"], number: int, moments: Index, among: Which | None
    ) -> npt.NDArray[np.bool_]:
        """The moments at which rows of a kind may live in any input but one."""
        if among is None:
            return np.ones(len(moments), dtype=np.bool_)
        some = np.zeros(len(moments), dtype=np.bool_)
        for other, lane in enumerate(self.lanes):
            rows = orders[other].rows[among]
            if other != number and len(rows):
                first = 0 if lane.times is None else int(lane.times.begin[rows].min()) - self.earliest
                some |= moments >= first
        return some

    def _term(
        self,
        orders: Sequence["_Ordered"],
        number: int,
        numbers: Index,
        keys: Index,
        moments: Index,
        kinds: dict[int, Which],
    ) -> Blocks:
        starts, lengths = np.empty((len(orders), len(keys)), np.int64), np.empty((len(orders), len(keys)), np.int64)
        starts[number], lengths[number] = numbers, 1
        some = np.ones(len(keys), dtype=np.bool_)
        for other, kind in kinds.items():
            low, high = self._range(orders[other].codes[kind], number, other, keys, moments)
            starts[other], lengths[other] = orders[other].base(kind) + low, high - low
            some &= high > low
        return Blocks(starts[:, some], lengths[:, some], keys[some])

    def _range(self, codes: Index, number: int, other: int, keys: Index, moments: Index) -> tuple[Index, Index]:
        """Where the rows of an input lie that live at some moments of some keys, at which rows of another begin."""
        base, times = keys * self.span, self.lanes[other].times
        if times is None:
            return np.searchsorted(codes, base), np.searchsorted(codes, base + self.span)
        after = [later + 1 for first, second, later in self.bounds if (first, second) == (other, number)]
        before = [later + 1 for first, second, later in self.bounds if (first, second) == (number, other)]
        lengths = after if times.length is None else [times.length, *after]
        low = base + alive_from(moments, min(lengths, default=None))
        high = base + moments + min([0 if other > number else 1, *before])
        return np.searchsorted(codes, low), np.searchsorted(codes, high)


KINDS: tuple[Which, ...] = ("all", "old", "new")


@dataclass(frozen=True)
class _Ordered:
    """The rows of one input in order: all, the old ones, the new ones; and their codes."""

    rows: dict[Which, Index]
    codes: dict[Which, Index]

    def base(self, which: Which) -> int:
        """Where the rows of a kind begin if all kinds lie one after the other."""
        return sum(len(self.rows[kind]) for kind in KINDS[: KINDS.index(which)])


def _no_blocks(inputs: int) -> Blocks:
    none = np.empty((inputs, 0), np.int64)
    return Blocks(none, none, np.empty(0, np.int64))


@dataclass(frozen=True)
class Apart:
    """Drops results with a row that ended before another began, or with two that begin too far apart.

    By input it knows when rows begin and end.
    """

    begins: dict[int, Index]
    ends: dict[int, Index]
    bounds: Bounds = ()

    def passed(self, index: Sequence[Index]) -> list[Index]:
        """The results that stay."""
        begins = {number: begin[index[number]] for number, begin in self.begins.items()}
        kept = np.ones(len(index[0]), dtype=np.bool_)
        if self.ends:
            for number, end in self.ends.items():
                others = [begin for other, begin in begins.items() if other != number]
                kept &= end[index[number]] > np.maximum.reduce(others)
        for first, second, later in self.bounds:
            kept &= begins[second] - begins[first] <= later
        return list(index) if kept.all() else [numbers[kept] for numbers in index]


def scaled(sides: Sequence[Gathered], lives: Sequence[LifeSpec | None]) -> Iterator[tuple[int, list[Gathered]]]:
    """The rows of as many keys at a time as fit on one scale, and the number of the first of these keys."""
    keys, timeline = sides[0].counts.shape[1], Timeline.of(sides, lives)
    step = max(1, CODES // timeline.span)
    for start in range(0, keys, step):
        yield start, [side.between(start, min(start + step, keys)) for side in sides] if step < keys else list(sides)
