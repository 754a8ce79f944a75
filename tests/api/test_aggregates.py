"""Aggregates on Spark: small tables whose groups can be told by hand, and the values of Spark's own batch queries."""

import re
import warnings
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from tests.support.oracle import difference, multiset
from tests.support.spark_runs import PATIENCE_S, Collected, run

import watersmeet as wm
from watersmeet.api.checks import check_ends

pytestmark = pytest.mark.spark

SECOND, MINUTE = 1_000_000, 60_000_000
NAN = float("nan")
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
DATA = [
    pa.table({"k": ["a", "b", None, "a"], "n": [1, 2, None, -4], "x": [0.5, NAN, 0.0, None]}),
    pa.table({"k": ["a", None, "c"], "n": [3, 7, None], "x": [-2.0, -0.0, None]}),
    pa.table({"k": ["b", "a", None], "n": [2, 1, 5], "x": [1.5, 0.5, 2.5]}),
]
BY_MINUTE = "window(A.ts, '1 minute')"
TELLING = {
    "n": "count(*)",
    "known": "count(n)",
    "total": "sum(n)",
    "fractions": "sum(x)",
    "mean": "avg(n)",
    "least": "min(x)",
    "most": "max(x)",
    "word": "max(k)",
    "spread": "round(stddev(n), 9)",
    "kinds": "count(DISTINCT n)",
    "about": "approx_count_distinct(x)",
}


def table(*rows):
    """Rows of a key, a number and a time in microseconds."""
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([pa.array(list(column), kind) for column, kind in zip(columns, SCHEMA.types, strict=True)], SCHEMA)


def streams_of(spark, tables, **said):
    flow = wm.Flow(spark)
    return [flow.stream(name, wm.testing.replay(spark, each), **said) for name, each in tables.items()]


def alone(spark, tables=DATA, **said):
    return streams_of(spark, {"A": tables}, **said)[0]


def ran(rows, sink=None, *, mode="append", **options):
    """What the sink got by epoch, and the metrics of each epoch."""
    sink = sink or Collected()
    writer = rows.writeStream.foreachBatch(sink).outputMode(mode).options(sites=2, **options)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return sink, [progress["customMetrics"] for progress in query.recentProgress]


def by_epoch(sink):
    """The rows of each epoch that has any, sorted."""
    rows = {epoch: [tuple(row.values()) for row in each.to_pylist()] for epoch, each in sorted(sink.epochs.items())}
    return {epoch: sorted(each, key=repr) for epoch, each in rows.items() if each}


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


def test_update_tells_the_groups_that_changed_and_nothing_else(spark):
    tables = [
        table(("a", 1, 0), ("b", 2, 0), (None, 3, 0)),
        table(("a", 5, 0)),
        table((None, 4, 0), ("c", None, 0), (None, None, 0)),
    ]
    grouped = alone(spark, tables).groupBy("A.k").agg("count(*) AS rows", "sum(A.n) AS total")
    sink, _ = ran(grouped.where("rows < 3").select("k", "total * 10 AS tenfold"), mode="update")
    assert by_epoch(sink) == {0: [("a", 10), ("b", 20), (None, 30)], 1: [("a", 60)], 2: [("c", None)]}


def batch(spark, *keys):
    rows = spark.createDataFrame(pa.concat_tables(DATA))
    return rows.groupBy(*(F.expr(key) for key in keys)).agg(
        *(F.expr(text).alias(name) for name, text in TELLING.items())
    )


def shown(relation):
    """The same columns; what is computed of an aggregate is selected after it."""
    plain = {name: text for name, text in TELLING.items() if name != "spread"}
    told = relation.agg(*(f"{text} AS {name}" for name, text in plain.items()), "stddev(n) AS spread")
    keys = [name for name in told.columns if name not in TELLING]
    return told.select(*keys, *plain, "round(spread, 9) AS spread").select(*keys, *TELLING)


def assert_same(rows, frame, **options):
    sink, metrics = ran(rows, endOfInput=True, **options)
    got, expected = sink.rows, multiset(frame.toArrow())
    assert got == expected, difference(got, expected)
    assert "memoryBudget" not in options or has_spilled(metrics)


def has_spilled(metrics):
    """Whether groups were spilled and met again, so that their values had to be put together."""
    return any(epoch["spilledGroups"] for epoch in metrics)


def test_all_groups_come_at_the_end_of_input_with_the_values_of_sparks_batch_query(spark):
    rows = shown(alone(spark).groupBy("k"))
    assert_same(rows.where("n > 1"), batch(spark, "k").where("n > 1"), memoryBudget=1)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"memoryBudget": 1}])
