"""What arithmetic on two rows gives, and how far that may be off: enough to drop most pairs before Spark decides.

Spark has its own rules for overflows, zeros to divide by and rounding. So a value is computed here as a double, with a
bound on how far Spark's own may be from it; a pair is dropped only if the condition cannot hold. Where nobody knows, as
of what is not finite or very large, the pair stays. Null is null in all of these functions, and no match.

The steps are those of running error analysis: each adds what it rounds to what its arguments were off.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.plan import Test

Floats = npt.NDArray[np.float64]
Columns = Mapping[str, pa.Array]

TINY = 1e-300
"""Below this, doubles have fewer digits."""


class Estimate(NamedTuple):
    """Values, and by how much they may be off at most; what is not known is off by any number."""

    value: Floats
    error: Floats


def may_be_less(test: Test, columns: Columns) -> pa.Array:
    """Whether the first value may be less than the second, or the same, for all that is known; null where one is null.

    ``high`` is the part by which each step may be off, and beyond ``low`` nothing is known of a number.

    >>> distance = Test("sqrt", (Test("add", ("A.x", "B.x")),))
    >>> near = Test("may_be_less", (distance, Test("number", (), low=2)), low=1e18, high=1e-15)
    >>> columns = {"A.x": pa.array([1.0, 5.0, None, -9.0]), "B.x": pa.array([3.0, 5.0, 1.0, 2.0])}
    >>> may_be_less(near, columns).to_pylist()
    [True, False, None, True]
    """
    with np.errstate(all="ignore"):
        rounding = _Rounding(float(test.high or 0), float(test.low or 0))
        left, right = (_estimate(each, columns, rounding) for each in test.arguments)
        surely_more = left.value - left.error > right.value + right.error
    valid = [columns[name].is_valid().to_numpy(zero_copy_only=False) for name in test.columns]
    return pa.array(~surely_more, mask=~np.logical_and.reduce(valid))


class _Rounding(NamedTuple):
    part: float
    most: float

    def rounded(self, value: Floats, error: Floats) -> Estimate:
        """What a step gives, which is rounded itself."""
        error = error * (1 + 2 * self.part) + self.part * np.abs(value) + TINY
        is_known = (np.abs(value) < self.most) & np.isfinite(error)
        return Estimate(np.where(is_known, value, 0.0), np.where(is_known, error, np.inf))


def _estimate(test: Test | str, columns: Columns, rounding: _Rounding) -> Estimate:
    nothing = np.array(0.0)
    if isinstance(test, str):
        return rounding.rounded(pc.fill_null(columns[test], 0.0).to_numpy(zero_copy_only=False), nothing)
    if test.function == "number":
        return rounding.rounded(np.array(float(test.low or 0)), nothing)
    return rounding.rounded(*FUNCTIONS[test.function](*(_estimate(each, columns, rounding) for each in test.arguments)))


def _add(one: Estimate, other: Estimate) -> Estimate:
    return Estimate(one.value + other.value, one.error + other.error)


def _subtract(one: Estimate, other: Estimate) -> Estimate:
    return Estimate(one.value - other.value, one.error + other.error)


def _multiply(one: Estimate, other: Estimate) -> Estimate:
    error = np.abs(one.value) * other.error + np.abs(other.value) * one.error + one.error * other.error
    return Estimate(one.value * other.value, error)


def _divide(one: Estimate, other: Estimate) -> Estimate:
    least = np.abs(other.value) - other.error
    value = one.value / other.value
    error = (one.error + np.abs(value) * other.error) / least
    return Estimate(value, np.where(least > 0, error, np.inf))


def _sqrt(one: Estimate) -> Estimate:
    """Of what may be less than 0, which has none, nothing is known."""
    value, least = np.sqrt(np.maximum(one.value, 0.0)), one.value - one.error
    return Estimate(value, np.where(least >= 0, value - np.sqrt(np.maximum(least, 0.0)), np.inf))


def _abs(one: Estimate) -> Estimate:
    return Estimate(np.abs(one.value), one.error)


FUNCTIONS: Mapping[str, Callable[..., Estimate]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "sqrt": _sqrt,
    "abs": _abs,
}
