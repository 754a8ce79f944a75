"""Kernels of promises against plain Python: ranges, patterns, and what they say of keys."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from watersmeet.operators.hashing import xxhash64
from watersmeet.operators.promises.patterns import (
    KEY,
    SHAPE,
    PatternColumn,
    Patterns,
    pattern_schema,
    shape_of,
)
from watersmeet.operators.promises.ranges import LEAST, MOST, NEVER, SINCE, Ranges, numbers_of
from watersmeet.operators.promises.sets import KeyPatterns, KeyRanges, StreamKeys, rows_since
from watersmeet.state.rows import SortedRows, sort_rows

EDGES = st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST])
NUMBERS = st.integers(-5, 20) | EDGES
RANGES = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(1, 3)).filter(lambda each: each[0] <= each[1]), max_size=8)


def made(ranges, told_by=0):
    columns = [np.array([each[place] for each in ranges], np.int64) for place in range(3)]
    return Ranges.of(*columns, told_by)


def wanted(ranges, value, told_by=0):
    since = [0 if each[2] <= told_by else each[2] for each in ranges if each[0] <= value <= each[1]]
    return min(since, default=NEVER)


@given(ranges=RANGES, more=RANGES, told_by=st.integers(0, 3))
@settings(max_examples=examples(200), deadline=None)
def test_values_are_promised_since_the_first_range_that_holds_them(ranges, more, told_by):
    values = [*range(-6, 22), LEAST, LEAST + 1, MOST - 1, MOST]
    both = Ranges.merged([made(ranges), made(more)], told_by)
    assert both.since(np.array(values)).tolist() == [wanted([*ranges, *more], value, told_by) for value in values]


def test_ranges_that_adjoin_become_one_and_those_of_other_versions_do_not():
    assert made([(1, 1, 1), (3, 3, 1), (2, 2, 1), (5, 9, 1)]).rows.to_pylist() == [
        {"#first": 1, "#last": 3, "#since": 1},
        {"#first": 5, "#last": 9, "#since": 1},
    ]
    assert len(made([(1, 1, 1), (2, 2, 2)]).rows) == 2
    assert len(made([(1, 1, 1), (2, 2, 2)], told_by=2).rows) == 1


@given(ranges=RANGES, version=st.integers(0, 4))
@settings(max_examples=examples(100), deadline=None)
def test_new_numbers_are_told_one_by_one_if_they_are_few(ranges, version):
    new = [each for each in ranges if each[2] >= version]
    numbers = made(ranges).numbers_since(version, 100)
    if any(last - first > 100 for first, last, _ in new):
        assert numbers is None
    elif numbers is not None:
        assert {*numbers.tolist()} == {value for first, last, _ in new for value in range(first, last + 1)}


COLUMNS = {"B.k": pa.string(), "B.n": pa.int64()}
TEXTS, COUNTS = st.sampled_from(["a", "b", "c"]), st.integers(0, 3)


@st.composite
def patterns(draw):
    pattern = {}
    for name, values in (("B.k", TEXTS), ("B.n", COUNTS)):
        kind = draw(st.sampled_from(["any", "value", "range"]))
        if kind == "value":
            pattern[name] = (draw(values),)
        elif kind == "range":
            pattern[name] = (draw(st.none() | values), draw(st.none() | values))
    return pattern or {"B.n": (draw(COUNTS),)}


def word(value):
    """Any number will do; these meet each other."""
    return 0 if value is None else ord(value) % 2


def pattern_set(drawn, told_by=0):
    rows = []
    for pattern, since in drawn:
        bounds = [(number, pattern.get(name, ())) for number, name in enumerate(COLUMNS)]
        shape = shape_of([n for n, b in bounds if len(b) == 1], [n for n, b in bounds if len(b) == 2])
        row = {SHAPE: shape, SINCE: since, KEY: None}
        for name in COLUMNS:
            each, found = PatternColumn.of(name), pattern.get(name, (None,))
            row[each.value], row[each.until] = found[0], found[1] if len(found) == 2 else None
            row[each.word] = (word(found[0]) if name == "B.k" else found[0] or 0) if len(found) == 1 else 0
        rows.append(row)
    batch = pa.RecordBatch.from_pylist(rows, schema=pattern_schema(COLUMNS))
    return Patterns.of(batch, tuple(map(PatternColumn.of, COLUMNS)), told_by)


def is_in(value, bounds):
    if value is None:
        return False
    if len(bounds) == 1:
        return value == bounds[0]
    return (bounds[0] is None or value >= bounds[0]) and (bounds[1] is None or value < bounds[1])


ROWS = st.lists(st.tuples(st.none() | TEXTS, st.none() | COUNTS), min_size=1, max_size=8)


@given(drawn=st.lists(st.tuples(patterns(), st.integers(1, 3)), min_size=1, max_size=6), rows=ROWS)
@settings(max_examples=examples(200), deadline=None)
def test_rows_are_promised_since_the_first_pattern_they_match(drawn, rows):
    values = {"B.k": pa.array([k for k, _ in rows], pa.string()), "B.n": pa.array([n for _, n in rows], pa.int64())}
    words = {"B.k": pa.array([word(k) for k, _ in rows], pa.int64())}
    found = rows_since([], [pattern_set(drawn)], values, words).tolist()
    matching = [
        [
            since
            for pattern, since in drawn
            if all(is_in(dict(zip(COLUMNS, row, strict=True))[n], b) for n, b in pattern.items())
        ]
        for row in rows
    ]
    assert found == [min(each, default=NEVER) for each in matching]


def state(keys):
    column = pa.array(keys, pa.int64())
    return sort_rows(xxhash64([column]), pa.record_batch({"A.k": column}))


def test_keys_are_promised_by_ranges_by_patterns_and_by_the_end_of_a_stream():
    rows: SortedRows = state([1, 2, 3, 9])
    of = dict(zip(rows.rows.column("A.k").to_pylist(), range(4), strict=True))
    by_range = StreamKeys(ranges=(KeyRanges(0, [made([(1, 2, 5)])], pa.int64()),))
    since = by_range.since(rows, ["A.k"])
    assert [since[of[key]] for key in (1, 2, 3, 9)] == [5, 5, NEVER, NEVER]
    assert {*by_range.hashes_since(5).tolist()} == {*state([1, 2]).hashes.tolist()}
    assert StreamKeys(ended=7).since(rows, ["A.k"]).tolist() == [7] * 4
    assert StreamKeys(ended=7).hashes_since(7) is None


def test_keys_with_one_hash_are_told_apart():
    batch = pa.RecordBatch.from_pylist(
        [
            {SHAPE: 1, SINCE: since, KEY: 42, "B.k": text, "B.k#until": None, "B.k#word": 42}
            for text, since in (("a", 3), ("b", 4))
        ],
        schema=pattern_schema({"B.k": pa.string()}),
    )
    some = Patterns.of(batch, (PatternColumn.of("B.k"),))
    rows = SortedRows(np.full(3, 42, np.uint64), pa.record_batch({"A.k": ["b", "a", "c"]}))
    assert KeyPatterns([some], ("B.k",), shape=1).since(rows, ["A.k"]).tolist() == [4, 3, NEVER]


def test_countable_values_are_numbers():
    assert numbers_of(pa.array([1, None], pa.date32())).tolist() == [1, 0]
    assert numbers_of(pa.array([5], pa.timestamp("us", "UTC"))).tolist() == [5]
