"""Conditions on pairs of rows, evaluated here: comparisons of columns, and what AND, OR and NOT make of them.

Besides, there are differences that have to be within limits, and functions of the user's.

The planner has Spark compute everything that concerns one row alone, in a type both sides share. What is left are
functions of columns that give a boolean, with SQL's three values. Numbers that are not a number are equal to each other
and greater than all others, as in Spark.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.plan import Test
from watersmeet.operators.calls import FailsOnRowError
from watersmeet.operators.computing import COMPUTED
from watersmeet.operators.costs import Cost, Costs
from watersmeet.operators.estimates import may_be_less
from watersmeet.operators.ranges import Index
from watersmeet.operators.widths import Widths, fitting
from watersmeet.state.groups import Mask

Columns = Mapping[str, pa.Array]
Functions = Mapping[str, Callable[..., pa.Array]]

FIRST_PAIRS = 1024
"""So many pairs tell in which order tests are asked, if nothing else does."""

ASKED_LIMIT_BYTES = 32 << 20
"""Of what a test reads, so much is copied at a time; if a pair has more, that of one pair."""


def evaluate(test: Test, columns: Columns, functions: Functions | None = None) -> pa.Array:
    """Whether a test holds, for each pair of rows; null where SQL does not know. ``functions`` are the user's, by name.

    >>> both = Test("and", (Test("lt", ("A.x", "B.x")), Test("not", (Test("eq", ("A.x", "B.y")),))))
    >>> evaluate(
    ...     both, {"A.x": pa.array([1, 2, None]), "B.x": pa.array([2, 2, 2]), "B.y": pa.array([0, 0, 0])}
    ... ).to_pylist()
    [True, False, None]
    """
    if test.function == "may_be_less":
        return may_be_less(test, columns)
    arguments = [
        columns[each] if isinstance(each, str) else evaluate(each, columns, functions) for each in test.arguments
    ]
    if test.function == "within":
        return _within(test, *arguments)
    if test.function == "call":
        return (functions or {})[test.name](*arguments)
    if test.function == "number":
        return pa.scalar(test.low)
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


def _starts_with(text: pa.Array, prefix: pa.Array) -> pa.Array:
    """By length of the prefixes, as bytes: those of one length are compared at once."""
    texts, prefixes = (each.cast(pa.binary()) for each in (text, prefix))
    either = pc.and_(texts.is_valid(), prefixes.is_valid()).to_numpy(zero_copy_only=False)
    lengths = pc.binary_length(prefixes).fill_null(0).to_numpy(zero_copy_only=False)
    order = np.argsort(lengths, kind="stable")
    held = np.zeros(len(order), np.bool_)
    for some in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1) if len(order) else ():
        rows, length = pa.array(some), int(lengths[some[0]])
        same = pc.equal(pc.binary_slice(texts.take(rows), 0, length), prefixes.take(rows))
        held[some] = same.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return pa.array(held, mask=~either)


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "eq": _equal,
    "ne": lambda left, right: pc.invert(_equal(left, right)),
    "lt": _less,
    "le": lambda left, right: pc.invert(_less(right, left)),
    "gt": lambda left, right: _less(right, left),
    "ge": lambda left, right: pc.invert(_less(left, right)),
    "null_safe_eq": _null_safe,
    "starts_with": _starts_with,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "untrue": lambda held: pc.invert(pc.fill_null(held, fill_value=False)),
    **COMPUTED,
}


class Check(Protocol):
    """Drops some of the combinations of rows."""

    def passed(self, index: Sequence[Index]) -> list[Index]:
        """Those that stay, as row numbers in every input."""


@dataclass(frozen=True)
class Asked:
    """Tests that pairs have to pass, each asked of those that the ones before it have left: what drops most first.

    Where the order is not known yet, a few pairs tell it. Nothing is asked of no pairs.
    """

    tests: Sequence[Test]
    functions: Functions | None
    costs: Costs
    _widths: dict[str, Widths] = field(default_factory=dict, compare=False)

    def passed(self, index: Sequence[Index], rows: Sequence[pa.RecordBatch]) -> list[Index]:
        """The combinations that stay, of ``rows`` of every input."""
        count = len(index[0])
        if len(self.tests) == 1 or count <= FIRST_PAIRS or self.costs.are_known(self.tests):
            return self._passed(list(index), rows)
        parts = [[each[some] for each in index] for some in (slice(FIRST_PAIRS), slice(FIRST_PAIRS, None))]
        first, rest = (self._passed(part, rows) for part in parts)
        return [np.concatenate(both) for both in zip(first, rest, strict=True)]

    def _passed(self, index: list[Index], rows: Sequence[pa.RecordBatch]) -> list[Index]:
        for test in self.costs.ordered(self.tests):
            count = len(index[0])
            if not count:
                break
            started = time.perf_counter()
            kept = self._held(test, index, rows)
            index = [numbers[kept] for numbers in index]
            self.costs.add(test, Cost(count, len(index[0]), time.perf_counter() - started))
        return index

    def _held(self, test: Test, index: Sequence[Index], rows: Sequence[pa.RecordBatch]) -> Mask:
        """Which pairs pass a test; it is asked of as many at a time as their values may be copied for."""
        found = {name: _found(rows, name) for name in test.columns}
        widths = [self._widths_of(name, values) for name, (_, values) in found.items()]
        held = []
        for part in fitting(widths, [index[place] for place, _ in found.values()], ASKED_LIMIT_BYTES):
            some = {name: values.take(pa.array(index[place][part])) for name, (place, values) in found.items()}
            try:
                passed = evaluate(test, some, self.functions)
            except FailsOnRowError as error:
                numbers = [each[part][error.row] for each in index]
                raise error.with_values(_known_by(rows, numbers, test.columns)) from error.__cause__
            held.append(passed.fill_null(fill_value=False).to_numpy(zero_copy_only=False).astype(np.bool_))
        return held[0] if len(held) == 1 else np.concatenate(held)

    def _widths_of(self, name: str, values: pa.Array) -> Widths:
        if name not in self._widths:
            self._widths[name] = Widths.of([values])
        return self._widths[name]


@dataclass(frozen=True)
class Tested:
    """Drops the combinations of rows that do not pass all tests, after those that another check drops."""

    rows: Sequence[pa.RecordBatch]
    tests: Sequence[Test]
    first: Check | None = None
    functions: Functions | None = None
    costs: Costs = field(default_factory=Costs)

    def passed(self, index: Sequence[Index]) -> list[Index]:
        """Those that stay."""
        index = list(index) if self.first is None else self.first.passed(index)
        return Asked(self.tests, self.functions, self.costs).passed(index, self.rows)


def _found(rows: Sequence[pa.RecordBatch], name: str) -> tuple[int, pa.Array]:
    """A column by its name, and the number of the input that has it."""
    place = next(place for place, batch in enumerate(rows) if name in batch.schema.names)
    return place, rows[place].column(name)


def _known_by(rows: Sequence[pa.RecordBatch], numbers: Sequence[int], besides: Collection[str]) -> Mapping[str, object]:
    """The plain values of some rows: ids and times are among them. Names of ours begin with a sign."""
    columns = [
        (field, batch.column(place)[int(number)])
        for batch, number in zip(rows, numbers, strict=True)
        for place, field in enumerate(batch.schema)
    ]
    return {
        field.name: value.as_py()
        for field, value in sorted(columns, key=lambda each: each[0].name)
        if field.name not in besides and "#" not in field.name and not _is_long(field.type)
    }


def _is_long(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
