"""Aggregate functions against plain Python: of all rows at once, and of partial ones however rows are split."""

import math
import statistics
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from watersmeet.model.errors import StateLimitError
from watersmeet.operators.aggregate.functions import FUNCTIONS, by_group, finished

NAN = float("nan")
LONG, DOUBLE = pa.int64(), pa.float64()
PLAIN = {
    "count": len,
    "sum": lambda known: sum(known) if known else None,
    "avg": lambda known: math.fsum(known) / len(known) if known else None,
    "min": lambda known: min(known, default=None),
    "max": lambda known: max(known, default=None),
    "stddev": lambda known: statistics.stdev(known) if len(known) > 1 else None,
    "stddev_pop": lambda known: statistics.pstdev(known) if known else None,
    "variance": lambda known: statistics.variance(known) if len(known) > 1 else None,
    "var_pop": lambda known: statistics.pvariance(known) if known else None,
    "count_distinct": lambda known: len(set(known)),
}
WITH_NULLS = {"first": lambda values: values[0]}
WIDE = {"avg", "stddev", "stddev_pop", "variance", "var_pop"}


def plain(function, values):
    """What Python says: most functions pass over nulls."""
    if function in WITH_NULLS:
        return WITH_NULLS[function](values)
    return PLAIN[function]([value for value in values if value is not None])


def told(function, groups, kind, result):
    """The value of a function for each group of values, all given at once."""
    numbers = np.repeat(np.arange(len(groups)), [len(each) for each in groups])
    values = pa.array([value for each in groups for value in each], kind)
    return finished(function, FUNCTIONS[function].start(values, numbers), result).to_pylist()


def told_in_parts(function, groups, kind, result):
    """The value for each group, where a group is a list of parts that each come by themselves."""
    flat = [part for parts in groups for part in parts]
    numbers = np.repeat(np.arange(len(flat)), [len(part) for part in flat])
    partial = FUNCTIONS[function].start(pa.array([value for part in flat for value in part], kind), numbers)
    owners = np.repeat(np.arange(len(groups)), [len(parts) for parts in groups])
    return finished(function, FUNCTIONS[function].merge(partial, owners), result).to_pylist()


def one(function, values, kind, result=None):
    return told(function, [values], kind, result or kind)[0]


def result_of(function, kind):
    return LONG if function.startswith("count") else DOUBLE if function in WIDE else kind


def same(got, wanted):
    return all(
        a == b or (None not in (a, b) and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6))
        for a, b in zip(got, wanted, strict=True)
    )


VALUES = st.one_of(st.none(), st.integers(-1000, 1000))
GROUPS = st.lists(st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=4), max_size=4)


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
@pytest.mark.parametrize("kind", [LONG, DOUBLE])
@given(groups=GROUPS)
@settings(max_examples=examples(15), deadline=None)
def test_a_function_is_what_python_says_however_rows_are_split(function, kind, groups):
    whole = [[value for part in parts for value in part] for parts in groups]
    wanted = [plain(function, values) for values in whole]
    result = result_of(function, kind)
    assert same(told(function, whole, kind, result), wanted)
    assert same(told_in_parts(function, groups, kind, result), wanted)


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_without_groups_there_is_nothing(function):
    result = result_of(function, LONG)
    assert told(function, [], LONG, result) == []
    assert told_in_parts(function, [], LONG, result) == []


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_nulls_alone_are_no_values(function):
    wanted = 0 if function.startswith("count") else None
    result = result_of(function, LONG)
    assert told(function, [[None, None]], LONG, result) == [wanted]
    assert told_in_parts(function, [[[None], [None, None]]], LONG, result) == [wanted]


def test_a_number_that_is_not_a_number_is_the_greatest():
    assert math.isnan(one("max", [1.0, NAN, math.inf], DOUBLE))
    assert one("min", [1.0, NAN, None], DOUBLE) == 1.0
    assert math.isnan(one("min", [NAN, None], DOUBLE))
    assert math.isnan(told_in_parts("max", [[[NAN], [5.0]]], DOUBLE, DOUBLE)[0])
    assert told_in_parts("min", [[[NAN], [5.0]]], DOUBLE, DOUBLE) == [5.0]
    for function in ("sum", "avg", "stddev"):
        assert math.isnan(told_in_parts(function, [[[NAN, 1.0], [5.0]]], DOUBLE, DOUBLE)[0])


def test_what_is_not_a_number_is_one_value_among_distinct_ones():
    assert one("count_distinct", [NAN, NAN, 1.0, None], DOUBLE, LONG) == 2


def test_both_zeros_are_one_value():
    assert one("count_distinct", [0.0, -0.0], DOUBLE, LONG) == 1
    assert told_in_parts("count_distinct", [[[0.0], [-0.0]]], DOUBLE, LONG) == [1]


def test_negative_numbers_and_infinities():
    assert one("sum", [-3, 1], LONG) == -2
    assert one("min", [-3, 1], LONG) == -3
    assert one("max", [-3, -1], LONG) == -1
    assert one("max", [-math.inf, -1.0], DOUBLE) == -1.0
    assert one("avg", [-3, 2], LONG, DOUBLE) == -0.5


def test_sums_of_small_kinds_are_wide():
    assert one("sum", [100, 100], pa.int8(), LONG) == 200
    assert one("sum", [2**31 - 1, 1], pa.int32(), LONG) == 2**31
    assert one("sum", [16777216.0, 1.0], pa.float32(), DOUBLE) == 16777217.0


