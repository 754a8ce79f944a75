"""All that is promised of a stream's columns, asked at once: since when a row, or a key, will not come any more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.hashing import xxhash64
from watersmeet.operators.predicate import FUNCTIONS
from watersmeet.operators.promises.patterns import Ends, PatternColumn, Patterns, shape_of
from watersmeet.operators.promises.ranges import LONG_AGO, MOST, NEVER, Numbers, Ranges, is_countable, numbers_of
from watersmeet.operators.ranges import Index, distinct
from watersmeet.state.groups import Hashes
from watersmeet.state.rows import SortedRows

Mask = npt.NDArray[np.bool_]

SORTED_FROM = 1 << 9
"""Among so many ranges, values are found much faster in order."""

POINTS_MOST = 1 << 16
"""As many new keys are looked up one by one; with more, all rows are looked at."""


@dataclass(frozen=True)
class RangesOfColumn:
    """What is promised of a column, in several sets."""

    column: str
    sets: Sequence[Ranges]

    def since(self, values: pa.Array) -> Numbers:
        """Since when each value is promised; a null never is."""
        if not self.sets:
            return np.full(len(values), NEVER)
        numbers = numbers_of(values)
        if sum(len(each.rows) for each in self.sets) < SORTED_FROM:
            found = reduce(np.minimum, (each.since(numbers) for each in self.sets))
        else:
            numbers, places = np.unique(numbers, return_inverse=True)
            found = reduce(np.minimum, (each.since(numbers) for each in self.sets))[places]
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), found, NEVER) if values.null_count else found


def rows_since(
    ranges: Sequence[RangesOfColumn],
    patterns: Sequence[Patterns],
    values: Mapping[str, pa.Array],
    words: Mapping[str, pa.Array],
) -> Numbers:
    """Since when rows are promised not to come, by the values of their columns and the words of those not countable."""
    count = len(next(iter(values.values())))
    found = np.full(count, NEVER)
    for each in ranges:
        found = np.minimum(found, each.since(values[each.column]))
    if patterns:
        known = {
            name: numbers_of(column) if is_countable(column.type) else words[name].fill_null(0).to_numpy()
            for name, column in values.items()
        }
        for some in patterns:
            found = np.minimum(found, some.since(values, known))
    return found


@dataclass(frozen=True)
class KeyPatterns:
    """Patterns that promise keys.

    ``columns`` are the stream's columns that are the parts of a key, None for a part that is none. Patterns of the
    ``shape`` have a value for each part, and are found by the hash of the key: that of theirs, or (``rehash``) the hash
    of that; then parts are compared, unless equal hashes mean equal keys. Others are compared with the parts they name.

    All may also say of the stream's ``time`` that no row comes before one: then a key is promised for rows that have
    come to their end by then, the ``length`` after what their last column tells; without one, they never have.
    """

    sets: Sequence[Patterns]
    columns: tuple[str | None, ...]
    shape: int | None = None
    rehash: bool = False
    hash_decides: bool = False
    time: str | None = None
    length: int | None = None

    def since(self, rows: SortedRows, keys: Sequence[str], last: str | None = None) -> Numbers:
        """Since when the keys of rows are promised, whose ``last`` column tells when they end."""
        found, ends = np.full(len(rows), NEVER), self._ends(rows, last)
        for each in self.sets:
            for shape in self._whole(each):
                mine, since = self._since_by_hash(each, shape, rows, keys, ends)
                np.minimum.at(found, mine, since)
            shapes = self._compared(each)
            if shapes and len(rows):
                found = np.minimum(found, self._since_by_value(each, shapes, rows, keys, ends))
            for shape, column in self._texts(each).items():
                found = np.minimum(found, each.since_by_text(rows.rows.column(keys[self.columns.index(column)]), shape))
        return found

    def hashes_since(self, version: int) -> Hashes | None:
        """The hashes of the keys promised since a version or later; None where they cannot be told."""
        if any(each.has_any_since(version, [*self._compared(each), *self._texts(each)]) for each in self.sets):
            return None
        known = [
            each.keys_since(version, shape, rehash=self.rehash) for each in self.sets for shape in self._whole(each)
        ]
        return np.concatenate(known) if known else np.empty(0, np.uint64)

    def _compared(self, some: Patterns) -> list[int]:
        """The shapes of patterns that name parts of keys only, and are compared by value."""
        known = [each.value in self.columns for each in some.columns]
        countable = [is_countable(some.rows.rows.schema.field(each.value).type) for each in some.columns]
        values = shape_of([n for n, is_known in enumerate(known) if is_known and countable[n]])
        ranges, time = shape_of([], [n for n, is_known in enumerate(known) if is_known]), self._time_bit(some)
        whole = self._whole(some)
        return [
            each
            for each in some.shapes
            if each & ~(values | ranges | time) == 0 and each & (values | ranges) and each not in whole
        ]

    def _whole(self, some: Patterns) -> list[int]:
        """The shapes of patterns that have a value for each part of the key."""
        return [] if self.shape is None else [*dict.fromkeys((self.shape, self.shape | self._time_bit(some)))]

    def _time_bit(self, some: Patterns) -> int:
        return shape_of([], [number for number, each in enumerate(some.columns) if each.value == self.time])

    def _ends(self, rows: SortedRows, last: str | None) -> Ends | None:
        """Before which time no row of the stream may come any more that each row can be joined with."""
        if self.time is None:
            return None
        if last is None or self.length is None:
            return self.time, np.full(len(rows), MOST)
        lasts = numbers_of(rows.rows.column(last))
        return self.time, np.where(lasts > MOST - self.length, MOST, lasts + self.length)

    def _since_by_hash(
        self, some: Patterns, shape: int, rows: SortedRows, keys: Sequence[str], ends: Ends | None
    ) -> tuple[Index, Numbers]:
        """Rows with keys that patterns of a shape promise, and since when they do."""
        mine, places, since = some.with_keys(rows.hashes, shape, rehash=self.rehash)
        chosen = np.ones(len(mine), dtype=np.bool_)
        if not self.hash_decides and len(mine):
            chosen &= self._are_equal(some, rows, keys, mine, places)
        if shape != self.shape and ends is not None:
            chosen &= ends[1][mine] <= some.until(ends[0])[places]
        return mine[chosen], since[chosen]

    def _texts(self, some: Patterns) -> dict[int, str]:
        """The shapes of patterns that have a value for one part of a key only, one that is not counted in numbers."""
        found = {
            shape_of([n]): each.value
            for n, each in enumerate(some.columns)
            if each.value in self.columns and not is_countable(some.rows.rows.schema.field(each.value).type)
        }
        return {shape: name for shape, name in found.items() if shape in some.shapes and shape != self.shape}

    def _since_by_value(
        self, some: Patterns, shapes: Sequence[int], rows: SortedRows, keys: Sequence[str], ends: Ends | None
    ) -> Numbers:
        values, words = {}, {}
        for each in some.columns:
            kind = some.rows.rows.schema.field(each.value).type
            own = rows.rows.column(keys[self.columns.index(each.value)]) if each.value in self.columns else None
            values[each.value] = pa.nulls(len(rows), kind) if own is None else own
            words[each.value] = numbers_of(values[each.value]) if is_countable(kind) else np.zeros(len(rows), np.int64)
        return some.since(values, words, shapes, ends)

    def _are_equal(self, some: Patterns, rows: SortedRows, keys: Sequence[str], mine: Index, places: Index) -> Mask:
        index, chosen = pa.array(mine), pa.array(places)
        tests = [
            FUNCTIONS["eq"](
                rows.rows.column(key).take(index), _cast(some.rows.rows.column(column).take(chosen), rows, key)
            )
            for key, column in zip(keys, self.columns, strict=True)
            if column is not None
        ]
        equal: Mask = reduce(pc.and_, tests).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
        return equal


def _cast(values: pa.Array, rows: SortedRows, key: str) -> pa.Array:
    kind = rows.rows.schema.field(key).type
    return values if values.type == kind else values.cast(kind)


@dataclass(frozen=True)
class KeyRanges:
    """What is promised of one part of a key: its place in the key, and its type where the hash is of it alone."""

    place: int
    sets: Sequence[Ranges]
    type: pa.DataType | None = None


@dataclass(frozen=True)
class StreamKeys:
    """Which keys a stream brings no more rows for; all, if it has ended."""

    ended: int | None = None
    ranges: tuple[KeyRanges, ...] = ()
    patterns: tuple[KeyPatterns, ...] = ()
    passed: tuple[tuple[int, int], ...] = ()

    def since(self, rows: SortedRows, keys: Sequence[str], last: str | None = None) -> Numbers:
        """Since when the keys of rows are promised, whose ``last`` column tells when they end."""
        found = np.full(len(rows), NEVER if self.ended is None else self.ended)
        for each in self.ranges:
            found = np.minimum(found, RangesOfColumn("", each.sets).since(rows.rows.column(keys[each.place])))
        return reduce(np.minimum, (each.since(rows, keys, last) for each in self.patterns), found)

    def passed_since(self, since: Numbers) -> Numbers:
        """Since when promises are passed on that hold since some versions; `NEVER` where they are not yet."""
        upto, at = np.array([*self.passed, (NEVER, NEVER)], np.int64).T
        return np.asarray(at[np.searchsorted(upto, since, side="left")])

    def first_passed_since(self, version: int) -> int:
        """The oldest version of promises that are passed on since another version or later, or are not yet."""
        return max((upto + 1 for upto, at in self.passed if at < version), default=LONG_AGO)

    def hashes_since(self, version: int) -> Hashes | None:
        """The hashes of the keys promised since a version or later; None where they cannot be told."""
        if self.ended is not None and self.ended >= version:
            return None
        parts = []
        for each in self.ranges:
            numbers = [some.numbers_since(version, POINTS_MOST) for some in each.sets]
            known = [some for some in numbers if some is not None]
            if each.type is None or len(known) < len(numbers):
                if any(some is None or len(some) for some in numbers):
                    return None
            elif known:
                parts.append(xxhash64([_of_type(np.concatenate(known), each.type)]))
        for own in self.patterns:
            hashes = own.hashes_since(version)
            if hashes is None:
                return None
            parts.append(hashes)
        return distinct([np.sort(each) for each in parts]) if parts else np.empty(0, np.uint64)


def _of_type(numbers: Numbers, kind: pa.DataType) -> pa.Array:
    """Numbers as values of a type, those that it has."""
    if pa.types.is_timestamp(kind):
        return pa.array(numbers).cast(kind)
    if kind == pa.date32():
        return pa.array(numbers.astype(np.int32)).view(kind)
    if kind == pa.bool_():
        return pa.array(numbers[(numbers == 0) | (numbers == 1)]).cast(kind)
    bits = kind.bit_width
    fitting = numbers[(numbers >= -(1 << (bits - 1))) & (numbers <= (1 << (bits - 1)) - 1)]
    return pa.array(fitting).cast(kind)


@dataclass(frozen=True)
class InputKeys:
    """Which keys an input brings no more rows for.

    They are those that all streams it is made of have promised, if these are all (``is_whole``); and those that are
    passed on of any.
    """

    streams: tuple[StreamKeys, ...]
    is_whole: bool = True

    def since(self, rows: SortedRows, keys: Sequence[str], last: str | None = None) -> Numbers:
        """Since when the keys of rows are promised, whose ``last`` column tells when they end."""
        known = [each.since(rows, keys, last) for each in self.streams]
        found = reduce(np.maximum, known, np.full(len(rows), LONG_AGO if self.is_whole else NEVER))
        passed = (each.passed_since(own) for each, own in zip(self.streams, known, strict=True) if each.passed)
        return reduce(np.minimum, passed, found)

    def hashes_since(self, version: int) -> Hashes | None:
        """The hashes of keys among which all are that are promised since a version; None where they cannot be told."""
        firsts = [min(version, each.first_passed_since(version)) if each.passed else version for each in self.streams]
        known = [each.hashes_since(first) for each, first in zip(self.streams, firsts, strict=True)]
        told = [each for each in known if each is not None]
        return distinct(told) if told and len(told) == len(known) else None


def pattern_columns(names: Sequence[str]) -> tuple[PatternColumn, ...]:
    """The columns of a set of patterns over some columns."""
    return tuple(map(PatternColumn.of, names))
