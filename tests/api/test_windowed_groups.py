"""Groups by windows of time, on Spark: they come once, when their windows have ended, and are forgotten then."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.aggregating import BY_MINUTE, SCHEMA, SECOND, alone, assert_same, by_epoch, ran, streams_of, table
from tests.support.spark_runs import PATIENCE_S, Collected

import watersmeet as wm

pytestmark = pytest.mark.spark

MINUTE = 60 * SECOND


def moment(us):
    return datetime.fromtimestamp(us / SECOND, UTC)


def every_minute(epochs):
    """In every epoch three rows, a minute after those of the epoch before."""
    return [
        table(*((key, 10 * epoch + place, epoch * MINUTE + SECOND) for place, key in enumerate("aab")))
        for epoch in range(epochs)
    ]


def minutely(spark, epochs):
    """For each minute, key and epoch the pairs of rows that are less than a minute apart."""
    tables = {name: every_minute(epochs) for name in "AB"}
    a, b = streams_of(spark, tables, time="ts", window="1 minute", watermark="0 seconds")
    grouped = a.join(b, "k").groupBy("A.k", BY_MINUTE).agg("count(*) AS n", "sum(B.n) AS total")
    return grouped.select("window.start AS start", "k", "n", "total")


def group_of(minute):
    """What comes for a minute: two rows of a key make four pairs."""
    start = moment(minute * MINUTE)
    return [(start, "a", 4, 2 * (20 * minute + 1)), (start, "b", 1, 10 * minute + 2)]


def test_a_group_of_a_windowed_join_comes_once_and_when_the_rules_say_so(spark):
    sink, metrics = ran(minutely(spark, 6))
    # The rows of a minute are joined until one of two minutes later has come. The step after that tells the group.
    got = by_epoch(sink)
    assert {epoch: got[epoch] for epoch in range(3, 6)} == {minute + 3: group_of(minute) for minute in range(3)}
    assert [rows for epoch, rows in got.items() if epoch > 5] == [group_of(3)]
    assert min(got) == 3
    assert not any(epoch["rejected"] for epoch in metrics)


@pytest.mark.slow
def test_state_stays_as_large_as_the_groups_that_are_not_final(spark):
    sink, metrics = ran(minutely(spark, 30))
    assert len(by_epoch(sink)) == 28
    rows = [epoch["stateRows"] for epoch in metrics]
    assert max(rows[10:]) <= max(rows[:10]), rows


class _StopsAt(Collected):
    """A sink that fails once, in some epoch."""

    def __init__(self, epoch):
        super().__init__()
        self.fails_at = epoch

    def __call__(self, rows, epoch):
        if epoch == self.fails_at:
            self.fails_at = None
            raise RuntimeError("the sink is full")
        super().__call__(rows, epoch)


@pytest.mark.slow
def test_a_restart_in_the_middle_gives_the_same_groups(spark, tmp_path):
    sink, rows = _StopsAt(3), minutely(spark, 5)
    writer = rows.writeStream.foreachBatch(sink).options(sites=2, checkpointLocation=str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(wm.WatersmeetError):
        query.awaitTermination(PATIENCE_S)
    ran(rows, sink, checkpointLocation=str(tmp_path), endOfInput=True)
    got = sorted((row for each in by_epoch(sink).values() for row in each), key=repr)
    assert got == sorted((row for minute in range(5) for row in group_of(minute)), key=repr)


@pytest.mark.slow
def test_a_restart_with_another_aggregate_is_refused(spark, tmp_path):
    a = alone(spark, every_minute(3), time="ts", watermark="0 seconds")
    ran(a.groupBy(BY_MINUTE).count(), checkpointLocation=str(tmp_path))
    others = [
        a.groupBy("window(A.ts, '2 minutes')").count(),
        a.groupBy(BY_MINUTE).agg("sum(n) AS count"),
        a.groupBy(BY_MINUTE, "k").count(),
    ]
    for other in others:
        with pytest.raises(wm.WatersmeetError, match="aggregate1"):
            ran(other, checkpointLocation=str(tmp_path))
    with pytest.raises(wm.WatersmeetError, match="mode update"):
        ran(a.groupBy(BY_MINUTE).count(), checkpointLocation=str(tmp_path), mode="update")


def test_windows_that_slide_come_one_by_one_as_they_end_also_of_times_without_a_zone(spark):
    schema = SCHEMA.set(2, pa.field("ts", pa.timestamp("us")))
    moments = [[0, 40 * SECOND], [70 * SECOND, 10 * SECOND], [200 * SECOND]]
    tables = [pa.table([["a"] * len(own), [1] * len(own), pa.array(own)], schema) for own in moments]
    a = alone(spark, tables, time="ts", watermark="1 minute")
    sink, metrics = ran(a.groupBy("window(A.ts, '1 minute', '30 seconds')").agg("count(*) AS n"))
    got = by_epoch(sink)
    naive = {start: datetime.fromtimestamp(start, UTC).replace(tzinfo=None) for start in range(-30, 300, 30)}
    rows = [({"start": naive[start], "end": naive[start + 60]}, n) for start, n in [(-30, 2), (0, 3), (30, 2), (60, 1)]]
    assert sorted((row for each in got.values() for row in each), key=repr) == sorted(rows, key=repr)
    assert min(got) > 2, "the watermark has passed their ends after the third epoch"
    assert not any(epoch["rejected"] for epoch in metrics)


ZONED, NAIVE = "TIMESTAMP_MICROS(us)", "TIMESTAMP_NTZ'1970-01-01 00:00:00' + us * INTERVAL '1' MICROSECOND"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sql"), [(pa.timestamp("us", "UTC"), ZONED), (pa.timestamp("us"), NAIVE)])
def test_windows_are_sparks_before_1970_and_in_other_zones(spark, kind, sql):
    gap = 1_710_037_800_000_000  # half past two on a morning on which clocks in New York have none
    times = [0, -1, -MINUTE, MINUTE - 1, MINUTE, -3_000_000_000_000_000, 7 * MINUTE + 1, gap, gap + 60 * MINUTE]
    numbers = pa.array(times)
    rows = pa.table({"us": numbers, "ts": numbers.cast(kind)})
    windows = [
        "'1 minute'",
        "'7 minutes'",
        "'1 day'",
        "'10 minutes', '4 minutes'",
        "'1 hour', '20 minutes', '-7 minutes'",
    ]
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.createDataFrame([(each,) for each in times], "us bigint").selectExpr("us", f"{sql} AS ts")
        for window in windows:
            made = alone(spark, [rows]).groupBy(f"window(ts, {window})").agg("count(*) AS count", "sum(us) AS sum")
            wanted = frame.groupBy(F.expr(f"window(ts, {window})")).agg(
                F.count("*").alias("count"), F.sum("us").alias("sum")
            )
            assert made.columns == wanted.columns
            shown = ["window.start AS start", "window.end AS end", "count", "sum"]
            assert_same(made.select(*shown), wanted.selectExpr(*shown))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"memoryBudget": 1}])
def test_windows_of_joined_rows_slide(spark, options):
    tables = {name: every_minute(4) for name in "AB"}
    a, b = streams_of(spark, tables)
    window = "window(A.ts, '5 minutes', '2 minutes')"
    made = a.join(b, "k").groupBy("A.k", window).agg("count(*) AS n", "sum(B.n) AS total")
    frame = spark.createDataFrame(pa.concat_tables(tables["A"]))
    joined = frame.alias("A").join(frame.alias("B"), F.expr("A.k = B.k"))
    wanted = joined.groupBy("A.k", F.expr(window)).agg(F.count("*").alias("n"), F.sum("B.n").alias("total"))
    shown = ["window.start AS start", "k", "n", "total"]
    assert_same(made.select(*shown), wanted.selectExpr(*shown), **options)


def test_rows_may_be_grouped_by_several_windows(spark):
    a = alone(spark, [table()], time="ts", watermark="0 seconds")
    made = a.groupBy("window(ts, '1 minute') AS short", "window(ts, '1 hour', '20 minutes') AS long").count()
    assert made.columns == ["short", "long", "count"]
