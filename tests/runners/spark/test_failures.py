"""When the disk is full, a worker dies, or a source or sink fails, the query stops with the cause and goes on later."""

import pyarrow as pa
import pytest
from tests.support.oracle import joined, multiset
from tests.support.spark_runs import Collected

import watersmeet as wm
from watersmeet.model import errors
from watersmeet.site.crash import CrashPlan
from watersmeet.storage.faulty import Fault, FaultyStorage

pytestmark = pytest.mark.spark

DATA = {
    "A": [pa.table({"k": [1, 2, 3], "v": [1, 2, 3]}), pa.table({"k": [2], "v": [4]})],
    "B": [pa.table({"k": [1, 1], "w": [5, 6]}), pa.table({"k": [2, 3], "w": [7, 8]})],
}


def start(spark, folder, sink):
    flow = wm.Flow(spark)
    streams = [flow.stream(name, wm.testing.replay(spark, parts, str(folder / name))) for name, parts in DATA.items()]
    writer = flow.join(*streams, on="A.k = B.k").writeStream.foreachBatch(sink).option("sites", 2)
    return writer.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True).start()


def goes_on(spark, folder, sink):
    assert start(spark, folder, sink).awaitTermination(120)
    assert sink.rows == joined(DATA, ["A.k = B.k"])


def failure_of(query):
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- of any kind; the tests look at it
        query.awaitTermination(120)
    assert not query.isActive
    assert query.exception() is caught.value or str(query.exception()) == str(caught.value)
    return caught.value


def test_a_full_disk_stops_the_query_and_loses_nothing(spark, tmp_path):
    sink = Collected()
    with wm.testing.thrown(
        wrap=lambda storage: FaultyStorage(storage, full_after_bytes=6000, ledger=str(tmp_path / "l"))
    ):
        query = start(spark, tmp_path, sink)
        error = failure_of(query)
    assert isinstance(error, errors.StorageFullError)
    assert "could not write" in str(error)
    goes_on(spark, tmp_path, sink)


def test_a_killed_worker_stops_a_query_that_is_not_tried_again_and_the_error_says_what_to_do(
    spark, tmp_path, monkeypatch
):
    sink = Collected()
    crash = CrashPlan("after-effects", 0, "worker", str(tmp_path / "crashed"))
    monkeypatch.setenv("WATERSMEET_CRASH", crash.encode())
    error = failure_of(start(spark, tmp_path, sink))
    assert isinstance(error, errors.WorkerError)
    assert "has died" in str(error)
    assert "start the query again" in str(error)
    goes_on(spark, tmp_path, sink)


def test_a_failing_sink_stops_the_query_and_loses_nothing(spark, tmp_path):
    sink = Collected()

    def fails(rows, epoch):
        sink(rows, epoch)
        if epoch == 1:
            raise ValueError("the mail server is down")

    error = failure_of(start(spark, tmp_path, fails))
    assert "the mail server is down" in str(error)
    goes_on(spark, tmp_path, sink)


def test_a_failing_source_stops_the_query_and_loses_nothing(spark, tmp_path):
    sink = Collected()
    flow = wm.Flow(spark)
    streams = [wm.testing.replay(spark, parts, str(tmp_path / name)) for name, parts in DATA.items()]
    file = sorted((tmp_path / "B").glob("*.parquet"))[1]
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    relations = [flow.stream(name, frame) for name, frame in zip("AB", streams, strict=True)]
    writer = flow.join(*relations, on="A.k = B.k").writeStream.foreachBatch(sink).option("sites", 2)
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()
    assert file.name in str(failure_of(query))
    file.write_bytes(whole)
    goes_on(spark, tmp_path, sink)


def test_a_commit_that_landed_but_was_reported_failed_is_not_committed_twice(spark, tmp_path):
    sink = Collected()
    lost = Fault("create_new", "manifest/*", nth=1, landed=True)
    with wm.testing.thrown(wrap=lambda storage: FaultyStorage(storage, plan=(lost,), ledger=str(tmp_path / "l"))):
        assert start(spark, tmp_path, sink).awaitTermination(120)
    assert sink.rows == joined(DATA, ["A.k = B.k"])


@pytest.mark.slow
def test_a_sink_that_reads_only_some_rows_or_reads_twice_changes_no_result(spark, tmp_path):
    counted = []

    def curious(rows, epoch):
        rows.limit(1).collect()
        rows.isEmpty()
        assert rows.coalesce(1).count() == rows.count()
        if epoch == 1:
            counted.append(multiset(rows.toArrow().flatten()))
            assert rows.count() == counted[0].total()

    assert start(spark, tmp_path, curious).awaitTermination(120)
    first = joined({name: parts[:1] for name, parts in DATA.items()}, ["A.k = B.k"])
    assert first + counted[0] == joined(DATA, ["A.k = B.k"])
