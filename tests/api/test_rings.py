"""Joins without an equality, as users write them."""

import itertools
import random
import threading
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.functions import expr as spark_expr

import watersmeet as wm

START = datetime(2026, 1, 1, tzinfo=UTC)


def readings(seed: int, rows: int = 60, epochs: int = 3) -> list[pa.Table]:
    """Values at times that go on from epoch to epoch."""
    chance = random.Random(seed)
    return [
        pa.table(
            {
                "x": pa.array([chance.choice([None, *range(40)]) for _ in range(rows)], pa.int64()),
                "f": [chance.random() * 10 for _ in range(rows)],
                "ts": [START + timedelta(seconds=60 * epoch + chance.randrange(60)) for _ in range(rows)],
            }
        )
        for epoch in range(epochs)
    ]


def streams(spark, names="AB", window="30 seconds", **sizes):
    flow = wm.Flow(spark)
    data = {name: readings(ord(name), **sizes) for name in names}
    made = [
        flow.stream(name, wm.testing.replay(spark, tables), time="ts", window=window, watermark="1 minute")
        for name, tables in data.items()
    ]
    return flow, made, {name: pa.concat_tables(tables).to_pylist() for name, tables in data.items()}


def run(relation, name: str, **options):
    writer = relation.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    for key, value in options.items():
        writer = writer.option(key, value)
    query = writer.start()
    query.awaitTermination(120)
    return query


def shown(spark, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.table(name).collect())


def pairs(rows, holds, window=timedelta(seconds=30)):
    found = []
    for a in rows["A"]:
        for b in rows["B"]:
            latest = max(a["ts"], b["ts"])
            if latest < min(a["ts"], b["ts"]) + window and None not in (a["x"], b["x"]) and holds(a, b):
                found.append((a["x"], a["f"], b["x"], b["f"]))
    return sorted(found)


@pytest.mark.parametrize("sites", [1, 3])
def test_a_band_join_is_a_ring(spark, sites):
    flow, (a, b), rows = streams(spark)
    joined = flow.join(a, b, on="ABS(A.x - B.x) < 3").select("A.x AS ax", "A.f AS af", "B.x AS bx", "B.f AS bf")
    query = run(joined, f"band{sites}", sites=sites)
    assert shown(spark, f"band{sites}") == pairs(rows, lambda a, b: abs(a["x"] - b["x"]) < 3)
    assert "A.x - B.x BETWEEN -2 AND 2, found by binary search" in query.plan


def test_what_only_spark_can_evaluate_is_asked_of_the_results(spark):
    flow, (a, b), rows = streams(spark, rows=20)
    joined = flow.join(a, b, on="A.x < B.x AND pmod(A.x * B.x, 7) = 1")
    run(joined.select("A.x AS ax", "A.f AS af", "B.x AS bx", "B.f AS bf"), "left_to_spark", sites=2)
    expected = pairs(rows, lambda a, b: a["x"] < b["x"] and a["x"] * b["x"] % 7 == 1)
    assert shown(spark, "left_to_spark") == expected


TEXTS = ["", "a", "ab", "abc", "a%", "a%b", "_b", "xb", "a\\%", "é", "éa", None]


@pytest.mark.parametrize(
    "on", ["A.t LIKE CONCAT(B.t, '%')", "startswith(A.t, B.t)", "LEFT(A.t, LENGTH(B.t)) = B.t AND A.n <> B.n"]
)
def test_texts_that_begin_with_others_are_those_of_a_batch_join(spark, on):
    table = pa.table({"t": pa.array(TEXTS), "n": range(len(TEXTS))}).append_column("ts", pa.array([START] * len(TEXTS)))
    flow, timed = wm.Flow(spark), {"time": "ts", "window": "1 minute", "watermark": "1 minute"}
    a, b = (flow.stream(name, wm.testing.replay(spark, [table]), **timed) for name in "AB")
    run(flow.join(a, b, on=on).select("A.n AS a", "B.n AS b"), "prefixes", sites=2)
    frame = spark.createDataFrame(list(zip(TEXTS, range(len(TEXTS)), strict=True)), "t string, n int")
    batch = frame.alias("A").join(frame.alias("B"), on=spark_expr(on)).selectExpr("A.n AS a", "B.n AS b")
    assert shown(spark, "prefixes") == sorted(tuple(row) for row in batch.collect())


