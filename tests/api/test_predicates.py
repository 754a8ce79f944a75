"""What a function has to be is checked before anything runs."""

import operator
from functools import partial

import pyarrow.compute as pc
import pytest

import watersmeet as wm


def near(left, right, *, by=1):
    return pc.less_equal(pc.abs(pc.subtract(left, right)), by)


def of_three(first, middle, last):
    return pc.less(first, pc.add(middle, last))


def by_name(left, right, *, by):
    return near(left, right, by=by)


class Near:
    def __call__(self, left, right):
        return near(left, right)


@pytest.mark.parametrize(
    "function", [near, partial(near, by=2), pc.less, operator.eq, Near(), Near().__call__, lambda *each: each[0]]
)
def test_a_function_takes_as_many_arrays_as_it_is_given_columns(function):
    assert "A.x, B.x" in repr(wm.predicate(function, "A.x", "B.x"))


@pytest.mark.parametrize(
    ("function", "columns", "why"),
    [
        (lambda left: left, ("A.x", "B.x"), "too many positional arguments"),
        (near, ("A.x", "B.x", "B.y"), "too many positional arguments"),
        (of_three, ("A.x", "B.x"), "missing a required argument: 'last'"),
        (by_name, ("A.x", "B.x"), "missing a required argument: 'by'"),
    ],
)
def test_a_function_of_more_or_fewer_arguments_is_refused(function, columns, why):
    with pytest.raises(wm.QueryError) as refused:
        wm.predicate(function, *columns)
    assert f"is given {len(columns)} columns, {', '.join(columns)}" in refused.value.what
    assert refused.value.why == f"it is called with an array for each of them, by position: {why}"
