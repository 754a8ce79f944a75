"""Sinks that the site tasks serve themselves hold what they would hold through Spark."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.model.ids import EpochId, SiteId
from watersmeet.operators.results import Results
from watersmeet.site import result_writer
from watersmeet.site.result_files import ResultFormat
from watersmeet.site.result_writer import ResultWriter

ROWS = pa.table(
    {
        "k": pa.array([1, 2, None, 2]),
        "text": ["a", None, "c", "ä"],
        "day": [dt.date(2024, 1, n) for n in range(1, 5)],
        "at": pa.array([0, 1, None, 3], pa.timestamp("us", "UTC")),
        "money": [Decimal("1.50")] * 4,
        "list": [[1], [], None, [2, 3]],
    }
)


COLUMNS = ("A.k AS k", "A.text", "A.day", "A.at", "A.money", "A.list", "B.k AS b")


def start(spark, folder, *, through_spark, select):
    flow = wm.Flow(spark)
    a = flow.stream("A", wm.testing.replay(spark, [ROWS, ROWS.slice(0, 2)]))
    b = flow.stream("B", wm.testing.replay(spark, [ROWS.select(["k"]), ROWS.select(["k"]).slice(0, 0)]))
    rows = a.join(b, on="A.k = B.k")
    rows = rows.select(*select) if select else rows
    writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}/ck").option("sites", 2)
    if through_spark:
        writer = writer.option("maxRecordsPerFile", 2)
    query = writer.trigger(availableNow=True).start(f"{folder}/out")
    assert query.awaitTermination(120)
    assert (query._run.start.files is None) is through_spark  # noqa: SLF001
    return spark.read.parquet(f"{folder}/out")


@pytest.mark.spark
@pytest.mark.parametrize("select", [COLUMNS, ()], ids=["columns", "rows"])
def test_files_written_by_the_tasks_read_like_files_written_by_spark(spark, tmp_path, select):
    ours = start(spark, tmp_path / "ours", through_spark=False, select=select)
    theirs = start(spark, tmp_path / "theirs", through_spark=True, select=select)
    assert ours.dtypes == theirs.dtypes
    assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))
    assert ours.count() == 8


@pytest.mark.spark
def test_a_query_without_results_leaves_a_readable_folder(spark, tmp_path):
    flow = wm.Flow(spark)
    a, b = (flow.stream(n, wm.testing.replay(spark, [pa.table({"k": [v]})])) for n, v in (("A", 1), ("B", 2)))
    writer = a.join(b, on="A.k = B.k").writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "ck"))
    assert writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(120)
    assert spark.read.parquet(str(tmp_path / "out")).columns == ["A", "B"]


def writer_of(folder, schema, columns):
    return ResultWriter(ResultFormat(f"file://{folder}", schema, columns, query="q"), EpochId(3), SiteId(1))


def results_of(rows, index):
    return Results((rows,), (np.array(index),))


def test_results_are_written_to_a_hidden_file_of_the_attempt_with_the_columns_that_were_asked_for(tmp_path):
    rows = pa.record_batch({"A.x": [10, 20], "A.y": ["a", "b"]})
    writer = writer_of(tmp_path, pa.schema({"why": pa.string(), "x": pa.int64()}), ("A.y", "A.x"))
    writer.write(results_of(rows, [1, 0, 1]))
    [name] = writer.close()
    assert name.startswith(".epoch-000000000003-q-1-")
    assert pq.read_table(tmp_path / name).to_pydict() == {"why": ["b", "a", "b"], "x": [20, 10, 20]}


def test_the_joined_row_is_written_as_it_is_where_no_columns_were_asked_for(tmp_path):
    schema = pa.schema({"A": pa.struct({"x": pa.int64()})})
    writer = writer_of(tmp_path, schema, None)
    writer.write(results_of(pa.record_batch({"A.x": [10, 20]}), [1, 1]))
    [name] = writer.close()
    assert pq.read_table(tmp_path / name).to_pydict() == {"A": [{"x": 20}, {"x": 20}]}


def test_an_attempt_without_results_leaves_no_file(tmp_path):
    assert writer_of(tmp_path, pa.schema({"x": pa.int64()}), ("A.x",)).close() == ()
    assert list(tmp_path.iterdir()) == []


def test_large_results_are_written_in_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(result_writer, "ROW_GROUP_BYTES", 100)
    writer = writer_of(tmp_path, pa.schema({"x": pa.int64()}), ("A.x",))
    for _ in range(4):
        writer.write(results_of(pa.record_batch({"A.x": range(10)}), range(10)))
    [name] = writer.close()
    assert pq.ParquetFile(tmp_path / name).num_row_groups == 2


def test_no_two_attempts_write_to_the_same_file_and_all_of_them_would_be_the_same_in_the_end():
    form = ResultFormat("out", query="3f9c21aa-0c1d")
    names = {form.attempt_name(EpochId(7), SiteId(1)) for _ in range(20)}
    assert len(names) == 20
    assert form.file_name(EpochId(7), SiteId(1)) == "epoch-000000000007-3f9c21aa-1.parquet"
