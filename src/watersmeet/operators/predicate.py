"""Conditions on pairs of rows, evaluated here: comparisons of columns, and what AND, OR and NOT make of them.

Besides, there are differences that have to be within limits, and functions of the user's.

The planner has Spark compute everything that concerns one row alone, in a type both sides share. What is left are
functions of columns that give a boolean, with SQL's three values. Numbers that are not a number are equal to each other
and greater than all others, as in Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.plan import Test
from watersmeet.operators.ranges import Index

Columns = Mapping[str, pa.Array]
Functions = Mapping[str, Callable[..., pa.Array]]


def evaluate(test: Test, columns: Columns, functions: Functions | None = None) -> pa.Array:
    """Whether a test holds, for each pair of rows; null where SQL does not know. ``functions`` are the user's, by name.

    >>> both = Test("and", (Test("lt", ("A.x", "B.x")), Test("not", (Test("eq", ("A.x", "B.y")),))))
    >>> evaluate(
    ...     both, {"A.x": pa.array([1, 2, None]), "B.x": pa.array([2, 2, 2]), "B.y": pa.array([0, 0, 0])}
    ... ).to_pylist()
    [True, False, None]
    """
    arguments = [
        columns[each] if isinstance(each, str) else evaluate(each, columns, functions) for each in test.arguments
    ]
    if test.function == "within":
        return _within(test, *arguments)
    if test.function == "call":
        return (functions or {})[test.name](*arguments)
    return FUNCTIONS[test.function](*arguments)


def _within(test: Test, left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether a difference is within limits; that of whole numbers may be too large for a number."""
    if pa.types.is_integer(left.type):
        difference = pc.subtract(left.cast(pa.decimal128(19)), right.cast(pa.decimal128(19)))
        low, high = (
            None if each is None else pa.scalar(int(each), pa.decimal128(20)) for each in (test.low, test.high)
        )
    else:
        difference = pc.subtract(left, right)
        low, high = (None if each is None else pa.scalar(float(each)) for each in (test.low, test.high))
    less, more = ("lt", "gt") if test.excluded else ("le", "ge")
    held = [FUNCTIONS[more](difference, low)] if low is not None else []
    held += [FUNCTIONS[less](difference, high)] if high is not None else []
    return held[0] if len(held) == 1 else pc.and_kleene(*held)


def _equal(left: pa.Array, right: pa.Array) -> pa.Array:
    if not pa.types.is_floating(left.type):
        return pc.equal(left, right)
    return pc.or_kleene(pc.equal(left, right), pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))


def _less(left: pa.Array, right: pa.Array) -> pa.Array:
    if not pa.types.is_floating(left.type):
        return pc.less(left, right)
    return pc.or_kleene(pc.less(left, right), pc.and_kleene(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


def _null_safe(left: pa.Array, right: pa.Array) -> pa.Array:
    same = pc.fill_null(_equal(left, right), fill_value=False)
    return pc.or_(same, pc.and_(left.is_null(), right.is_null()))


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "eq": _equal,
    "ne": lambda left, right: pc.invert(_equal(left, right)),
    "lt": _less,
    "le": lambda left, right: pc.invert(_less(right, left)),
    "gt": lambda left, right: _less(right, left),
    "ge": lambda left, right: pc.invert(_less(left, right)),
    "null_safe_eq": _null_safe,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
}


class Check(Protocol):
    """Drops some of the combinations of rows."""

    def passed(self, index: Sequence[Index]) -> list[Index]:
        """Those that stay, as row numbers in every input."""


@dataclass(frozen=True)
class Tested:
    """Drops the pairs of rows that do not pass all tests, after those that another check drops."""

    rows: Sequence[pa.RecordBatch]
    tests: Sequence[Test]
    first: Check | None = None
    functions: Functions | None = None

    def passed(self, index: Sequence[Index]) -> list[Index]:
        """The pairs that stay."""
        index = list(index) if self.first is None else self.first.passed(index)
        names = frozenset().union(*(test.columns for test in self.tests))
        columns = {
            name: batch.column(name).take(pa.array(numbers))
            for batch, numbers in zip(self.rows, index, strict=True)
            for name in batch.schema.names
            if name in names
        }
        held = [evaluate(test, columns, self.functions).fill_null(fill_value=False) for test in self.tests]
        kept = np.logical_and.reduce([each.to_numpy(zero_copy_only=False) for each in held])
        return [numbers[kept] for numbers in index]
