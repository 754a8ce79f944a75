"""Promised values of one column that is counted in whole numbers: ranges, merged where they adjoin.

A punctuation that speaks of one such column only is a range ``[first, last]`` of numbers, a single value one of length
one. So 1, 2 and 3 take the room of one range. Each has the version *since* when it holds, for those that ask which
promises are new; where nobody does any more, it is `LONG_AGO`, and only then do ranges of different versions become
one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.hashing import is_hashable
from watersmeet.operators.ranges import expand

Numbers = npt.NDArray[np.int64]

LEAST, MOST = -(1 << 63), (1 << 63) - 1
LONG_AGO, NEVER = 0, MOST
"""Since when a promise holds that every row has been told of, and one that was not made."""

FIRST, LAST, SINCE = "#first", "#last", "#since"
SCHEMA = pa.schema({FIRST: pa.int64(), LAST: pa.int64(), SINCE: pa.int64()})


def is_countable(kind: pa.DataType) -> bool:
    """Whether values of a type are counted in whole numbers, so that one has a next.

    >>> is_countable(pa.date32()), is_countable(pa.string())
    (True, False)
    """
    return is_hashable(kind)


def numbers_of(column: pa.Array) -> Numbers:
    """The values of a countable column; nulls are 0.

    >>> numbers_of(pa.array([True, None])).tolist()
    [1, 0]
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.view(pa.int64())
    elif kind == pa.date32():
        column = column.view(pa.int32())
    filled: Numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return filled


@dataclass(frozen=True)
class Ranges:
    """Disjoint ranges of each version, in order: by version, then by their first number."""

    rows: pa.RecordBatch

    @classmethod
    def of(
        cls, first: Numbers, last: Numbers, since: Numbers, told_by: int = LONG_AGO, apart: Sequence[int] = ()
    ) -> "Ranges":
        """Make ranges fewer: those that overlap or adjoin and are of one version, or of versions up to ``told_by``.

        Of these, the versions that are told ``apart`` stand for those before them.

        >>> ones = np.ones(3, np.int64)
        >>> Ranges.of(np.array([3, 1, 9]), np.array([3, 2, 9]), ones).rows.to_pylist()[0]
        {'#first': 1, '#last': 3, '#since': 1}
        """
        since = settled(since, told_by, apart)
        parts = [_merged(first[since == each], last[since == each], each) for each in np.unique(since).tolist()]
        return cls(pa.Table.from_batches(parts, SCHEMA).combine_chunks().to_batches()[0] if parts else _NONE)

    @classmethod
    def merged(cls, some: Sequence["Ranges"], told_by: int = LONG_AGO, apart: Sequence[int] = ()) -> "Ranges":
        """All ranges of some sets."""
        rows = pa.Table.from_batches([each.rows for each in some], SCHEMA)
        first, last, since = (rows.column(name).to_numpy() for name in SCHEMA.names)
        return cls.of(first, last, since, told_by, apart)

    @classmethod
    def reached(cls, some: Sequence["Ranges"], start: int) -> int:
        """How far ranges go on without a gap: the first number from ``start`` on that is in none, or `MOST`.

        >>> Ranges.reached([Ranges.of(np.array([3, 9]), np.array([5, 9]), np.ones(2, np.int64))], 3)
        6
        """
        first, last, _ = (column.to_numpy() for column in cls.merged(some, MOST).rows.columns)
        place = int(np.searchsorted(first, start, side="right")) - 1
        if place < 0 or last[place] < start:
            return start
        return min(int(last[place]) + 1, MOST)

    def since(self, values: Numbers) -> Numbers:
        """Since which version each value is promised, or `NEVER`."""
        found = np.full(len(values), NEVER)
        for version, first, last in self._layers:
            place = np.searchsorted(first, values, side="right") - 1
            is_in = (place >= 0) & (values <= last[place])
            np.minimum(found, np.where(is_in, version, NEVER), out=found)
        return found

    def numbers_since(self, version: int, limit: int) -> Numbers | None:
        """The numbers that are promised since a version or later; None if they are more than a limit."""
        chosen = [(first, last) for since, first, last in self._layers if since >= version]
        if sum(float((last.astype(np.float64) - first + 1).sum()) for first, last in chosen) > limit:
            return None
        parts = [expand(first, last - first + 1) for first, last in chosen]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    @cached_property
    def _layers(self) -> list[tuple[int, Numbers, Numbers]]:
        first, last, since = (self.rows.column(name).to_numpy() for name in SCHEMA.names)
        return list(_by_version(first, last, since))


def settled(since: Numbers, told_by: int, apart: Sequence[int] = ()) -> Numbers:
    """Versions up to ``told_by`` made fewer: the next one that is told apart stands for each, or `LONG_AGO` for all.

    >>> settled(np.array([1, 2, 4, 7]), 5).tolist(), settled(np.array([1, 2, 4, 7]), 5, [2, 3, 8]).tolist()
    ([0, 0, 0, 7], [2, 2, 4, 7])
    """
    known = np.array([version for version in apart if version <= told_by], np.int64)
    if not apart:
        return np.where(since <= told_by, LONG_AGO, since)
    place = np.searchsorted(known, since, side="left")
    return np.where(place < len(known), np.append(known, NEVER)[place], since)


def _by_version(first: Numbers, last: Numbers, since: Numbers) -> Iterator[tuple[int, Numbers, Numbers]]:
    if len(since) and since[0] == since[-1]:  # they are in order
        yield int(since[0]), first, last
        return
    versions, starts = np.unique(since, return_index=True)
    for version, start, stop in zip(versions.tolist(), starts, [*starts[1:], len(since)], strict=False):
        yield version, first[start:stop], last[start:stop]


def _merged(first: Numbers, last: Numbers, since: int) -> pa.RecordBatch:
    order = np.argsort(first, kind="stable")
    first, last = first[order], last[order]
    reached = np.maximum.accumulate(last)
    begins = np.ones(len(first), dtype=np.bool_)
    # The number before a first one exists where that is greater than another.
    begins[1:] = (first[1:] > reached[:-1]) & (first[1:] - (first[1:] > LEAST) > reached[:-1])
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(first)) - 1
    columns = [pa.array(first[starts]), pa.array(reached[ends]), pa.array(np.full(len(starts), since))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


_NONE = pa.RecordBatch.from_arrays([pa.array([], pa.int64())] * 3, schema=SCHEMA)
