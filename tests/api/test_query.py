"""The handle of a query, and what the sinks get."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.spark_runs import run

import watersmeet as wm

pytestmark = pytest.mark.spark


@pytest.fixture
def relation(spark):
    flow = wm.Flow(spark)
    a = flow.stream(
        "A", wm.testing.replay(spark, [pa.table({"k": [1, 2], "x": [3, 4]}), pa.table({"k": [1], "x": [5]})])
    )
    b = flow.stream(
        "B", wm.testing.replay(spark, [pa.table({"k": [1, 3], "y": ["p", "q"]}), pa.table({"k": [2], "y": ["r"]})])
    )
    return a.join(b, on="A.k = B.k")


RESULTS = [(1, 3, "p"), (1, 5, "p"), (2, 4, "r")]


def test_the_handle_tells_what_spark_tells_and_more(relation, tmp_path):
    writer = relation.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).option("sites", 2)
    query = writer.queryName("told").trigger(availableNow=True).start()
    assert query.awaitTermination(120) is True
    assert not query.isActive
    assert query.exception() is None
    assert query.name == "told"
    assert len(query.id) == len(query.runId) == 36
    assert [report["batchId"] for report in query.recentProgress] == [0, 1]
    last = query.lastProgress
    assert last["numInputRows"] == 2
    assert last["customMetrics"]["rowsOut"] == 2
    assert last["customMetrics"]["stateRows"] == 6
    query.cleanup()
    query.stop()
    again = writer.start()
    assert again.id == query.id
    assert again.runId != query.runId
    again.stop()


def test_state_lists_groups_with_their_site_rows_bytes_and_output(relation):
    query = relation.writeStream.format("noop").option("sites", 2).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    state = query.state()
    assert state.columns == [
        "operator",
        "group",
        "site",
        "tier",
        "generation",
        "rows",
        "bytes",
        "output",
        "inter",
        "productivity",
    ]
    total = state.agg(F.sum("rows"), F.sum("output"), F.min("bytes")).first()
    assert (total[0], total[1]) == (6, 3)
    assert total[2] > 0
    assert {row.tier for row in state.select("tier").distinct().collect()} == {"memory"}


def test_explain_prints_operators_keys_groups_and_sites(relation, capsys):
    query = relation.writeStream.format("noop").options(sites=2, partitionGroups=50).trigger(availableNow=True).start()
    query.explain()
    query.stop()
    printed = capsys.readouterr().out
    assert "join1" in printed
    assert "A.k = B.k" in printed
    assert "50 partition groups" in printed
    assert "2 sites" in printed


def test_files_hold_every_result_once_and_can_be_partitioned(spark, relation, tmp_path):
    rows = relation.select("A.k AS k", "A.x AS x", "B.y AS y")
    writer = rows.writeStream.format("parquet").partitionBy("k").option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.option("compression", "zstd").trigger(availableNow=True).start(str(tmp_path / "out"))
    assert query.awaitTermination(120)
    found = spark.read.parquet(str(tmp_path / "out")).select("k", "x", "y").collect()
    assert sorted(map(tuple, found)) == RESULTS


def test_a_running_query_takes_new_input_until_it_is_stopped(spark, tmp_path):
    flow = wm.Flow(spark)
    first, second = pa.table({"k": [1, 2]}), pa.table({"k": [2, 3]})
    folders = {name: str(tmp_path / name) for name in "LR"}
    frames = {name: wm.testing.replay(spark, [first], path) for name, path in folders.items()}
    joined = flow.join(*(flow.stream(name, frame) for name, frame in frames.items()), on="L.k = R.k")
    writer = (
        joined.select("L.k")
        .writeStream.format("memory")
        .queryName("growing")
        .trigger(processingTime="100 milliseconds")
    )
    query = writer.start()
    query.processAllAvailable()
    assert spark.table("growing").count() == 2
    wm.testing.replay(spark, [first, second], folders["L"])
    query.processAllAvailable()
    assert spark.table("growing").count() == 3
    assert query.isActive
    query.stop()
    assert not query.isActive


def test_columns_can_be_spark_columns_and_filters_too(relation):
    rows = relation.where(F.col("A.x") > 3).select(F.col("A.k"), (F.col("A.x") + 1).alias("more")).where("more > 5")
    assert run(rows, sites=1) == {"1|6": 1}


def test_streams_and_columns_may_have_names_the_engine_uses_itself(spark):
    flow = wm.Flow(spark)
    tables = {name: pa.table({"tag": [1, 2], "a b.c`d": [3, 4]}) for name in ("tag", "run", "site", "hash")}
    tag, run_, site, hash_ = (flow.stream(n, wm.testing.replay(spark, [t])) for n, t in tables.items())
    rows = tag.join(run_, on="tag.tag = run.tag").join(
        site, hash_, on="run.`a b.c``d` = site.`a b.c``d` AND site.tag = hash.tag"
    )
    assert run(rows.select("tag.tag AS x", "hash.`a b.c``d` AS y"), sites=2) == {"1|3": 1, "2|4": 1}


def test_a_query_may_keep_no_columns_at_all(relation):
    assert run(relation.select("1 AS one"), sites=2) == {"1": 3}


def test_conditions_that_are_no_equalities_filter_the_join(spark):
    flow = wm.Flow(spark)
    a = flow.stream("A", wm.testing.replay(spark, [pa.table({"k": [1, 1], "x": [1, 5]})]))
    b = flow.stream("B", wm.testing.replay(spark, [pa.table({"k": [1, 1], "y": [2, 9]})]))
    assert run(a.join(b, on="A.k = B.k AND A.x < B.y").select("A.x", "B.y")) == {"1|2": 1, "1|9": 1, "5|9": 1}


def timed(*rows):
    keys, seconds = zip(*rows, strict=True) if rows else ((), ())
    times = pa.array([second * 10**6 for second in seconds], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"k": pa.array(keys, pa.int64()), "ts": times})


@pytest.mark.parametrize("ends", [False, True])
def test_a_function_is_called_with_numbers_without_gaps_and_idle_reports_tell_the_state(spark, ends, tmp_path):
    flow, told = wm.Flow(spark), list[tuple[int, int]]()
    parts = {"A": [timed((1, 1), (2, 100)), timed((3, 100))], "B": [timed((2, 100)), timed((3, 200))]}
    a, b = (
        flow.stream(name, wm.testing.replay(spark, each, str(tmp_path / name)), time="ts", watermark="0 seconds")
        for name, each in parts.items()
    )
    alone = a.join(b, on="A.k = B.k AND B.ts <= A.ts + INTERVAL 1 SECOND", how="left")
    writer = alone.writeStream.foreachBatch(lambda rows, step: told.append((step, rows.count())))
    writer = writer.option("checkpointLocation", str(tmp_path / "ck")).option("endOfInput", ends)
    query = writer.option("sites", 2).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert [step for step, _ in told] == list(range(len(told)))
    assert sum(count for _, count in told) == 3
    assert told[-1] == (2, 1)
    assert [report["customMetrics"]["step"] for report in query.recentProgress] == [0, 1, 2]
    again = writer.start()
    assert again.awaitTermination(120)
    assert again.recentProgress, "Spark tells of a run without input, too"
    for report in again.recentProgress:
        assert report["customMetrics"]["idle"] is True
        assert report["customMetrics"]["rejected"] == []
        assert report["customMetrics"]["stateRows"] == query.lastProgress["customMetrics"]["stateRows"]
