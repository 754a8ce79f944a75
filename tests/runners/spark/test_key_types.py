"""Keys of every type join as Spark's own batch join has it, nulls, NaN and signed zeros included."""

import datetime as dt
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.support.oracle import multiset
from tests.support.spark_runs import run

import watersmeet as wm

pytestmark = pytest.mark.spark

D, T = dt.date, dt.datetime
STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
KEYS: dict[str, tuple[pa.DataType, list[object]]] = {
    "byte": (pa.int8(), [-1, -128, 127, None]),
    "short": (pa.int16(), [1, -(2**15), None]),
    "int": (pa.int32(), [0, -1, 2**31 - 1, None]),
    "long": (pa.int64(), [0, -1, 2**63 - 1, None]),
    "text": (pa.string(), ["", "a", "ä\u0000b", "x" * 300, None]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\xff\x00", None]),
    "flag": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [D(1970, 1, 1), D(1, 1, 1), D(9999, 12, 31), None]),
    "instant": (pa.timestamp("us", "UTC"), [T(2024, 3, 31, 1, 30, 0, 1), T(1900, 1, 1), None]),
    "wall": (pa.timestamp("us"), [T(2024, 3, 31, 2, 30), T(1900, 1, 1), None]),
    "small_decimal": (pa.decimal128(9, 2), [Decimal("1.10"), Decimal("-0.01"), None]),
    "big_decimal": (pa.decimal128(38, 10), [Decimal("1.1"), Decimal("12345678901234567890.5"), None]),
    "single": (pa.float32(), [0.0, -0.0, 1.5, float("nan"), float("inf"), None]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, float("nan"), float("-inf"), None]),
    "struct_of_floats": (
        pa.struct([("x", pa.float64()), ("y", pa.float32())]),
        [
            {"x": 0.0, "y": 1.0},
            {"x": -0.0, "y": 1.0},
            {"x": float("nan"), "y": -0.0},
            {"x": float("nan"), "y": 0.0},
            None,
        ],
    ),
    "array": (pa.list_(pa.int64()), [[1, 2], [2, 1], [1, None], [], None]),
    "array_of_floats": (pa.list_(pa.float64()), [[0.0, float("nan")], [-0.0, float("nan")], [1.5], None]),
    "array_of_structs": (pa.list_(STRUCT), [[{"x": 1, "y": "a"}], [{"x": 1, "y": None}, None], [], None]),
    "struct": (STRUCT, [{"x": 1, "y": "a"}, {"x": None, "y": "a"}, {"x": None, "y": None}, None]),
}


def table(values: dict[str, tuple[pa.DataType, list[object]]], shift: int) -> pa.Table:
    """Every column runs through its values at its own pace, so that keys meet in all ways."""
    rows = 24
    columns = {
        name: pa.array([v[(i * (1 + shift) + i // len(v)) % len(v)] for i in range(rows)], kind)
        for name, (kind, v) in values.items()
    }
    return pa.table({**columns, "id": pa.array(range(rows))})


def batch_join(spark, folder, left, right, on) -> Counter[str]:
    frames = []
    for name, data in (("A", left), ("B", right)):
        pq.write_table(data, folder / f"{name}.parquet")
        frames.append(spark.read.parquet(str(folder / f"{name}.parquet")).alias(name))
    joined = frames[0].join(frames[1], on=F.expr(on))
    return multiset(joined.selectExpr("A.id AS a", "B.id AS b").toArrow())


ALL = {
    **{name: f"A.{name} = B.{name}" for name in KEYS},
    "composite": "A.double = B.double AND A.text = B.text AND A.int = B.int",
    "widened": "A.byte = B.long",
    "widened_floats": "A.single = B.double",
    "expressions": "lower(A.text) = lower(B.text)",
    "null_safe": "A.text <=> B.text AND A.flag = B.flag",
    "null_safe_widened": "A.byte <=> B.long",
    "in": "A.int IN (B.int)",
    "nested_field": "A.struct.y = B.text",
}


LIKE_OTHERS = {"byte", "short", "bytes", "day", "wall", "single", "array", "struct", "expressions", "in"}
"""Keys that take the same way as some other."""


@pytest.fixture(scope="module")
def tables():
    return table(KEYS, 0), table(KEYS, 1)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LIKE_OTHERS else ()) for name in ALL]
)
def test_a_key_of_any_type_joins_as_in_spark(spark, tmp_path, tables, name):
    left, right = tables
    flow = wm.Flow(spark)
    a = flow.stream("A", wm.testing.replay(spark, [left]))
    b = flow.stream("B", wm.testing.replay(spark, [right]))
    got = run(a.join(b, on=ALL[name]).select("A.id AS a", "B.id AS b"), sites=2)
    assert got == batch_join(spark, tmp_path, left, right, ALL[name])
    assert got


def test_values_of_every_type_come_out_as_they_went_in(spark, tables):
    left, _ = tables
    flow = wm.Flow(spark)
    a = flow.stream("A", wm.testing.replay(spark, [left]))
    b = flow.stream("B", wm.testing.replay(spark, [left.select(["id"])]))
    out = run(a.join(b, on="A.id = B.id").select(*(f"A.{name}" for name in left.column_names)), sites=2)
    assert out == multiset(left.flatten())