def test_decimals_are_summed_exactly():
    kind, wide = pa.decimal128(10, 2), pa.decimal128(20, 2)
    parts = [[[Decimal("0.10"), None], [Decimal("0.20")]], [[Decimal("-99999999.99")]]]
    assert told_in_parts("sum", parts, kind, wide) == [Decimal("0.30"), Decimal("-99999999.99")]
    assert told_in_parts("max", parts, kind, kind) == [Decimal("0.20"), Decimal("-99999999.99")]
    assert told_in_parts("min", parts, kind, kind) == [Decimal("0.10"), Decimal("-99999999.99")]
    assert told_in_parts("count_distinct", parts, kind, LONG) == [2, 1]


@given(
    parts=st.lists(st.lists(st.decimals("-99999999.99", "99999999.99", places=2), min_size=1, max_size=5), min_size=1)
)
@settings(max_examples=examples(100), deadline=None)
def test_averages_of_decimals_have_four_digits_more_and_are_rounded_half_up(parts):
    values = [value for part in parts for value in part]
    wanted = (sum(values) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    kind, wide = pa.decimal128(10, 2), pa.decimal128(14, 6)
    assert told("avg", [values], kind, wide) == [wanted]
    assert told_in_parts("avg", [parts], kind, wide) == [wanted]


def test_averages_of_decimals_with_all_their_digits():
    kind = pa.decimal128(38, 10)
    large = Decimal("1234567890123456789012.0000000001")
    assert one("avg", [large, large], kind, pa.decimal128(38, 14)) == large
    tie = one("avg", [Decimal(-5), *[Decimal(0)] * 7], pa.decimal128(1, 0), pa.decimal128(5, 4))
    assert tie == Decimal("-0.6250")
    halves = [Decimal("0.01")] * 1 + [Decimal(0)] * 31
    assert one("avg", halves, pa.decimal128(3, 2), pa.decimal128(7, 6)) == Decimal("0.000313")  # 0.0003125
    fraction = pa.decimal128(38, 38)
    assert one("avg", [Decimal("0.5"), Decimal("0.25")], fraction, fraction) == Decimal("0.375")
    assert one("avg", [None], kind, pa.decimal128(38, 14)) is None


def test_values_of_several_columns_are_distinct_if_any_of_them_is():
    kind = pa.struct([("a", pa.int64()), ("b", pa.float64())])
    parts = [[[{"a": 1, "b": 0.0}, {"a": 1, "b": -0.0}], [None, {"a": 2, "b": 0.0}]], [[{"a": 1, "b": NAN}]]]
    assert told_in_parts("count_distinct", parts, kind, LONG) == [2, 1]
    assert told_in_parts("count_distinct", [[[None], [None]]], kind, LONG) == [0]


def test_texts_and_dates_have_a_least_and_a_greatest():
    words = [[["pear", None], ["apple", "é"]], [[""]]]
    assert told_in_parts("min", words, pa.string(), pa.string()) == ["apple", ""]
    assert told_in_parts("max", words, pa.string(), pa.string()) == ["é", ""]
    assert told_in_parts("count_distinct", words, pa.string(), LONG) == [3, 1]
    assert one("count", ["a", None, "a"], pa.string(), LONG) == 2
    instant = pa.timestamp("us", "UTC")
    assert told("max", [[1, 3, None]], instant, instant)[0].microsecond == 3
    assert one("max", [True, False], pa.bool_()) is True


def test_a_spread_of_large_numbers_that_are_close_together_is_right():
    groups = [[[1e9 + 4, 1e9 + 7], [1e9 + 13], [1e9 + 16]]]
    assert same(told_in_parts("variance", groups, DOUBLE, DOUBLE), [30.0])
    assert same(told_in_parts("var_pop", groups, DOUBLE, DOUBLE), [22.5])


def test_one_value_has_a_spread_among_all_and_none_as_a_sample():
    assert one("stddev", [5.0], DOUBLE) is None
    assert one("variance", [5.0], DOUBLE) is None
    assert one("stddev_pop", [5.0], DOUBLE) == 0.0
    assert one("var_pop", [5.0], DOUBLE) == 0.0


def test_groups_keep_their_order():
    assert by_group(pa.array([3, 1, 2, None]), np.array([0, 1, 1, 2]), "sum").to_pylist() == [3, 3, None]


def test_a_sum_too_large_for_its_type_is_told_and_not_wrapped():
    assert one("sum", [2**62, 2**62 - 1], LONG) == 2**63 - 1
    assert one("avg", [2**53 + 1, 2**53 + 1], LONG, DOUBLE) == 2.0**53
    with pytest.raises(StateLimitError, match="larger than a BIGINT") as caught:
        one("sum", [2**62, 2**62], LONG)
    assert "DECIMAL" in str(caught.value)
    with pytest.raises(StateLimitError):
        told_in_parts("sum", [[[-(2**63)], [-1]]], LONG, LONG)


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_partial_aggregates_of_nulls_alone_have_the_types_of_others(function: str) -> None:
    nulls, numbers = pa.nulls(2, pa.float64()), pa.array([1.0, 2.0])
    groups = np.array([0, 1])
    types = [[part.type for part in FUNCTIONS[function].start(values, groups)] for values in (nulls, numbers)]
    assert types[0] == types[1]
