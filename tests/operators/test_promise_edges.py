"""What is promised of values at the edges of their types."""

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.promises.patterns import PatternColumn, Patterns, pattern_schema, shape_of
from watersmeet.operators.promises.ranges import NEVER
from watersmeet.operators.promises.sets import KeyPatterns, rows_since
from watersmeet.state.rows import SortedRows

NAN = float("nan")
VALUE, RANGE = shape_of([0]), shape_of([], [0])
WORDS = {NAN: 7, 5.0: 8, None: 0}


def patterns(shape, low, high=None):
    columns = [[shape], [1], [WORDS.get(low)], [low], [high], [WORDS.get(low)]]
    schema = pattern_schema({"B.x": pa.float64()})
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return Patterns.of(pa.RecordBatch.from_arrays(arrays, schema=schema), (PatternColumn.of("B.x"),))


@pytest.mark.parametrize(
    ("promised", "found"),
    [
        (patterns(VALUE, NAN), [True, False, False]),
        (patterns(VALUE, 5.0), [False, True, False]),
        (patterns(RANGE, 1.0), [True, True, False]),
        (patterns(RANGE, 1.0, NAN), [False, True, False]),
        (patterns(RANGE, NAN), [True, False, False]),
    ],
    ids=["the value NaN", "a value", "a range without an end", "a range up to NaN", "a range from NaN"],
)
def test_numbers_that_are_none_are_equal_and_above_all_others(promised, found):
    rows = {"B.x": pa.array([NAN, 5.0, None])}
    words = {"B.x": pa.array([WORDS[each] for each in (NAN, 5.0, None)])}
    assert (rows_since([], [promised], rows, words) < NEVER).tolist() == found


def test_a_key_that_is_no_number_is_promised_by_its_like():
    rows = SortedRows(np.array([7, 8], np.uint64), pa.record_batch({"x": [NAN, 5.0]}))
    keys = KeyPatterns([patterns(VALUE, NAN)], ("B.x",), VALUE)
    assert (keys.since(rows, ["x"]) < NEVER).tolist() == [True, False]


def test_a_null_of_a_unique_column_promises_no_group():
    """Rows with a null are in the store of a unique column, too; a null is no value that could come again."""
    unique = patterns(VALUE, None)
    assert (unique.since_by_text(pa.array([None, 5.0]), VALUE) < NEVER).tolist() == [False, False]
    assert (patterns(VALUE, 5.0).since_by_text(pa.array([None, 5.0]), VALUE) < NEVER).tolist() == [False, True]
