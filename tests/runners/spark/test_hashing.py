"""Rows in parcels are sent by hashes computed here; they have to be Spark's."""

from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from watersmeet.operators.hashing import is_hashable, xxhash64
from watersmeet.runners.spark.split import hash_of

COLUMNS = {
    "boolean": pa.array([True, False, True, False]),
    "tinyint": pa.array([0, -1, 127, -128], pa.int8()),
    "smallint": pa.array([0, -1, 32767, -32768], pa.int16()),
    "int": pa.array([0, -1, 2**31 - 1, -(2**31)], pa.int32()),
    "bigint": pa.array([0, -1, 2**63 - 1, -(2**63)], pa.int64()),
    "date": pa.array([date(1970, 1, 1), date(1969, 12, 31), date(9999, 12, 31), date(1, 1, 1)]),
    "timestamp": pa.array(
        [datetime(year, 1, 1, tzinfo=UTC) for year in (1970, 1969, 9999, 1)], pa.timestamp("us", "UTC")
    ),
    "timestamp_ntz": pa.array([datetime(year, 1, 1) for year in (1970, 1969, 9999, 1)], pa.timestamp("us")),  # noqa: DTZ001
}


@pytest.mark.parametrize("names", [*([name] for name in COLUMNS), ["int", "bigint"], ["bigint", "date", "boolean"]])
def test_the_hash_is_sparks(spark: SparkSession, names: list[str]) -> None:
    table = pa.table({name: COLUMNS[name] for name in names})
    rows = spark.createDataFrame(table).select(hash_of([f"`{name}`" for name in names]).alias("h"))
    found = rows.toArrow().column("h").to_pylist()
    assert all(is_hashable(COLUMNS[name].type) for name in names)
    assert xxhash64([COLUMNS[name] for name in names]).view(np.int64).tolist() == found
