"""Aggregates over the last rows of each group, on Spark: small tables whose groups can be told by hand."""

import pytest
from tests.support.aggregating import SECOND, alone, by_epoch, ran, streams_of, table

import watersmeet as wm

pytestmark = pytest.mark.spark

SALES = [
    table(("a", 1, 0), ("a", 2, 5 * SECOND), ("b", 3, 0), (None, 4, 0)),
    table(("a", 10, 3 * SECOND), ("b", 20, 0)),
    table(("a", 100, 9 * SECOND), (None, 200, -5 * SECOND)),
]
TOLD = ("count(*) AS rows", "sum(A.n) AS total")


def last(spark, tables=SALES, **over):
    return alone(spark, tables, time="ts").groupBy("A.k").over(**over).agg(*TOLD)


def test_each_epoch_tells_the_last_rows_of_the_groups_that_got_some(spark):
    sink, _ = ran(last(spark, rows=2))
    assert by_epoch(sink) == {
        0: [("a", 2, 3), ("b", 1, 3), (None, 1, 4)],
        1: [("a", 2, 12), ("b", 2, 23)],
        2: [("a", 2, 102), (None, 2, 204)],
    }


def test_rows_of_one_time_count_all_or_not_at_all(spark):
    sink, _ = ran(last(spark, rows=1))
    assert by_epoch(sink)[1] == [("a", 1, 2), ("b", 2, 23)]


def test_a_range_of_time_ends_with_the_latest_row_of_a_group_and_is_open_at_its_beginning(spark):
    sink, _ = ran(last(spark, time="5 seconds"), mode="update")
    assert by_epoch(sink) == {
        0: [("a", 1, 2), ("b", 1, 3), (None, 1, 4)],
        1: [("a", 2, 12), ("b", 2, 23)],
        2: [("a", 2, 102), (None, 1, 4)],
    }


def test_late_rows_are_rejected_and_state_of_a_range_ends_by_the_watermark(spark):
    tables = [table(("a", 1, n * SECOND), ("b", 1, (n - 4) * SECOND)) for n in range(12)]
    stream = alone(spark, tables, time="ts", watermark="2 seconds")
    sink, metrics = ran(stream.groupBy("A.k").over(time="3 seconds").agg(*TOLD))
    assert [each[0][1] for each in by_epoch(sink).values()] == [1, 2, *[3] * 10]
    assert sum(each["rows"] for epoch in metrics for each in epoch["rejected"]) == 11
    assert metrics[-1]["stateRows"] < 12


def test_results_of_a_join_are_ordered_by_the_latest_time_of_their_rows(spark, capsys):
    a = [table(("x", 1, 0)), table(("x", 2, 9 * SECOND)), table()]
    b = [table(("x", 10, 4 * SECOND)), table(), table(("x", 20, 8 * SECOND))]
    a, b = streams_of(spark, {"A": a, "B": b}, time="ts")
    grouped = a.join(b, "k").groupBy("A.k").over(rows=2).agg("sum(A.n + B.n) AS total", "count(*) AS rows")
    sink, _ = ran(grouped)
    assert by_epoch(sink) == {0: [("x", 11, 1)], 1: [("x", 23, 2)], 2: [("x", 34, 2)]}
    grouped.explain()
    assert "over the last 2 rows, ordered by GREATEST(A.ts, B.ts)" in capsys.readouterr().out


def test_histories_go_into_files_and_are_recovered(spark, tmp_path):
    frames = wm.testing.replay(spark, SALES)
    grouped = wm.Flow(spark).stream("A", frames, time="ts").groupBy("A.k").over(rows=2).agg(*TOLD)
    for _ in range(2):
        writer = grouped.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        assert query.awaitTermination(240)
    got = sorted((tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect()), key=repr)
    assert len(got) == 7
    assert [row for row in got if row[0] == "a"] == [("a", 2, 102), ("a", 2, 12), ("a", 2, 3)]


def test_what_cannot_be_is_told_at_once(spark):
    groups, timeless = alone(spark, time="ts", tables=SALES).groupBy("k"), alone(spark).groupBy("k")
    wrong = {
        "nothing.*over\\(rows=100\\)": groups.over,
        "both rows and time": lambda: groups.over(rows=1, time="1 second"),
        "rows=0.*one at least": lambda: groups.over(rows=0),
        "rows=True": lambda: groups.over(rows=True),
        "time of over is 'soon'": lambda: groups.over(time="soon"),
        "no time at all": lambda: groups.over(time="0 seconds"),
        "last 3 rows, and no stream has a time.*arrive.*time=": lambda: timeless.over(rows=3).count(),
    }
    for message, call in wrong.items():
        with pytest.raises(wm.WatersmeetError, match=f"(?s){message}") as caught:
            call()
        assert caught.value.what
        assert caught.value.why
        assert caught.value.how
