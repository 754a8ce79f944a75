"""What went wrong once, on Spark: each of these failed before it was put right."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType
from tests.support.oracle import joined, multiset
from tests.support.spark_runs import PATIENCE_S

import watersmeet as wm
from watersmeet.adapt.moving.distribution import even
from watersmeet.planning.group_columns import traced
from watersmeet.runners.spark.session import STREAM_SETTINGS, this_python
from watersmeet.site.travel import PARCEL_LIMIT_BYTES
from watersmeet.state.changes import ReplacePlan

pytestmark = pytest.mark.spark

KEYS = [1, 1, 2, 3]


def tables(epochs=2, keys=KEYS):
    return [pa.table({"k": keys, "id": range(n * 10, n * 10 + len(keys))}) for n in range(epochs)]


def pair(spark, parts=None, folder=None):
    flow = wm.Flow(spark)
    names = "AB"
    frames = {
        n: wm.testing.replay(spark, parts or tables(), None if folder is None else str(folder / n)) for n in names
    }
    return flow, *(flow.stream(name, frame) for name, frame in frames.items())


def finished(rows, name, **options):
    writer = rows.writeStream.format("memory").queryName(name).option("sites", 2).options(**options)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return query


KINDS_AND_SHORTCUT = [("on", True), ("where", False), ("after select", True), ("stream", False)]
OTHERS = [pytest.param(kind, not shortcut, marks=pytest.mark.slow) for kind, shortcut in KINDS_AND_SHORTCUT]


@pytest.mark.parametrize(("kind", "shortcut"), [*KINDS_AND_SHORTCUT, *OTHERS])
def test_a_condition_that_spark_can_prove_false_gives_no_rows_and_a_normal_end(spark, kind, shortcut):
    _, a, b = pair(spark)
    on = "A.k = B.k AND false" if kind == "on" else "A.k = B.k"
    rows = (a.where("1 = 0") if kind == "stream" else a).join(b, on=on)
    rows = rows.where("1 = 0") if kind == "where" else rows
    rows = rows.select("A.id AS a", "B.id AS b")
    rows = rows.where(F.lit(1) == F.lit(0)) if kind == "after select" else rows
    with wm.testing.thrown(shortcut=shortcut):
        query = finished(rows, "provably_false")
    assert spark.table("provably_false").count() == 0
    assert query.exception() is None
    assert {report["sink"]["numOutputRows"] for report in query.recentProgress if "sink" in report} == {0}
    assert query.state().count() > 0, "state is kept as ever"


@pytest.mark.parametrize("on", ["A.k = B.k AND NULL", "A.k = B.k AND (B.id > 0 AND NULL)"])
def test_a_condition_that_is_null_gives_no_rows(spark, on):
    _, a, b = pair(spark)
    finished(a.join(b, on=on).select("A.id AS a"), "null_condition")
    assert spark.table("null_condition").count() == 0


def test_groups_by_values_that_change_are_refused(spark):
    _, a, b = pair(spark)
    joined_rows = a.join(b, on="A.k = B.k")
    for rows in (
        joined_rows.groupBy("CAST(rand() * 3 AS INT)"),
        joined_rows.where("rand() < 0.5").groupBy("A.k"),
        a.join(b, on="A.k = B.k AND rand() < 0.5").groupBy("A.k"),
    ):
        with pytest.raises(wm.WatersmeetError, match=r"(?i)groups are made by .*rand\(\)"):
            rows.agg("count(*) AS n").writeStream.outputMode("update").format("memory").queryName("changing").start()


def test_sparks_own_key_holds_the_number_of_results(spark):
    _, a, b = pair(spark)
    joined_rows = a.join(b, on="A.k = B.k")
    plain = finished(joined_rows.select("A.id AS a"), "plain")
    filtered = finished(joined_rows.where("A.id < B.id").select("A.id AS a"), "filtered")
    for query, name in ((plain, "plain"), (filtered, "filtered")):
        told = sum(report["sink"]["numOutputRows"] for report in query.recentProgress if "sink" in report)
        assert told == spark.table(name).count() > 0


def test_the_sessions_interpreter_is_left_alone(spark, monkeypatch):
    context = spark.sparkContext
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(context, "pythonExec", "python-of-the-user")
    _, a, b = pair(spark)
    finished(a.join(b, on="A.k = B.k").select("A.id AS a"), "interpreter")
    assert context.pythonExec == "python-of-the-user"
    assert spark.table("interpreter").count() > 0


@pytest.mark.parametrize("column", ["rand()", "uuid()", "monotonically_increasing_id()", "shuffle(array(1, 2))"])
def test_columns_that_change_when_they_are_evaluated_again_are_refused(spark, column):
    frame = wm.testing.replay(spark, tables()).withColumn("x", F.expr(column))
    with pytest.raises(wm.WatersmeetError, match="its value changes when Spark evaluates a row again"):
        wm.Flow(spark).stream("A", frame)


def test_functions_marked_as_not_deterministic_are_refused_and_harmless_ones_are_not(spark):
    changing = F.udf(lambda: 4, IntegerType()).asNondeterministic()
    flow, frame = wm.Flow(spark), wm.testing.replay(spark, tables())
    with pytest.raises(wm.WatersmeetError, match="marked as not deterministic"):
        flow.stream("A", frame.withColumn("x", changing()))
    harmless = frame.withColumn("file", F.input_file_name()).withColumn("now", F.current_timestamp())
    flow.stream("B", harmless)
    with pytest.raises(wm.WatersmeetError, match="marked as not deterministic"):
        flow.stream("C", harmless.withColumn("x", F.abs(changing())))


def test_punctuations_that_change_when_they_are_evaluated_again_are_refused(spark):
    flow, frame = wm.Flow(spark), wm.testing.replay(spark, tables())
    flow.stream("A", frame)
    column = frame.columns[0]
    with pytest.raises(wm.WatersmeetError, match=r"of punctuations of stream A is computed with rand\(\)"):
        flow.punctuations("A", frame.select((F.rand() * 0 + F.col(column)).alias(column)))


def test_queries_that_start_at_once_leave_the_interpreter_as_it_was(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON")

    context = SimpleNamespace(master="local[2]", pythonExec="python-of-the-user")
    session = SimpleNamespace(_sc=context, conf={})

    def make() -> None:
        for _ in range(200):
            with this_python(session):
                assert context.pythonExec == sys.executable
                time.sleep(0)

    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(make) for _ in range(8)]:
            each.result()
    assert context.pythonExec == "python-of-the-user"


def test_parcels_that_a_merge_join_holds_on_the_heap_are_bounded_by_bytes():
    rows = int(STREAM_SETTINGS["spark.sql.sortMergeJoinExec.buffer.in.memory.threshold"])
    assert rows * PARCEL_LIMIT_BYTES <= 64 << 20


def spilled(spark, folder, select, sink, **options):
    """A query that has spilled, and whose next run has nothing to do but cleanup."""
    _, a, b = pair(spark, tables(4), folder)
    rows = a.join(b, on="A.k = B.k").select(*select)
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "ck")).option("sites", 2)
    return writer.option("memoryBudget", "1").options(**options)


def test_cleanup_as_a_runs_first_step_has_the_users_functions_views_and_settings(spark, tmp_path):
    spark.udf.register("ten_times", lambda x: x * 10, IntegerType())
    spark.range(3).createOrReplaceTempView("three_rows")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    seen = []

    def sink(rows, epoch):
        session = rows.sparkSession
        seen.append((epoch, session.table("three_rows").count(), session.conf.get("spark.sql.session.timeZone")))
        got[epoch] = rows.toArrow()

    try:
        got: dict[int, pa.Table] = {}
        select = ["ten_times(CAST(A.id AS INT)) AS a", "B.id AS b"]
        query = spilled(spark, tmp_path, select, sink, cleanup="end").start()
        query.processAllAvailable()
        query.stop()
        before = len(seen)
        query = spilled(spark, tmp_path, select, sink).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert len(seen) > before, "the second run had nothing to clean"
    assert {rest for _, *rest in map(tuple, seen) for rest in [tuple(rest)]} == {(3, "Asia/Kathmandu")}
    streams = {name: tables(4) for name in "AB"}
    expected = joined(streams, ["A.k = B.k"], "CAST(A.id * 10 AS INT) AS a, B.id AS b")
    assert multiset(pa.concat_tables(got.values())) == expected


def test_stop_cancels_a_job_of_cleanup_and_the_step_is_repeated(spark, tmp_path):
    begun, got = threading.Event(), {}

    def slow(value):
        time.sleep(1)
        return value

    def sink(rows, epoch):
        begun.set()
        got[epoch] = rows.toArrow()

    spark.udf.register("slowly", lambda x: x, IntegerType())
    select = ["slowly(CAST(A.id AS INT)) AS a", "B.id AS b"]
    query = spilled(spark, tmp_path, select, sink, cleanup="end").start()
    query.processAllAvailable()
    query.stop()
    begun.clear()
    spark.udf.register("slowly", slow, IntegerType())
    query = spilled(spark, tmp_path, select, sink).start()
    assert begun.wait(PATIENCE_S)
    time.sleep(0.5)
    started = time.monotonic()
    query.stop()
    took_s = time.monotonic() - started
    assert query.exception() is None, "to be stopped is not to fail"
    assert took_s < 20, "the job would take a minute and more"
    spark.udf.register("slowly", lambda x: x, IntegerType())
    query = spilled(spark, tmp_path, select, sink).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    streams = {name: tables(4) for name in "AB"}
    expected = joined(streams, ["A.k = B.k"], "CAST(A.id AS INT) AS a, B.id AS b")
    assert multiset(pa.concat_tables(got.values())) == expected


def test_a_query_goes_on_with_another_plan_than_the_one_before(spark):
    """No state is there yet: two inputs of the tree change places, between two epochs."""
    none = pa.table({"k": pa.array([], pa.int64()), "m": pa.array([], pa.int64())})
    rng = np.random.default_rng(3)
    some = [pa.table({"k": rng.integers(0, 4, 12), "m": rng.integers(0, 4, 12)}) for _ in range(2)]
    streams = {name: [none, *some] for name in "ABC"}
    flow = wm.Flow(spark)
    a, b, c = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in streams.items())
    select = ("A.k AS ak", "A.m AS am", "B.k AS bk", "B.m AS bm", "C.k AS ck", "C.m AS cm")
    first = a.join(b, on="A.k = B.k").join(c, on="A.m = C.m").select(*select)
    second = traced(a.join(c, on="A.m = C.m").join(b, on="A.k = B.k").select(*select).plan())
    got: dict[int, pa.Table] = {}
    plans: list[tuple[str, ...]] = []

    def sink(rows, epoch):
        got[epoch] = rows.toArrow()
        plans.append(tuple(source.name for source in query._run.manifest.plan.operators[0].inputs))  # noqa: SLF001
        if epoch == 0:
            stepper = query._run.loop.stepper  # noqa: SLF001
            routing = {o.id: even(stepper.manifest.groups, stepper.manifest.sites) for o in second.operators}
            # it takes effect with the next version
            threading.Timer(0, stepper.adapt, [[ReplacePlan(second, routing, "a test")]]).run()

    waiting = threading.Event()
    writer = first.writeStream.foreachBatch(lambda rows, epoch: (waiting.wait(60), sink(rows, epoch)))
    query = writer.option("sites", 2).trigger(availableNow=True).start()
    waiting.set()
    assert query.awaitTermination(PATIENCE_S)
    assert plans[0] == ("A", "B")
    assert plans[-1] == ("A", "C")
    expected = joined(streams, ["A.k = B.k", "A.m = C.m"], ", ".join(select))
    assert multiset(pa.concat_tables(got.values())) == expected