def near(left, right):
    return pc.less(pc.abs(pc.subtract(left, right)), 0.5)


def test_a_python_function_decides_which_rows_match(spark):
    flow, (a, b), rows = streams(spark)
    joined = flow.join(a, b, on=["A.x >= B.x", wm.predicate(near, "A.f", "B.f")])
    run(joined.select("A.x AS ax", "A.f AS af", "B.x AS bx", "B.f AS bf"), "by_function", sites=2)
    assert shown(spark, "by_function") == pairs(rows, lambda a, b: a["x"] >= b["x"] and abs(a["f"] - b["f"]) < 0.5)


def test_a_python_function_is_asked_in_a_join_with_an_equality_too(spark):
    flow, (a, b), rows = streams(spark)
    joined = flow.join(a, b, on=["A.x = B.x", wm.predicate(near, "A.f", "B.f")])
    run(joined.select("A.x AS ax", "A.f AS af", "B.x AS bx", "B.f AS bf"), "with_equality", sites=2)
    assert shown(spark, "with_equality") == pairs(rows, lambda a, b: a["x"] == b["x"] and abs(a["f"] - b["f"]) < 0.5)


def test_three_streams_are_joined_in_two_rounds(spark):
    flow, (a, b, c), rows = streams(spark, "ABC", rows=15)
    joined = flow.join(a, b, c, on="ABS(A.x - B.x) < 4 AND B.f < C.f AND A.x + B.x > C.x")
    run(joined.select("A.x AS a", "B.x AS b", "C.x AS c"), "three", sites=2)
    window = timedelta(seconds=30)
    expected = sorted(
        (a["x"], b["x"], c["x"])
        for a in rows["A"]
        for b in rows["B"]
        for c in rows["C"]
        if max(r["ts"] for r in (a, b, c)) < min(r["ts"] for r in (a, b, c)) + window
        and None not in (a["x"], b["x"], c["x"])
        and abs(a["x"] - b["x"]) < 4
        and b["f"] < c["f"]
        and a["x"] + b["x"] > c["x"]
    )
    assert shown(spark, "three") == expected


def test_an_aggregate_of_a_ring_and_a_ring_above_an_equality(spark):
    flow, (a, b, c), rows = streams(spark, "ABC", rows=15)
    joined = flow.join(a, b, on="A.x = B.x").join(c, on="ABS(A.f - C.f) < 1 AND B.x <= C.x")
    run(joined.groupBy("A.x").agg("count(*) AS n"), "counted", sites=2, endOfInput="true")
    window, expected = timedelta(seconds=30), {}
    for a, b, c in itertools.product(rows["A"], rows["B"], rows["C"]):
        times = [row["ts"] for row in (a, b, c)]
        is_met = max(times) < min(times) + window and None not in (a["x"], b["x"], c["x"]) and a["x"] == b["x"]
        if is_met and abs(a["f"] - c["f"]) < 1 and b["x"] <= c["x"]:
            expected[a["x"]] = expected.get(a["x"], 0) + 1
    assert shown(spark, "counted") == sorted(expected.items())


def test_a_query_is_the_same_whatever_was_written_before_it(spark):
    flow, (a, b), _ = streams(spark)
    with pytest.raises(wm.errors.UnknownNameError):
        flow.join(a, b, on=wm.predicate(near, "A.f", "B.g"))
    plans = [flow.join(a, b, on=["A.x >= B.x", wm.predicate(near, "A.f", "B.f")]).shape for _ in range(2)]
    assert plans[0].plan() == plans[1].plan()
    assert [list(each.functions) for each in plans] == [["wm_predicate_1_near"]] * 2


def fails_on_seven(left, right):
    if 7 in left.to_pylist():
        raise ValueError("seven")
    return pc.equal(left, right)


def of_another_length(left, right):
    return pc.equal(left, right).slice(1)


def no_booleans(left, right):
    return pc.add(left, right)


