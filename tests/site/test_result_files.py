"""Sinks that the site tasks serve themselves hold what they would hold through Spark."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from watersmeet.engine import direct_files
from watersmeet.site.file_writer import DirectWriter, publish

import watersmeet as wm
from watersmeet.model.ids import EpochId, SiteId
from watersmeet.site.result_files import Direct

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
    assert (query._run.start.direct is None) is through_spark  # noqa: SLF001
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


def test_publishing_an_epoch_again_replaces_it_and_clears_lost_attempts(tmp_path):
    schema = pa.schema([("x", pa.int64())])
    output = Direct(f"file://{tmp_path}", schema, ("A.x",), query="q")
    for attempt, sites in enumerate(([0, 1, 2], [0, 1])):
        written = []
        for site in sites:
            writer = DirectWriter(output, EpochId(3), SiteId(site))
            writer.write(pa.record_batch({"x": pa.array([attempt])}))
            written += [(SiteId(site), name) for name in writer.close()]
        lost = DirectWriter(output, EpochId(3), SiteId(0))
        lost.write(pa.record_batch({"x": pa.array([99])}))
        lost.close()
        publish(output, EpochId(3), written, first=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"epoch-000000000003-q-{n}.parquet" for n in (0, 1)]
    assert pq.read_table(tmp_path).column("x").to_pylist() == [1, 1]


def test_large_results_are_written_in_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(direct_files, "ROW_GROUP_BYTES", 100)
    output = Direct(f"file://{tmp_path}", pa.schema([("x", pa.int64())]), ("A.x",))
    writer = DirectWriter(output, EpochId(0), SiteId(0))
    for _ in range(4):
        writer.write(pa.record_batch({"x": pa.array(range(10))}))
    (name,) = writer.close()
    assert pq.ParquetFile(tmp_path / name).num_row_groups == 2
