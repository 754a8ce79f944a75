"""Rows without repetition, on Spark: distinct rows, and one row of those that are alike in some columns."""

import pyarrow as pa
import pytest
from tests.support.aggregating import DATA, alone, by_epoch, ran, streams_of
from tests.support.oracle import multiset
from tests.support.spark_runs import run

pytestmark = pytest.mark.spark


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