def by_the_clock(left, right):
    del right
    return pa.array([time.perf_counter_ns() % 2 == 0 for _ in range(len(left))])


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (fails_on_seven, ["fails_on_seven", "A.x = 7", "seven"]),
        (of_another_length, ["of_another_length", "values for"]),
        (no_booleans, ["no_booleans", "int64"]),
        (by_the_clock, ["by_the_clock", "other values for the same rows"]),
    ],
)
def test_a_predicate_that_does_wrong_is_told(spark, function, told):
    flow, (a, b), _ = streams(spark)
    joined = flow.join(a, b, on=wm.predicate(function, "A.x", "B.x")).select("A.x AS x")
    query = joined.writeStream.format("memory").queryName("wrong").trigger(availableNow=True).start()
    with pytest.raises(wm.errors.PredicateError) as failed:
        query.awaitTermination(120)
    assert all(text in str(failed.value) for text in told)


def test_what_cannot_be_a_ring_is_refused(spark):
    flow, (a, b), _ = streams(spark)
    lock = threading.Lock()
    with pytest.raises(wm.QueryError, match="cannot be sent"):
        wm.predicate(lambda left, right: lock and pc.equal(left, right), "A.x", "B.x")
    with pytest.raises(wm.UnsupportedError, match="reads stream A alone"):
        flow.join(a, b, on=["A.x < B.x", wm.predicate(near, "A.f", "A.x")])
    with pytest.raises(wm.errors.UnknownNameError):
        flow.join(a, b, on=wm.predicate(near, "A.f", "B.g"))
    endless = wm.Flow(spark)
    c, d = (endless.stream(name, wm.testing.replay(spark, readings(1))) for name in "CD")
    with pytest.raises(wm.errors.NoEqualityError, match=r"window.*memoryBudget"):
        run(endless.join(c, d, on="C.x < D.x").select("C.x AS x"), "endless")


@pytest.mark.long
@pytest.mark.parametrize("window", ["30 seconds", None], ids=["windows", "no windows"])
def test_what_does_not_fit_into_a_budget_waits_on_disk(spark, window):
    flow = wm.Flow(spark)
    data = {name: readings(ord(name)) for name in "AB"}
    timed = {"time": "ts", "window": window, "watermark": "1 minute"} if window else {}
    a, b = (flow.stream(name, wm.testing.replay(spark, tables), **timed) for name, tables in data.items())
    joined = flow.join(a, b, on="ABS(A.x - B.x) < 3").select("A.x AS ax", "A.f AS af", "B.x AS bx", "B.f AS bf")
    name = f"budget{'_window' if window else ''}"
    query = run(joined, name, memoryBudget="2k", sites=2)
    rows = {name: pa.concat_tables(tables).to_pylist() for name, tables in data.items()}
    span = timedelta(seconds=30) if window else timedelta(days=1)
    assert shown(spark, name) == pairs(rows, lambda a, b: abs(a["x"] - b["x"]) < 3, span)
    kinds = {event["kind"] for event in query.events()}
    assert {"spill", "cleanup"} <= kinds


@pytest.mark.long
@pytest.mark.parametrize("goal", ["latency", "output"])
def test_a_ring_gets_the_length_that_is_best_for_a_goal(spark, goal):
    flow, (a, b), rows = streams(spark, epochs=7, rows=30)
    joined = flow.join(a, b, on="ABS(A.x - B.x) < 3").select("A.x AS ax", "A.f AS af", "B.x AS bx", "B.f AS bf")
    with wm.testing.thrown(shortcut=False):
        query = run(joined, f"goal_{goal}", sites=2, ringGoal=goal)
    assert shown(spark, f"goal_{goal}") == pairs(rows, lambda a, b: abs(a["x"] - b["x"]) < 3)
    told = query.plan
    assert f"ringGoal {goal}" in told
    assert "adaptation auto" in told
    assert "ns a pair" in told
    moves = [event for event in query.events() if event["kind"] == "move"]
    assert all(goal in event["reason"] for event in moves)
    assert bool(moves) == ("groups of join1 by site: 300, 0" in told)