@pytest.mark.parametrize("keys", [[], ["k"], ["x"], ["n % 2 AS odd", "k"], ["concat(k, n) AS text"]])
def test_groups_are_those_of_sparks_batch_query(spark, keys, options):
    assert_same(shown(alone(spark).groupBy(*keys)), batch(spark, *keys), **options)


FORMS = {
    "about": "approx_count_distinct(n, 0.01)",
    "mean": "avg(CAST(n AS DECIMAL(10, 2)))",
    "pairs": "count(DISTINCT k, n)",
    "ratio": "sum(n) / count(*)",
    "again": "cast(sum(n) AS DOUBLE) + count(n) * 2",
    "some": "sum(n) FILTER (WHERE n > 1)",
    "many": "count_if(n > 1)",
    "positive": "count(*) FILTER (WHERE x > 0)",
    "shifted": "max(n) - odd",
    "named": "coalesce(min(k), 'none')",
}


def forms(relation):
    return relation.groupBy("n % 2 AS odd").agg(*(f"{text} AS {name}" for name, text in FORMS.items()))


def batch_of_forms(spark):
    frame = spark.createDataFrame(pa.concat_tables(DATA)).selectExpr("*", "n % 2 AS odd")
    return frame.groupBy("odd").agg(*(F.expr(text).alias(name) for name, text in FORMS.items()))


def test_other_forms_of_aggregates_have_the_values_of_sparks_batch_query(spark):
    made, wanted = forms(alone(spark)), batch_of_forms(spark)
    assert [(each.name, each.dataType) for each in made.schema] == [
        (each.name, each.dataType) for each in wanted.schema
    ]
    assert_same(made, wanted, memoryBudget=1)


@pytest.mark.slow
def test_other_forms_of_aggregates_are_told_whenever_they_change(spark):
    sink, _ = ran(forms(alone(spark)).where("ratio IS NULL OR ratio > -100"), mode="update")
    latest = {row["odd"]: row for _, table in sorted(sink.epochs.items()) for row in table.to_pylist()}
    wanted = {row["odd"]: row for row in batch_of_forms(spark).toArrow().to_pylist()}
    assert latest == wanted
    assert len(sink.epochs[1]) < 4


def test_groups_have_the_methods_of_sparks_and_name_columns_as_they_do(spark):
    rows = alone(spark).select("k", "n", "x")
    frame = spark.createDataFrame(pa.concat_tables(DATA))
    for made, wanted in (
        (rows.groupBy("k").sum("n"), frame.groupBy("k").sum("n")),
        (rows.groupBy("k").avg("n", "x"), frame.groupBy("k").avg("n", "x")),
        (rows.groupBy("k").mean("n"), frame.groupBy("k").mean("n")),
        (rows.groupBy("n").max(), frame.groupBy("n").max()),
        (rows.groupBy("k").min(), frame.groupBy("k").min()),
        (rows.groupBy("k").agg({"n": "mean", "*": "count"}), frame.groupBy("k").agg({"n": "mean", "*": "count"})),
        (
            rows.groupBy("k").agg(F.approx_count_distinct("n", 0.01).alias("a")),
            frame.groupBy("k").agg(F.approx_count_distinct("n").alias("a")),
        ),
        (
            rows.groupBy("k").agg((F.sum("n") / F.count("*")).alias("a")),
            frame.groupBy("k").agg((F.sum("n") / F.count("*")).alias("a")),
        ),
        (
            rows.groupBy("k").agg(F.count_if(F.col("n") > 1).alias("a")),
            frame.groupBy("k").agg(F.count_if(F.col("n") > 1).alias("a")),
        ),
        (
            rows.groupBy("k").agg(F.countDistinct("n", "x").alias("a")),
            frame.groupBy("k").agg(F.countDistinct("n", "x").alias("a")),
        ),
    ):
        assert sorted(made.columns) == sorted(wanted.columns)
        types = dict(made.dtypes)
        assert types == dict(wanted.dtypes)


def test_distinct_rows_come_when_they_first_come(spark):
    sink, _ = ran(alone(spark).select("k", "abs(n) % 2 AS odd").distinct())
    assert by_epoch(sink) == {
        0: [("a", 0), ("a", 1), ("b", 0), (None, None)],
        1: [("c", None), (None, 1)],
    }


@pytest.mark.slow
def test_duplicates_are_dropped_by_all_columns_that_are_selected(spark):
    rows = alone(spark).select("k", "n")
    wanted = spark.createDataFrame(pa.concat_tables(DATA)).select("k", "n").distinct()
    assert run(rows.dropDuplicates(["n", "k"]).select("k", "n"), sites=2) == multiset(wanted.toArrow())
    assert run(rows.drop_duplicates(), sites=2, memoryBudget=1) == multiset(wanted.toArrow())


