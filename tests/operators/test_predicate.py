"""Conditions on pairs of rows have SQL's three values, and Spark's order of numbers."""

import operator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.errors import StateLimitError
from watersmeet.model.plan import Test as Condition
from watersmeet.operators.computing import COMPUTED
from watersmeet.operators.predicate import FUNCTIONS, evaluate
from watersmeet.operators.predicate import Tested as Check

NAN = float("nan")
COMPARED = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
NUMBERS = st.none() | st.integers(-3, 3)
FLOATS = st.none() | st.sampled_from([NAN, -0.0, 0.0, 1.5, float("inf"), -float("inf")])


def value(function, left, right, kind=None):
    columns = {"A.x": pa.array([left], kind), "B.y": pa.array([right], kind)}
    return evaluate(Condition(function, ("A.x", "B.y")), columns).to_pylist()[0]


def place(number):
    """Where a number stands: one that is none is greater than all others."""
    return (1, 0.0) if np.isnan(number) else (0, number + 0.0)


@pytest.mark.parametrize("function", COMPARED)
@given(left=NUMBERS, right=NUMBERS)
def test_whole_numbers_are_compared(function, left, right):
    expected = None if left is None or right is None else COMPARED[function](left, right)
    assert value(function, left, right, pa.int64()) == expected


@pytest.mark.parametrize("function", COMPARED)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@given(left=FLOATS, right=FLOATS)
def test_floats_are_compared_as_in_spark(function, kind, left, right):
    expected = None if left is None or right is None else COMPARED[function](place(left), place(right))
    assert value(function, left, right, kind) == expected


@given(FLOATS, FLOATS)
def test_nulls_are_equal_where_that_is_asked(left, right):
    either = left is None or right is None
    expected = left is right if either else place(left) == place(right)
    assert value("null_safe_eq", left, right, pa.float64()) == expected


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [("B", "a", pa.string()), (b"\x01", b"\xff", pa.binary()), (1, 2, pa.timestamp("us", "UTC")), (1, 2, pa.date32())],
)
def test_other_types_are_compared_by_their_bytes_or_numbers(left, right, kind):
    assert value("lt", left, right, kind)
    assert not value("ge", left, right, kind)


TEXTS = st.none() | st.text("aé\0%", max_size=3)


@given(st.lists(st.tuples(TEXTS, TEXTS)))
def test_texts_begin_with_others(pairs):
    columns = {"A.x": pa.array([left for left, _ in pairs], pa.string())}
    columns["B.y"] = pa.array([right for _, right in pairs], pa.string())
    expected = [None if None in pair else pair[0].startswith(pair[1]) for pair in pairs]
    assert evaluate(Condition("starts_with", ("A.x", "B.y")), columns).to_pylist() == expected


@pytest.mark.parametrize("left", [True, False, None])
@pytest.mark.parametrize("right", [True, False, None])
def test_conditions_are_combined_with_three_values(left, right):
    both = left and right if left is not None and right is not None else (False if False in (left, right) else None)
    any_of = left or right if left is not None and right is not None else (True if True in (left, right) else None)
    assert value("and", left, right, pa.bool_()) == both
    assert value("or", left, right, pa.bool_()) == any_of
    negated = evaluate(Condition("not", ("A.x",)), {"A.x": pa.array([left], pa.bool_())})
    assert negated.to_pylist() == [None if left is None else not left]
    untrue = evaluate(Condition("untrue", ("A.x",)), {"A.x": pa.array([left], pa.bool_())})
    assert untrue.to_pylist() == [left is not True]


def test_every_function_is_one_of_those_tested_here():
    named = {"null_safe_eq", "starts_with", "and", "or", "not", "untrue"}
    assert set(FUNCTIONS) == {*COMPARED, *COMPUTED, *named}


ROWS = [
    pa.record_batch({"A.x": pa.array([1, 2, None]), "A.unread": pa.array(["a", "b", "c"])}),
    pa.record_batch({"B.y": pa.array([2, None])}),
]
EVERY = [np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])]


class OnlyFirst:
    """Drops all but the pairs of the first row."""

    def passed(self, index):
        return [numbers[index[0] == 0] for numbers in index]


def test_pairs_that_pass_all_tests_stay_and_unknown_ones_do_not():
    less, same = Condition("lt", ("A.x", "B.y")), Condition("eq", ("A.x", "B.y"))
    assert [each.tolist() for each in Check(ROWS, [less]).passed(EVERY)] == [[0], [0]]
    assert [each.tolist() for each in Check(ROWS, [less, same]).passed(EVERY)] == [[], []]
    assert [each.tolist() for each in Check(ROWS, [Condition("or", (less, same))]).passed(EVERY)] == [[0, 1], [0, 0]]


def test_another_check_comes_first():
    same = Condition("le", ("A.x", "B.y"))
    assert [each.tolist() for each in Check(ROWS, [same], OnlyFirst()).passed(EVERY)] == [[0], [0]]


def test_no_pairs_are_no_pairs():
    none = [np.array([], np.int64)] * 2
    assert [each.tolist() for each in Check(ROWS, [Condition("lt", ("A.x", "B.y"))]).passed(none)] == [[], []]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_sums_and_products_are_compared(kind):
    columns = {"A.x": pa.array([2, -3, None], kind), "B.y": pa.array([5, 4, 1], kind)}
    both = [Condition(name, ("A.x", "B.y")) for name in ("add", "subtract", "multiply")]
    assert [evaluate(each, columns).to_pylist() for each in both] == [[7, 1, None], [-3, -7, None], [10, -12, None]]
    size = Condition("abs", (Condition("negate", ("A.x",)),))
    more = Condition("gt", (Condition("add", (size, "B.y")), Condition("number", (), low=7)))
    assert evaluate(more, columns).to_pylist() == [False, False, None]
    turned = Condition("lt", (Condition("number", (), low=6), Condition("add", (size, "B.y"))))
    assert evaluate(turned, columns).to_pylist() == [True, True, None]


def test_a_sum_that_is_too_large_is_told_and_not_wrapped():
    columns = {"A.x": pa.array([2**63 - 1]), "B.y": pa.array([1])}
    with pytest.raises(StateLimitError, match="larger than a BIGINT"):
        evaluate(Condition("add", ("A.x", "B.y")), columns)


@pytest.mark.parametrize(
    ("text", "pattern", "held"),
    [
        ("abc", "a%", True),
        ("abc", "a_", False),
        ("abc", "a__", True),
        ("a%c", "a\\%c", True),
        ("abc", "a\\%c", False),
        ("a\\c", "a\\\\c", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("a\nc", "a%c", True),
        ("abc\n", "abc", False),
        ("ABC", "abc", False),
        ("é", "_", True),
        ("", "", True),
        ("", "%", True),
        ("a", None, None),
        (None, "%", None),
    ],
)
def test_texts_are_like_patterns_as_in_spark(text, pattern, held):
    assert value("like", text, pattern, pa.string()) == held


def test_each_text_is_compared_with_its_own_pattern():
    columns = {"A.x": pa.array(["ab", "ab", "ba", None]), "B.y": pa.array(["a%", "b%", "b%", "%"])}
    assert evaluate(Condition("like", ("A.x", "B.y")), columns).to_pylist() == [True, False, True, None]
