"""The writer has Spark's verbs: tables, rows one by one, modes and triggers; and what it refuses, it refuses early."""

from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm

pytestmark = pytest.mark.spark
ROWS = [(1, 10), (2, 20)]


@pytest.fixture
def rows(spark):
    flow = wm.Flow(spark)
    a = flow.stream("A", wm.testing.replay(spark, [pa.table({"id": [1, 2, 3]})]))
    b = flow.stream("B", wm.testing.replay(spark, [pa.table({"id": [1, 2], "cents": [10, 20]})]))
    return a.join(b, "id").select("id", "cents")


def test_a_table_is_made_and_filled(spark, rows, tmp_path):
    spark.sql("DROP TABLE IF EXISTS paid")
    writer = rows.writeStream.option("path", str(tmp_path / "table")).option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(once=True).toTable("paid", queryName="to_a_table")
    try:
        assert query.awaitTermination(120)
        assert query.name == "to_a_table"
        assert sorted(map(tuple, spark.table("paid").collect())) == ROWS
        with pytest.raises(wm.OptionError, match="the results have cents"):
            rows.select("cents").writeStream.toTable("paid", checkpointLocation=str(tmp_path / "other"))
    finally:
        spark.sql("DROP TABLE paid")


class Notes:
    """Writes what it is given to a file for each partition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, partition: int, epoch: int) -> bool:
        self.file = (self.folder / f"{epoch}-{partition}").open("w")
        return True

    def process(self, row) -> None:
        self.file.write(f"{row.id},{row.cents}\n")

    def close(self, error: Exception | None) -> None:
        self.file.write(f"closed {error}\n")
        self.file.close()


def test_rows_are_given_one_by_one_to_an_object(rows, tmp_path):
    query = (
        rows.writeStream.foreach(Notes(tmp_path))
        .partitionBy()
        .partitionBy([])
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    lines = sorted(line for file in tmp_path.iterdir() for line in file.read_text().splitlines())
    assert [line for line in lines if "closed" not in line] == ["1,10", "2,20"]
    assert "closed None" in lines


def test_rows_are_given_one_by_one_to_a_function(rows, tmp_path):
    folder = str(tmp_path)
    query = rows.writeStream.foreach(lambda row: Path(folder, str(row.id)).touch()).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["1", "2"]


def test_the_arguments_of_start_are_sparks(spark, rows, tmp_path):
    writer = rows.writeStream.trigger(availableNow=True)
    query = writer.start(str(tmp_path / "out"), "json", "append", "id", "five", checkpointLocation=str(tmp_path / "ck"))
    assert query.awaitTermination(120)
    assert (tmp_path / "out" / "id=1").is_dir()
    assert sorted(map(tuple, spark.read.json(str(tmp_path / "out")).select("id", "cents").collect())) == ROWS


def test_a_name_that_is_in_use_is_refused_before_anything_runs(spark, rows):
    rates = spark.readStream.format("rate").load()
    other = rates.writeStream.format("noop").queryName("taken").start()
    try:
        with pytest.raises(wm.OptionError, match="a query named taken is running"):
            rows.writeStream.format("noop").queryName("taken").start()
    finally:
        other.stop()


def test_sparks_own_verbs_know_the_query(spark, rows):
    query = rows.writeStream.format("noop").queryName("known").start()
    try:
        assert [each.name for each in spark.streams.active] == ["known"]
        assert str(spark.streams.get(query.id).id) == query.id
        query.processAllAvailable()
        spark.streams.get(query.id).stop()
        assert query.awaitTermination(60)
        assert not query.isActive
        assert query.exception() is None
    finally:
        query.stop()


def test_what_fails_at_run_time_has_its_cause_in_the_first_line(rows):
    def refuse(_rows, _epoch):
        raise ValueError("the ledger is closed")

    failing = {
        "ValueError: the ledger is closed": rows.writeStream.foreachBatch(refuse),
        "[DIVIDE_BY_ZERO]": rows.select("cents / (id - 1) AS q").writeStream.format("memory").queryName("q"),
    }
    for cause, writer in failing.items():
        query = writer.trigger(availableNow=True).start()
        with pytest.raises(wm.QueryFailedError):
            query.awaitTermination(120)
        assert cause in str(query.exception()).splitlines()[0]