@pytest.mark.parametrize("options", [{}, {"memoryBudget": 1}])
def test_duplicates_by_some_columns_leave_one_whole_row_of_each(spark, options):
    rows = alone(spark).select("k", "n", "array(k, k) AS twice")
    sink, _ = ran(rows.dropDuplicates(["k"]), **options)
    everything = [(row["k"], row["n"], [row["k"]] * 2) for table in DATA for row in table.to_pylist()]
    got = [(row["k"], row["n"], row["twice"]) for table in sink.epochs.values() for row in table.to_pylist()]
    assert sorted(str(row[0]) for row in got) == sorted({str(row[0]) for row in everything})
    assert all(row in everything for row in got), "values are of one row"


@pytest.mark.parametrize("names", [None, ["k"], ["A.k", "B"]])
def test_joined_rows_without_repetition_have_their_streams_as_ever(spark, names):
    a, b = streams_of(spark, {"A": [pa.table({"k": [1, 1, 2], "v": [7, 7, 8]})], "B": [pa.table({"k": [1, 2, 2]})]})
    rows = a.join(b, "k")
    sink, _ = ran(rows.dropDuplicates(names))
    assert rows.dropDuplicates(names).columns == rows.columns
    assert sorted(str(row) for table in sink.epochs.values() for row in table.to_pylist()) == [
        "{'A': {'k': 1, 'v': 7}, 'B': {'k': 1}}",
        "{'A': {'k': 2, 'v': 8}, 'B': {'k': 2}}",
    ]


@pytest.mark.slow
def test_distinct_results_of_a_join(spark):
    a, b = streams_of(spark, {"A": DATA, "B": DATA})
    frame = spark.createDataFrame(pa.concat_tables(DATA))
    wanted = frame.alias("A").join(frame.alias("B"), "k").selectExpr("k", "A.n + B.n AS sum").distinct()
    assert run(a.join(b, "k").select("k", "A.n + B.n AS sum").distinct(), sites=2) == multiset(wanted.toArrow())


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


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "update"])
def test_a_small_budget_changes_no_group(spark, mode):
    tables = [table(*((f"k{number % 40}", number, 0) for number in range(start, start + 100))) for start in (0, 100)]
    a, b = streams_of(spark, {"A": tables, "B": tables})
    grouped = a.join(b, "k").groupBy("k").agg("count(*) AS n", "sum(A.n) AS total")
    sink, metrics = ran(grouped, mode=mode, memoryBudget=1, endOfInput=True)
    assert has_spilled(metrics)
    latest = {row[0]: row for each in by_epoch(sink).values() for row in each}
    assert len(latest) == 40
    numbers = {f"k{key}": range(key, 200, 40) for key in range(40)}
    assert all(latest[key] == (key, 25, 5 * sum(each)) for key, each in numbers.items())


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


def test_columns_of_an_aggregate_are_named_and_typed_as_sparks(spark):
    a = alone(spark)
    assert a.groupBy("k").count().columns == ["k", "count"]
    assert a.groupby(F.col("k")).agg(F.sum("n").alias("total"), F.count("*").alias("n")).columns == ["k", "total", "n"]
    assert a.groupBy("k").agg(F.countDistinct("n").alias("kinds")).columns == ["k", "kinds"]
    timed = alone(spark, [table()], time="ts", watermark="0 seconds")
    assert timed.groupBy(F.window("ts", "1 minute")).count().plan() == timed.groupBy(BY_MINUTE).count().plan()
    sliding = F.window("ts", "1 minute", "20 seconds"), "window(A.ts, '1 minute', '20 seconds')"
    assert timed.groupBy(sliding[0]).count().plan() == timed.groupBy(sliding[1]).count().plan()
    assert a.groupBy(["k", "n % 2 AS odd"]).agg("avg(x) AS mean").columns == ["k", "odd", "mean"]
    assert a.groupBy().count().columns == ["count"]
    assert a.groupBy("k").agg("sum(n)").columns == ["k", "sum(n)"]


