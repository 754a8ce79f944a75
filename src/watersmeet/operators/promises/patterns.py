"""Punctuations that are no plain range: of several columns, or of values that are not counted in whole numbers.

A *pattern* says of each column a value, a range ``[low, high)`` or nothing. Its *shape* tells which: a bit for every
column that has a value, and another for every one that has a range. Rows are compared only with patterns whose values
have the same hash; then everything is compared, so hashes decide nothing. Patterns without any value are compared with
every row, in blocks.

A column's *word* is what is hashed of it: the number itself where it is countable, else Spark's hash of the value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.hashing import xxhash64
from watersmeet.operators.predicate import FUNCTIONS
from watersmeet.operators.promises.ranges import LEAST, LONG_AGO, MOST, NEVER, SINCE, Numbers, numbers_of, settled
from watersmeet.operators.ranges import Index, cut, expand
from watersmeet.state.groups import Hashes
from watersmeet.state.rows import SortedRows, take_rows

SHAPE, KEY = "#shape", "#key"
RANGES = 31
"""The bits of ranges begin here, so a stream has at most as many columns that punctuations speak of."""

BLOCK_PAIRS = 1 << 18

Ends = tuple[str, Numbers]
"""A column of time, and for each row, before which time those would have to come that it can be joined with."""


@dataclass(frozen=True)
class PatternColumn:
    """A column that patterns speak of: where its value or low bound is, its high bound, and its word."""

    value: str
    until: str
    word: str

    @classmethod
    def of(cls, name: str) -> "PatternColumn":
        """The columns of a stream's column in a set of patterns.

        >>> PatternColumn.of("B.id").until
        'B.id#until'
        """
        return cls(name, f"{name}#until", f"{name}#word")


def shape_of(values: Sequence[int], ranges: Sequence[int] = ()) -> int:
    """The shape of patterns that have values for some columns, and ranges for others, by their numbers.

    >>> shape_of([0, 1]), shape_of([], [0]) == 1 << RANGES
    (3, True)
    """
    return sum(1 << number for number in values) + sum(1 << (RANGES + number) for number in ranges)


@dataclass(frozen=True)
class Patterns:
    """Patterns over some columns, sorted by the hash of their values."""

    rows: SortedRows
    columns: tuple[PatternColumn, ...]

    @classmethod
    def of(
        cls,
        rows: pa.RecordBatch,
        columns: tuple[PatternColumn, ...],
        told_by: int = LONG_AGO,
        apart: Sequence[int] = (),
    ) -> "Patterns":
        """Hash, sort, and keep one of equal ones: the oldest."""
        old = pa.array(settled(rows.column(SINCE).to_numpy(), told_by, apart))
        place = rows.schema.get_field_index(SINCE)
        table = pa.Table.from_batches([rows]).set_column(place, SINCE, old)
        others = [name for name in table.column_names if name != SINCE]
        fewer = table.group_by(others).aggregate([(SINCE, "min")]).rename_columns([*others, SINCE])
        batch = fewer.select(rows.schema.names).cast(rows.schema).combine_chunks().to_batches()
        kept = batch[0] if batch else rows
        shapes = kept.column(SHAPE).to_numpy()
        words = [kept.column(each.word).fill_null(0).to_numpy(zero_copy_only=False) for each in columns]
        hashes = _hashes(shapes, words)
        order = np.argsort(hashes, kind="stable")
        return cls(SortedRows(hashes[order], take_rows(kept, order)), columns)

    def since_by_text(self, values: pa.Array, shape: int) -> Numbers:
        """Since which version each value of a column is promised by patterns of a shape that name it alone."""
        column = self.columns[next(n for n in range(len(self.columns)) if shape == shape_of([n]))].value
        chosen = pa.array(self.rows.rows.column(SHAPE).to_numpy() == shape)
        known = self.rows.rows.column(column).filter(chosen)
        place = pc.index_in(values, value_set=known.cast(values.type), skip_nulls=True)  # a null is no value
        since = np.append(self.rows.rows.column(SINCE).filter(chosen).to_numpy(), NEVER)
        return np.asarray(since[place.fill_null(len(known)).to_numpy(zero_copy_only=False)])

    def since(
        self,
        values: Mapping[str, pa.Array],
        words: Mapping[str, Numbers],
        shapes: Sequence[int] | None = None,
        ends: Ends | None = None,
    ) -> Numbers:
        """Since which version each row matches a pattern of some shapes or of any, or `NEVER`.

        Of a column of time, a row has to have come to its end instead, if ``ends`` are given.
        """
        count = len(next(iter(values.values())))
        found = np.full(count, NEVER)
        own = [words[each.value] for each in self.columns]
        for shape in self.shapes if shapes is None else shapes:
            hashes = _hashes(np.full(count, shape), own)
            low = np.searchsorted(self.rows.hashes, hashes, side="left")
            pairs = np.searchsorted(self.rows.hashes, hashes, side="right") - low
            for start, stop in cut(pairs, BLOCK_PAIRS) if pairs.any() else ():
                rows = np.repeat(np.arange(start, stop), pairs[start:stop])
                candidates = expand(low[start:stop], pairs[start:stop])
                matching = self._matching(shape, values, rows, candidates, ends)
                np.minimum.at(found, rows[matching], self._since[candidates[matching]])
        return found

    def with_keys(self, hashes: Hashes, wanted_shape: int, *, rehash: bool = False) -> tuple[Index, Index, Numbers]:
        """Pairs of a hash and of a pattern of a shape that promises a key with it, and since when it does."""
        keys, places = self._keys(wanted_shape, rehash)
        low, high = (np.searchsorted(keys, hashes, side=side) for side in ("left", "right"))
        found = places[expand(low, high - low)]
        return np.repeat(np.arange(len(hashes)), high - low), found, self._since[found]

    def keys_since(self, version: int, wanted_shape: int, *, rehash: bool = False) -> Hashes:
        """The hashes of keys that are promised since a version or later by patterns of a shape."""
        keys, places = self._keys(wanted_shape, rehash)
        chosen: Hashes = keys[self._since[places] >= version]
        return chosen

    def _keys(self, shape: int, rehash: bool) -> tuple[Hashes, Index]:  # noqa: FBT001
        """The hashes of keys, sorted, and their patterns."""
        shapes = self.rows.rows.column(SHAPE).to_numpy()
        keys = self.rows.rows.column(KEY)
        places = np.flatnonzero((shapes == shape) & keys.is_valid().to_numpy(zero_copy_only=False))
        hashes = keys.take(pa.array(places))
        found = xxhash64([hashes]) if rehash and len(places) else hashes.to_numpy().view(np.uint64)
        order = np.argsort(found, kind="stable")
        return found[order], places[order]

    def _matching(
        self, shape: int, values: Mapping[str, pa.Array], rows: Index, candidates: Index, ends: Ends | None
    ) -> Index:
        """Which of some pairs of a row and a pattern match."""
        tests = []
        index, chosen = pa.array(rows), pa.array(candidates)
        for number, each in enumerate(self.columns):
            own = values[each.value]
            if shape >> number & 1:
                tests.append(FUNCTIONS["eq"](own.take(index), self.rows.rows.column(each.value).take(chosen)))
            elif shape >> (RANGES + number) & 1 and ends is not None and each.value == ends[0]:
                tests.append(pa.array(ends[1][rows] <= self.until(each.value)[candidates]))
            elif shape >> (RANGES + number) & 1:
                taken = own.take(index)
                low = FUNCTIONS["ge"](taken, self.rows.rows.column(each.value).take(chosen))
                high = FUNCTIONS["lt"](taken, self.rows.rows.column(each.until).take(chosen))
                open_low = self.rows.rows.column(each.value).take(chosen).is_null()
                open_high = self.rows.rows.column(each.until).take(chosen).is_null()
                tests += [taken.is_valid(), pc.or_kleene(low, open_low), pc.or_kleene(high, open_high)]
        matches = reduce(pc.and_kleene, tests).fill_null(fill_value=False)
        return np.flatnonzero(matches.to_numpy(zero_copy_only=False))

    def until(self, column: str) -> Numbers:
        """The time before which each pattern says that no row comes, of a column of time; of some, never."""
        each = PatternColumn.of(column)
        low, high = self.rows.rows.column(each.value), self.rows.rows.column(each.until)
        ends = np.where(high.is_null(), MOST, numbers_of(high))
        return np.where(low.is_null(), ends, LEAST)

    def has_any_since(self, version: int, shapes: Sequence[int]) -> bool:
        """Whether there are patterns of some shapes since a version or later."""
        own = self.rows.rows.column(SHAPE).to_numpy()
        return bool(shapes) and bool((np.isin(own, shapes) & (self._since >= version)).any())

    @cached_property
    def shapes(self) -> list[int]:
        """The shapes that patterns have."""
        return [int(each) for each in np.unique(self.rows.rows.column(SHAPE).to_numpy())]

    @cached_property
    def _since(self) -> Numbers:
        since: Numbers = self.rows.rows.column(SINCE).to_numpy()
        return since


def pattern_schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """The columns of a set of patterns over columns of some types."""
    fields = [(SHAPE, pa.int64()), (SINCE, pa.int64()), (KEY, pa.int64())]
    for name, kind in columns.items():
        each = PatternColumn.of(name)
        fields += [(each.value, kind), (each.until, kind), (each.word, pa.int64())]
    return pa.schema(fields)


def _hashes(shapes: Numbers, words: Sequence[Numbers]) -> Hashes:
    """The hashes of patterns, or of rows as if they were such: of the shape, and of the words that are values in it."""
    chosen = [np.where(shapes >> number & 1, word, 0) for number, word in enumerate(words)]
    return xxhash64([pa.array(each) for each in (shapes, *chosen)])
