"""Windows and watermarks on Spark: small tables whose results can be told by hand."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.support.oracle import joined
from tests.support.spark_runs import PATIENCE_S, Collected

import watersmeet as wm

pytestmark = pytest.mark.spark

SECOND, HOUR = 1_000_000, 3_600_000_000
LAX = {"window": "10 seconds", "watermark": "9000000 days"}
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])


def table(*rows):
    """Rows of a key, a number and a time in microseconds."""
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([pa.array(list(column), kind) for column, kind in zip(columns, SCHEMA.types, strict=True)], SCHEMA)


def streams_of(spark, tables, **times):
    """A stream for each name; what is said of its times is the same for all, or told by name."""
    flow = wm.Flow(spark)
    said = {
        name: {"time": "ts"} | times.get(name, {k: v for k, v in times.items() if k not in tables}) for name in tables
    }
    return [flow.stream(name, wm.testing.replay(spark, each), **said[name]) for name, each in tables.items()]


def ran(rows, **options):
    """What the sink got by epoch, and the metrics of each epoch."""
    sink = Collected()
    query = rows.writeStream.foreachBatch(sink).options(sites=2, **options).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return sink, [progress["customMetrics"] for progress in query.recentProgress]


def rejected(metrics):
    return [
        Counter({(each["stream"], each["reason"]): each["rows"] for each in epoch["rejected"]}) for epoch in metrics
    ]


def pairs(sink):
    return sorted((row["a"], row["b"]) for rows in sink.epochs.values() for row in rows.to_pylist())


def micros(*parts):
    return (datetime(*parts, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


# A moment for each key: around 1970, long before it, far away, and where clocks of New York go forth and back.
MOMENTS = [
    0,
    -1,
    micros(1969, 7, 20, 20, 17, 40, 123456),
    micros(1066, 10, 14),
    micros(9999, 12, 30),
    micros(2026, 3, 8, 7),
    micros(2026, 11, 1, 6),
]
EDGES = {10 * SECOND - 1: True, 10 * SECOND: False, -10 * SECOND + 1: True, -10 * SECOND: False, 0: True}


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(spark, request):
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def frame_of(spark, tables, kind, folder):
    """A stream whose times are instants, or have no zone."""
    if kind == "timestamp":
        return wm.testing.replay(spark, tables)
    fields = SCHEMA.set(2, pa.field("ts", pa.timestamp("us")))
    wm.testing.replay(spark, [each.cast(fields) for each in tables], str(folder))
    schema = "id BIGINT, n BIGINT, ts TIMESTAMP_NTZ"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"file://{folder}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_window_ends_to_the_microsecond_whatever_the_moment_and_the_clock(spark, tmp_path, zone, kind):
    shifted = [(key, edge, moment + edge) for key, moment in enumerate(MOMENTS) for edge in EDGES]
    tables = {
        "A": [table(*((key, key, moment) for key, moment in enumerate(MOMENTS)))],
        "B": [table(*shifted[::2]), table(*shifted[1::2])],
    }
    flow = wm.Flow(spark)
    frames = {name: frame_of(spark, each, kind, tmp_path / name) for name, each in tables.items()}
    a, b = (flow.stream(name, frame, time="ts", **LAX) for name, frame in frames.items())
    sink, metrics = ran(a.join(b, "id").select("A.n AS a", "B.n AS b"))
    wanted = [(key, edge) for key in range(len(MOMENTS)) for edge, is_inside in EDGES.items() if is_inside]
    assert pairs(sink) == sorted(wanted), zone
    assert not any(rejected(metrics))


def test_a_late_row_is_counted_and_joins_nothing(spark):
    tables = {
        "A": [
            table((1, 0, 100 * SECOND), (1, 1, 0)),
            table((1, 2, 95 * SECOND), (1, 3, 95 * SECOND - 1), (1, 4, None), (1, 5, 300 * SECOND)),
            table((1, 6, 100 * SECOND), (None, 7, 100 * SECOND), (1, 8, 295 * SECOND)),
        ],
        "B": [table((1, 0, 0)), table((1, 1, None)), table((1, 2, 5 * SECOND))],
    }
    a, b = streams_of(
        spark, tables, A={"watermark": "5 seconds"}, B={"window": "1 hour", "watermark": timedelta(hours=2)}
    )
    sink, metrics = ran(a.join(b, "id").select("A.n AS a", "B.n AS b"))
    assert rejected(metrics)[:3] == [
        Counter(),
        Counter({("A", "late"): 1, ("A", "null time"): 1, ("B", "null time"): 1}),
        Counter({("A", "late"): 2}),
    ]
    assert pairs(sink) == sorted((left, right) for left in (0, 1, 2, 5, 8) for right in (0, 2))


def test_rows_are_rejected_before_filters_are_applied(spark):
    tables = {"A": [table((1, 0, 100)), table((1, 1, 1), (1, 2, 2))], "B": [table((1, 0, 0)), table()]}
    a, b = streams_of(spark, tables, watermark="0 seconds")
    sink, metrics = ran(a.where("A.n <> 1").join(b, "id").select("A.n AS a", "B.n AS b"))
    assert sum(rejected(metrics), Counter()) == Counter({("A", "late"): 2})
    assert pairs(sink) == [(0, 0)]


EPOCHS = 12


def steady(numbers):
    """The same number of rows in every epoch, ten seconds after those of the epoch before."""
    return [table(*((key, 10 * epoch + key, 10 * epoch * SECOND) for key in numbers)) for epoch in range(EPOCHS)]


def assert_flat(metrics):
    rows = [epoch["stateRows"] for epoch in metrics]
    assert len(rows) >= EPOCHS
    assert max(rows[EPOCHS // 2 :]) <= max(rows[: EPOCHS // 2]), rows


@pytest.mark.slow
def test_state_stays_as_large_as_the_windows(spark):
    tables = {name: steady(range(5)) for name in "ABC"}
    a, b, c = streams_of(spark, tables, window="15 seconds", watermark="5 seconds")
    sink, metrics = ran(a.join(b, "id").join(c, "id").select("A.n AS a", "B.n AS b", "C.n AS c"))
    conditions = ["A.id = B.id", "B.id = C.id", "greatest(A.n, B.n, C.n) - least(A.n, B.n, C.n) <= 10"]
    assert sink.rows == joined(tables, conditions, "A.n AS a, B.n AS b, C.n AS c")
    assert_flat(metrics)


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        "B.ts BETWEEN A.ts AND A.ts + INTERVAL 20 SECONDS",
        "A.ts <= B.ts AND B.ts - INTERVAL '20' SECOND <= A.ts",
    ],
)
def test_a_condition_between_times_bounds_state_as_windows_do(spark, condition):
    tables = {name: steady(range(5)) for name in "AB"}
    a, b = streams_of(spark, tables, watermark="5 seconds")
    sink, metrics = ran(a.join(b, f"A.id = B.id AND {condition}").select("A.n AS a", "B.n AS b"))
    assert sink.rows == joined(tables, ["A.id = B.id", "B.n - A.n BETWEEN 0 AND 20"], "A.n AS a, B.n AS b")
    assert_flat(metrics)


def test_a_condition_between_times_is_what_sql_says_to_the_microsecond(spark):
    edges = [-1, 0, HOUR, HOUR + 1]
    tables = {"A": [table((1, 0, 0)), table()], "B": [table(), table(*((1, edge, edge) for edge in edges))]}
    a, b = streams_of(spark, tables, watermark="1 day")
    on = (F.col("A.id") == F.col("B.id")) & F.col("B.ts").between(F.col("A.ts"), F.expr("A.ts + INTERVAL 1 HOUR"))
    sink, _ = ran(a.join(b, on).select("A.n AS a", "B.n AS b"))
    assert pairs(sink) == [(0, 0), (0, HOUR)]


@pytest.mark.slow
def test_days_of_a_condition_are_by_the_calendar_and_state_waits_for_them(spark):
    noon = micros(2026, 10, 31, 16)  # in New York, where the next noon is 25 hours later
    tables = {
        "A": [table((1, 0, noon)), table(), table()],
        "B": [table(), table((2, 0, noon + 22 * HOUR + 9)), table((1, 1, noon + 23 * HOUR), (1, 2, noon + 24 * HOUR))],
    }
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        a, b = streams_of(spark, tables, watermark="0 seconds")
        on = "A.id = B.id AND B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 DAY - INTERVAL 2 HOURS"
        sink, _ = ran(a.join(b, on).select("A.n AS a", "B.n AS b"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert pairs(sink) == [(0, 1)]


@pytest.mark.slow
def test_a_row_of_three_streams_lives_while_all_of_them_do(spark):
    tables = {
        "A": [table((1, 0, 0)), table(), table()],
        "B": [table(), table((1, 6, 6)), table()],
        "C": [table(), table(), table((1, 5, 5), (1, 9, 9), (1, 10, 10), (1, 8, 8))],
    }
    windows = {"A": 10, "B": 3, "C": 2}
    said = {name: {"window": timedelta(microseconds=us), "watermark": "1 hour"} for name, us in windows.items()}
    a, b, c = streams_of(spark, tables, **said)
    tree = a.join(b, "A.id = B.id").join(c, "A.id = C.id").select("B.n AS a", "C.n AS b")
    assert pairs(ran(tree)[0]) == [(6, 5), (6, 8)]


@pytest.mark.slow
def test_without_a_window_rows_live_for_ever_and_without_times_always(spark):
    tables = {"A": [table((1, 0, 0)), table((1, 1, HOUR))], "B": [table((1, 5, 50 * HOUR))], "C": [table((1, 7, None))]}
    a, b, c = streams_of(spark, tables, A={}, B={"watermark": "1 minute"}, C={"time": None})
    assert pairs(ran(a.join(b, "id").select("A.n AS a", "B.n AS b"))[0]) == [(0, 5), (1, 5)]
    assert pairs(ran(b.join(c, "id").select("B.n AS a", "C.n AS b"))[0]) == [(5, 7)]


def test_a_window_without_a_watermark_decides_what_joins_and_warns_that_nothing_expires(spark):
    tables = {"A": [table((1, 0, HOUR)), table((1, 1, 0))], "B": [table((1, 5, HOUR + 5)), table()]}
    with pytest.warns(UserWarning, match="stream A has a window and no watermark.*watermark='30 seconds'"):
        a, b = streams_of(spark, tables, A={"window": "1 minute"}, B={})
    sink, metrics = ran(a.join(b, "id").select("A.n AS a", "B.n AS b"))
    assert pairs(sink) == [(0, 5)]
    assert not any(rejected(metrics))
    assert metrics[-1]["stateRows"] == 3


def test_names_of_time_columns_are_found_as_spark_finds_names(spark):
    a, b = streams_of(spark, {name: [table((1, 3, 0))] for name in "AB"}, A={"time": "TS"}, B={})
    assert pairs(ran(a.join(b, "id").select("A.n AS a", "B.n AS b"))[0]) == [(3, 3)]


def test_a_query_without_times_tells_of_no_rejected_rows(spark):
    a, b = streams_of(spark, {name: [table((1, 3, None))] for name in "AB"}, time=None)
    sink, metrics = ran(a.join(b, "id").select("A.n AS a", "B.n AS b"))
    assert pairs(sink) == [(3, 3)]
    assert metrics[-1].get("rejected") is None


WRONG = {
    "a window without a time": ({"time": None, "window": "1 hour"}, "has a window and no time", "time="),
    "a watermark without a time": ({"time": None, "watermark": "1 hour"}, "has a watermark and no time", "time="),
    "an unknown time": ({"time": "tss"}, "has no column tss", "did you mean 'ts'"),
    "a time that is a number": ({"time": "n"}, "column n, is bigint", "to_timestamp"),
    "a negative window": ({"window": "-1 hour"}, "window of stream A is '-1 hour'", "negative"),
    "no window at all": ({"window": "0 seconds"}, "window of stream A is '0 seconds'", "no time at all"),
    "a window of zero": ({"window": timedelta()}, "window of stream A is", "no time at all"),
    "a window that is no length": ({"window": "soon"}, "'soon'", "30 seconds"),
    "a window that is empty": ({"window": ""}, "is ''", "30 seconds"),
    "a window without a unit": ({"window": "10"}, "'10'", "30 seconds"),
    "a window that is a number": ({"window": 10}, "is 10", "30 seconds"),
    "a window of parsecs": ({"window": "3 parsecs"}, "'3 parsecs'", "parsecs is no unit of time"),
    "a window of a month": ({"window": "1 month"}, "'1 month'", "a month is not always as long"),
    "a window of two years": ({"window": "2 years"}, "'2 years'", "a year is not always as long"),
    "a window of ages": ({"window": "99999999 days"}, "'99999999 days'", "70,000 years"),
    "a negative watermark": ({"watermark": "-1 second"}, "watermark of stream A is '-1 second'", "negative"),
    "a watermark of a month": ({"watermark": "1 month"}, "watermark of stream A", "a month is not always as long"),
}


@pytest.mark.parametrize(("said", "what", "more"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_about_times_is_told_at_once(spark, said, what, more):
    with pytest.raises(wm.WatersmeetError) as caught:
        streams_of(spark, {"A": [table()]}, A=said)
    error = caught.value
    assert what in error.what
    assert more in str(error)
    assert error.why
    assert error.how


def test_times_with_and_without_a_zone_are_not_joined(spark, tmp_path):
    flow = wm.Flow(spark)
    a = flow.stream("A", frame_of(spark, [table()], "timestamp", tmp_path), time="ts")
    b = flow.stream("B", frame_of(spark, [table()], "timestamp_ntz", tmp_path), time="ts")
    with pytest.raises(wm.WatersmeetError, match=r"time of stream A is timestamp, that of B timestamp_ntz.*cast one"):
        a.join(b, "id")


def test_a_date_is_no_time(spark):
    days = wm.testing.replay(spark, [pa.table({"day": pa.array([0], pa.date32())})])
    with pytest.raises(wm.WatersmeetError, match=r"column day, is date: event times are timestamps.*to_timestamp"):
        wm.Flow(spark).stream("A", days, time="day")


def test_rejected_rows_are_written_where_the_user_says(spark: SparkSession, tmp_path: Path) -> None:
    rows = [[("x", 100, 1), ("y", 100, 2)], [("late", 10, 3), (None, None, 4)], [("z", 101, 5)]]
    tables = [
        pa.table(
            {
                "k": pa.array([k for k, _, _ in epoch]),
                "ts": pa.array([t for _, t, _ in epoch], pa.int64()).cast(pa.timestamp("us", "UTC")),
                "n": pa.array([n for _, _, n in epoch]),
            }
        )
        for epoch in rows
    ]
    flow = wm.Flow(spark)
    a = flow.stream("A", wm.testing.replay(spark, tables), time="ts", window="1 second", watermark="0 seconds")
    b = flow.stream("B", wm.testing.replay(spark, tables), time="ts", window="1 second", watermark="0 seconds")
    writer = a.join(b, "k").select("A.k AS k").writeStream.format("noop").option("rejectedPath", str(tmp_path / "no"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    found = spark.read.parquet(str(tmp_path / "no")).where("stream = 'A'").orderBy("reason").collect()
    assert [(row.epoch, row.reason, json.loads(row.row)["n"], json.loads(row.row)["k"]) for row in found] == [
        (1, "late", 3, "late"),
        (1, "null time", 4, None),
    ]


def test_rejected_rows_have_their_microseconds_whatever_the_zone_of_the_session(spark, zone, tmp_path):
    schema = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("plain", pa.timestamp("us"))])
    times = [[5 * SECOND], [1_234_567], [-1], []]
    columns = [[pa.array([1] * len(some), pa.int64()), *[pa.array(some, pa.int64())] * 2] for some in times]
    tables = [pa.table(some, schema.names).cast(schema) for some in columns]
    a = wm.Flow(spark).stream("A", wm.testing.replay(spark, tables), time="ts", watermark="0 seconds")
    writer = a.groupBy("A.k").count().writeStream.format("noop").outputMode("update")
    query = writer.option("rejectedPath", str(tmp_path / "no")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    found = [json.loads(row.row) for row in spark.read.parquet(str(tmp_path / "no")).orderBy("epoch").collect()]
    assert [(row["ts"], row["plain"]) for row in found] == [
        ("1970-01-01T00:00:01.234567Z", "1970-01-01T00:00:01.234567"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999"),
    ], zone