def bad(spark):
    a, b = streams_of(spark, {"A": [table()], "B": [table()]}, time="ts", window="1 minute", watermark="0 seconds")
    python = F.udf(lambda n: n, LongType())
    counted = a.groupBy("A.k").count()
    return {
        "an unknown function": (
            lambda: a.groupBy("k").agg("median(n)"),
            "median",
            "aggregates are count, count_if, sum",
        ),
        "no function": (lambda: a.groupBy("k").agg("n"), "given n", "aggregates are count"),
        "what is no key": (
            lambda: a.groupBy("k").agg("sum(n) + n AS x"),
            "sum\\(n\\) \\+ n",
            "neither in an aggregate",
        ),
        "a window function": (lambda: a.groupBy("k").agg("sum(n) OVER () AS x"), "OVER", "aggregates are"),
        "aggregates of aggregates": (lambda: a.groupBy("k").agg("sum(count(*)) AS x"), "COUNT", "."),
        "no columns with numbers": (
            lambda: a.join(b, "k").groupBy("A.k").sum(),
            "sum was given no columns",
            "name some",
        ),
        "a pivot": (lambda: a.groupBy("k").pivot("n"), "groups have no pivot", "agg"),
        "a bare number in over": (lambda: a.groupBy("k").over(3), "over was given 3", "rows=100"),
        "a function of a dict that is none": (lambda: a.groupBy("k").agg({"n": "median"}), "median", "aggregates are"),
        "DISTINCT in sum": (lambda: a.groupBy("k").agg("sum(DISTINCT n)"), "DISTINCT", "only count takes DISTINCT"),
        "two of one name": (lambda: a.groupBy("k").agg("sum(n) AS k"), "called k", "AS"),
        "nothing": (lambda: a.groupBy("k").agg(), "nothing", "count"),
        "a window that slides very often": (
            lambda: a.groupBy("window(ts, '1 day', '1 second')").count(),
            "WINDOW",
            "86,400 windows.*1,000.*less often",
        ),
        "a session": (
            lambda: a.groupBy("session_window(ts, '2 minutes')").count(),
            "SESSION_WINDOW",
            "a session grows",
        ),
        "a session as a Column": (
            lambda: a.groupBy(F.session_window("ts", "2 minutes")).count(),
            "(?i)session",
            "grows",
        ),
        "a part of a window": (lambda: a.groupBy("window(ts, '1 minute').start").count(), "WINDOW", "made of"),
        "a window of a number": (
            lambda: a.groupBy("window(n, '1 minute')").count(),
            "WINDOW",
            "A.n is no timestamp",
        ),
        "a window of no length": (lambda: a.groupBy("window(ts, 'soon')").count(), "soon", "length of time"),
        "a stream": (lambda: a.join(b, "k").groupBy("A").count(), "grouped by A", "columns"),
        "an unknown column": (lambda: a.groupBy("kk").count(), "kk", "k"),
        "an unknown argument": (lambda: a.groupBy("k").agg("sum(nn)"), "nn", "n"),
        "a sum of texts": (lambda: a.groupBy("n").agg("sum(k)"), "sum", "string.*CAST"),
        "an average of times": (lambda: a.groupBy("n").agg("avg(ts)"), "avg", "timestamp.*CAST"),
        "after Python": (lambda: a.select(python("n").alias("m")).groupBy("m"), "only Spark can do", "group first"),
        "groups of groups": (lambda: counted.groupBy("count"), "grouped already", "group"),
        "distinct groups": (counted.distinct, "grouped already", "group"),
        "a joined aggregate": (lambda: counted.join(b, "k"), "aggregate", "join first"),
        "duplicates by an unknown column": (lambda: a.dropDuplicates(["kk"]), "kk", "k"),
        "complete mode": (lambda: counted.writeStream.outputMode("complete"), "complete", "update"),
        "update into files": (
            lambda: counted.writeStream.outputMode("update").option("checkpointLocation", "c").start("out"),
            "update.*parquet",
            "foreachBatch",
        ),
    }


def test_what_cannot_be_grouped_is_told_at_once(spark):
    wrong = []
    for name, (call, what, more) in bad(spark).items():
        try:
            call()
        except wm.WatersmeetError as error:
            said = [error.what, error.why, error.how]
            if not all(said) or not re.search(what, error.what) or not re.search(more, str(error)):
                wrong.append((name, str(error)))
        except Exception as error:  # noqa: BLE001 -- that is what is looked for
            wrong.append((name, repr(error)[:300]))
        else:
            wrong.append((name, "not refused"))
    assert not wrong, "\n".join(map(str, wrong))


def test_groups_that_never_come_out_are_warned_of(spark):
    a, b = streams_of(spark, {"A": [table()], "B": [table()]}, time="ts")
    ended = alone(spark, [table()], time="ts", watermark="1 second")
    for rows in (a.groupBy("k").count(), a.join(b, "k").groupBy(BY_MINUTE).count(), ended.groupBy("k").count()):
        with pytest.warns(UserWarning, match="groups never come out.*endOfInput"):
            check_ends(rows.plan(), {"availableNow": True}, ends_input=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_ends(ended.groupBy(BY_MINUTE).count().plan(), {"processingTime": "1 second"}, ends_input=False)
        check_ends(a.groupBy("k").count().plan(), {"availableNow": True}, ends_input=True)
        check_ends(a.select("k").distinct().plan(), {"availableNow": True}, ends_input=False)
        check_ends(a.groupBy("k").count().shape.plan("update"), {"availableNow": True}, ends_input=False)
