"""What leads to rows never leads past a pair that passes, whatever sums are rounded to."""

import math
import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.planning.queries import DOUBLE, FLOAT, INT, LONG

from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.planning.endless import unbounded
from watersmeet.planning.linear import Rounding, bounds
from watersmeet.planning.predicates import predicate_name
from watersmeet.planning.restart import continued

DOUBLES = [0.0, -0.0, 0.1, -0.3, 1e16, -1e16, 1.0, 5e-324, 1e300, -1e308, 1.7e308, math.inf, -math.inf, math.nan]
FLOATS = [float(np.float32(each)) for each in (0.0, 0.1, -0.3, 1e8, -1e8, 16777217, 3e38, -3e38, math.inf, math.nan)]
WHOLE = [0, 1, -1, 2**31 - 1, 2**53 + 1, -(2**53) - 3, 2**63 - 1, -(2**63)]
TIME = pa.field("ts", pa.timestamp("us", "UTC"))


def place(number):
    """Spark's order: what is no number is greater than all others."""
    return (1, 0.0) if math.isnan(number) else (0, number)


@pytest.mark.parametrize(
    ("kind", "values", "as_kind"),
    [(LONG, WHOLE, int), (DOUBLE, DOUBLES, np.float64), (FLOAT, FLOATS, np.float32)],
    ids=["whole", "double", "float"],
)
def test_a_pair_that_passes_is_led_to(kind, values, as_kind):
    """``a + b - c + d <= 0``, summed up from the left, of which a and c are the one input's."""
    rounding, chance = Rounding.of([kind]), random.Random(1)
    least = bounds([("a", True), ("c", False)], rounding, is_least=True)
    most = bounds([("b", False), ("d", False)], rounding, is_least=False)
    rows = [tuple(chance.choice(values) for _ in range(4)) for _ in range(4000)]
    rows += [(a, -a, c, c) for a in values if a != -(2**63) for c in values]
    columns = {name: pa.array([row[n] for row in rows], kind) for n, name in enumerate("abcd")}
    asked = pa.table(columns)
    led = duckdb.sql(f"SELECT {least} AS low, {most} AS high FROM asked").fetchall()
    passed = 0
    with np.errstate(all="ignore"):
        for row, (low, high) in zip(rows, led, strict=True):
            a, b, c, d = map(as_kind, row)
            if place(float(a + b - c + d)) <= (0, 0.0):
                passed += 1
                assert place(low) <= place(high), row
    assert passed > 500
    assert asked.num_rows > passed


def leads(on, **columns):
    schema = pa.schema([*((name, kind) for name, kind in columns.items()), TIME])
    nodes = tuple(StreamNode(name, schema, "ts", 10, 0) for name in "AB")
    made = plan(Query(JoinNode(nodes, on)), lambda *_: LONG)
    return [test.name for test in made.root.tests if test.leads and test.function != "may_be_less"]


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("A.x + B.x < 3", ["A.x - 3 <= - B.x"]),
        ("A.x - B.x = 2", ["A.x - 2 <= B.x", "2 - A.x <= - B.x"]),
        ("ABS(A.x - B.y) < A.y", ["A.x - A.y <= B.y", "- A.x - A.y <= - B.y"]),
        ("ABS(A.d - B.d) < 0.05", ["A.d - 0.05 <= B.d", "- A.d - 0.05 <= - B.d"]),
        ("ABS(A.x - B.x) < 2 * 3", ["A.x - 2 * 3 <= B.x", "- A.x - 2 * 3 <= - B.x"]),
        ("A.x IN (B.x, B.y)", ["A.x IN (B.x, B.y)"]),
        ("ABS(A.x - B.x) > A.y", []),
        ("A.x * B.x < 3", []),
        ("A.x + B.x + A.y + B.y < 3", []),
        ("A.h + B.h < 3", []),
        ("A.x + B.x < CAST(RAND() AS BIGINT)", []),
        ("ABS(A.x - B.x) < 5", []),
    ],
)
def test_sums_lead_to_rows(on, expected):
    assert leads(on, x=LONG, y=INT, d=pa.decimal128(10, 2), h=pa.decimal128(38, 10)) == expected


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("ABS(A.x - B.x) > A.y", ["A.y <= ABS(A.x - B.x)"]),
        ("A.x * B.x = 3", ["A.x * B.x <= 3", "3 <= A.x * B.x"]),
        ("SQRT(POW(A.f - B.f, 2)) BETWEEN 1 AND 2", ["1 <= SQRT(POW(A.f - B.f, 2))", "SQRT(POW(A.f - B.f, 2)) <= 2"]),
        ("HYPOT(A.f, B.f) < 2", ["HYPOT(A.f, B.f) <= 2"]),
        ("A.d * B.d < 3", []),
        ("A.x % B.x < 3", []),
        ("A.x * B.x < 3 OR A.y * B.y < 3", []),
    ],
)
def test_arithmetic_is_asked_before_spark_is(on, expected):
    schema = pa.schema([("x", LONG), ("y", INT), ("f", DOUBLE), ("d", pa.decimal128(10, 2)), TIME])
    nodes = tuple(StreamNode(name, schema, "ts", 10, 0) for name in "AB")
    for text in (on, f"A.x = B.x AND {predicate_name(1, 'slow')}(A.x, B.x) AND ({on})"):
        root = plan(Query(JoinNode(nodes, text)), lambda *_: LONG).root
        assert [test.name for test in root.tests if test.function == "may_be_less"] == expected
        assert len(root.filters) == 1, "Spark decides"


def test_a_plan_that_does_not_lead_to_rows_goes_on_and_one_does_not_lead_past_what_is_asked_now():
    schema = pa.schema([("x", LONG), ("y", INT), TIME])
    nodes = tuple(StreamNode(name, schema, "ts", 10, 0) for name in "AB")
    near, below = "ABS(A.x - B.x) < A.y", "A.x + B.x < 3"
    both, one = (plan(Query(JoinNode(nodes, on), ("A.x",))) for on in (f"{near} AND {below}", near))
    old = replace(both, operators=tuple(map(unled, both.operators)))
    assert continued(old, both) == old
    going = continued(both, one)
    assert going is not None
    assert [test.name for test in going.root.tests] == [test.name for test in one.root.tests]


def unled(operator):
    """An operator as it was planned before anything led to rows."""
    inputs = tuple(
        replace(each, computed=(), state=tuple(column for column in each.state if "#" not in column.name))
        for each in operator.inputs
    )
    return replace(operator, tests=(), inputs=inputs)


def test_what_leads_to_rows_is_not_taken_for_a_condition_on_times():
    schema = pa.schema([("x", LONG), TIME])
    nodes = tuple(StreamNode(name, schema, "ts", None, 0) for name in "AB")
    made = plan(Query(JoinNode(nodes, "A.x * B.x < 3 AND A.x + B.x < 3")), lambda *_: LONG, endless=True)
    assert len(list(unbounded(made))) == 0
