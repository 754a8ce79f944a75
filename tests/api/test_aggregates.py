"""Aggregates on Spark: the values, names and types of Spark's own batch queries, at the end of input and before it."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.aggregating import (
    BY_MINUTE,
    DATA,
    alone,
    assert_same,
    by_epoch,
    has_spilled,
    ran,
    streams_of,
    table,
)

pytestmark = pytest.mark.spark

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


def test_update_tells_the_groups_that_changed_and_nothing_else(spark):
    tables = [
        table(("a", 1, 0), ("b", 2, 0), (None, 3, 0)),
        table(("a", 5, 0)),
        table((None, 4, 0), ("c", None, 0), (None, None, 0)),
    ]
    grouped = alone(spark, tables).groupBy("A.k").agg("count(*) AS rows", "sum(A.n) AS total")
    sink, _ = ran(grouped.where("rows < 3").select("k", "total * 10 AS tenfold"), mode="update")
    assert by_epoch(sink) == {0: [("a", 10), ("b", 20), (None, 30)], 1: [("a", 60)], 2: [("c", None)]}


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
