"""Estimates never say that a condition cannot hold where Spark may find that it does."""

import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.model.plan import Test as Condition
from watersmeet.operators.estimates import may_be_less

VALUES = [0.0, -0.0, 1.0, -1.0, 0.1, 3.0, -7.25, 1e-160, 1e9, -1e9, 1e17, 1e200, math.inf, -math.inf, math.nan]
STEPS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}
NAMES = ["A.x", "A.y", "B.x", "B.y"]


def drawn(chance, depth):
    if depth == 0 or chance.random() < 0.2:
        name = chance.choice([*NAMES, "number"])
        return Condition("number", (), low=chance.choice([2, 0.3])) if name == "number" else name
    function = chance.choice([*STEPS, "sqrt", "abs"])
    return Condition(function, tuple(drawn(chance, depth - 1) for _ in range(2 if function in STEPS else 1)))


def computed(test, row, kind):
    """As Spark does, step by step."""
    if isinstance(test, str):
        return kind(row[test])
    if test.function == "number":
        return kind(test.low)
    arguments = [computed(each, row, kind) for each in test.arguments]
    if test.function == "sqrt":
        return kind(np.sqrt(np.float64(arguments[0])))
    return kind(np.abs(arguments[0])) if test.function == "abs" else STEPS[test.function](*arguments)


@pytest.mark.parametrize(("kind", "part"), [(np.float64, 1e-15), (np.float32, 1e-6)])
def test_a_pair_that_passes_is_kept(kind, part):
    chance, dropped, passed = random.Random(3), 0, 0
    with np.errstate(all="ignore"):
        for _ in range(300):
            test = Condition("may_be_less", (drawn(chance, 3), drawn(chance, 2)), 1e18, part)
            if not test.columns:
                continue
            rows = [{name: float(kind(chance.choice(VALUES))) for name in NAMES} for _ in range(30)]
            kept = may_be_less(test, {name: pa.array([row[name] for row in rows]) for name in NAMES}).to_pylist()
            for row, stays in zip(rows, kept, strict=True):
                left, right = (float(computed(each, row, kind)) for each in test.arguments)
                holds = math.isnan(right) or left <= right  # what is no number is greater than all others
                assert stays or not holds, (test, row)
                passed, dropped = passed + holds, dropped + (not stays)
    assert min(passed, dropped) > 1000


def test_what_clearly_does_not_hold_is_dropped():
    square = Condition("multiply", ("A.x", "B.x"))
    test = Condition("may_be_less", (square, Condition("number", (), low=9)), 1e18, 1e-15)
    columns = {"A.x": pa.array([3.0, 3.0000001, None]), "B.x": pa.array([3.0, 3.0, 1.0])}
    assert may_be_less(test, columns).to_pylist() == [True, False, None]
    assert Fraction(3.0000001) * 3 > 9
