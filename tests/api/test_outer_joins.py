"""Outer, semi and anti joins on Spark: the results of Spark's own batch joins, and when they come."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.oracle import difference, multiset
from tests.support.spark_runs import PATIENCE_S, Collected, run

import watersmeet as wm
from watersmeet.api.checks import check_ends

pytestmark = pytest.mark.spark

SECOND = 1_000_000
NAN = float("nan")
DATA = {
    "A": [
        pa.table({"id": [1, 2, 2, None], "n": [1, 2, 3, 4], "x": [0.5, NAN, None, 1.0], "w": ["b", "B", None, "a"]}),
        pa.table({"id": [3, 5, None], "n": [5, 6, 7], "x": [2.0, -0.0, NAN], "w": ["c", "a", "b"]}),
    ],
    "B": [
        pa.table({"id": [2, 4, None], "m": [2, 1, 3], "y": [NAN, 1.0, 2.0], "w": ["b", "a", None]}),
        pa.table({"id": [1, 2, 4, 5], "m": [9, 8, 7, 6], "y": [0.0, 1.0, NAN, 0.0], "w": ["c", "b", "c", "A"]}),
    ],
    "C": [pa.table({"id": [2, 3, 2], "k": [10, 11, 12]}), pa.table({"id": [1, 5, None], "k": [13, 14, 15]})],
    "D": [pa.table({"k": [12, 13], "d": ["p", "q"]}), pa.table({"k": [None, 99, 13], "d": ["r", "s", "t"]})],
}
SYNONYMS = {
    "inner": ["inner"],
    "left": ["left", "leftouter", "left_outer", "LEFT OUTER"],
    "right": ["right", "rightouter", "right_outer"],
    "full": ["full", "outer", "fullouter", "full_outer"],
    "semi": ["semi", "leftsemi", "left_semi"],
    "anti": ["anti", "leftanti", "left_anti"],
}
KINDS = ["left", "right", "full", "semi", "anti"]


def most_are_slow(kinds, *quick):
    """Some kinds are enough for every day: the law tries all of them, without Spark."""
    return [kind if kind in quick else pytest.param(kind, marks=pytest.mark.slow) for kind in kinds]


@pytest.fixture
def streams(spark):
    flow = wm.Flow(spark)
    return {name: flow.stream(name, wm.testing.replay(spark, tables)) for name, tables in DATA.items()}


@pytest.fixture
def batch(spark):
    frames = {name: spark.createDataFrame(pa.concat_tables(tables)) for name, tables in DATA.items()}
    return {name: frame.alias(name) for name, frame in frames.items()}


def assert_same(rows, frame, **options):
    """All results of a query whose streams end are those of a batch query."""
    got, expected = run(rows, endOfInput=True, sites=2, **options), multiset(frame.toArrow())
    assert got == expected, difference(got, expected)


def test_every_word_of_sparks_for_a_join_gives_the_plan_of_ours(streams):
    a, b = streams["A"], streams["B"]
    for how, words in SYNONYMS.items():
        wanted = a.join(b, "id", how).select("A.n").plan()
        assert wanted.root.how == how
        for word in words:
            assert a.join(b, on="id", how=word).select("A.n").plan() == wanted, word
            assert a.shape.flow.join(a, b, on=["id"], how=word.upper()).select("A.n").plan() == wanted, word


@pytest.mark.parametrize("how", most_are_slow(KINDS, "left", "anti"))
def test_results_are_those_of_sparks_batch_join(streams, batch, how):
    shown = ["A.n", "A.w"] if how in ("semi", "anti") else ["A.n", "A.w", "B.m", "B.w AS other"]
    rows = streams["A"].join(streams["B"], F.col("A.id") == F.col("B.id"), how).select(*shown)
    wanted = batch["A"].join(batch["B"], F.col("A.id") == F.col("B.id"), how).selectExpr(*shown)
    assert_same(rows, wanted)


@pytest.mark.parametrize("how", most_are_slow(["left", "right", "full"], "full"))
def test_a_column_both_sides_share_is_the_one_that_is_there(streams, batch, how):
    rows = streams["A"].join(streams["B"], on="id", how=how).select("id", "n", "m")
    assert_same(rows, batch["A"].join(batch["B"], "id", how).select("id", "n", "m"))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["semi", "anti"])
def test_a_semi_or_anti_join_shows_the_columns_of_its_left_side_alone(streams, how):
    rows = streams["A"].join(streams["B"], "id", how)
    assert rows.columns == ["A"]
    assert rows.select("A.*").columns == ["id", "n", "x", "w"]
    with pytest.raises(wm.errors.UnknownNameError, match="B"):
        rows.select("B.m")
    with pytest.raises(wm.errors.UnknownNameError, match="m"):
        rows.where("m > 1")


TESTS = {
    "a comparison": ("A.n < B.m", "left"),
    "numbers that are none": ("A.x <= B.y", "full"),
    "texts": ("A.w <> B.w", "anti"),
    "a comparison that knows nulls": ("A.w <=> B.w", "semi"),
    "several, with AND, OR and NOT": ("(NOT A.n >= B.m OR lower(A.w) = 'b') AND A.n BETWEEN 0 AND B.m", "right"),
    "a condition on the left side": ("A.n > 2", "left"),
    "a condition on the right side": ("B.m > 2 AND B.w IS NOT NULL", "left"),
    "conditions on each side": ("A.n > 2 AND B.m > 2", "full"),
    "arithmetic on each side": ("A.n * 2 + 1 > B.m - 1", "anti"),
    "sums and products of both sides": ("A.n + B.m > 5 OR A.x * B.y - A.n <= 1.5", "full"),
    "a size of a sum of both sides": ("ABS(A.n - B.m * 2 + 1) < 6 AND -A.n < B.m", "left"),
    "a text like another": ("A.w LIKE concat(upper(B.w), '%') OR NOT B.w LIKE A.w", "anti"),
    "numbers of different types": ("CAST(A.n AS SMALLINT) >= B.m", "semi"),
    "nothing": ("1 = 0", "full"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("test", "how"), TESTS.values(), ids=TESTS)
def test_on_decides_what_matches(streams, batch, test, how):
    shown = ["A.n", "A.w"] if how in ("semi", "anti") else ["A.n", "A.w", "B.m", "B.w AS other"]
    rows = streams["A"].join(streams["B"], f"A.id = B.id AND ({test})", how).select(*shown)
    wanted = batch["A"].join(batch["B"], F.expr(f"A.id = B.id AND ({test})"), how).selectExpr(*shown)
    assert_same(rows, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "condition"), [("left", "B.m IS NULL"), ("full", "A.n > 2 OR m < 8"), ("anti", "A.n > 4")]
)
def test_where_comes_after_the_join(streams, batch, how, condition):
    shown = ["A.n"] if how == "anti" else ["A.n", "B.m"]
    rows = streams["A"].join(streams["B"], "id", how).where(condition).select(*shown)
    on = F.col("A.id") == F.col("B.id")
    assert_same(rows, batch["A"].join(batch["B"], on, how).where(condition).selectExpr(*shown))


@pytest.mark.slow
@pytest.mark.parametrize("how", most_are_slow(KINDS, "full", "anti"))
def test_groups_of_an_outer_join_are_those_of_sparks_batch_aggregate(streams, batch, how):
    a, b, frames = streams["A"], streams["B"], batch
    on = F.col("A.id") == F.col("B.id")
    shown = (
        ["count(*)", "sum(A.n)"] if how in ("semi", "anti") else ["count(*)", "sum(A.n + B.m)", "max(coalesce(B.m, 0))"]
    )
    key = "A.w" if how in ("semi", "anti") else "coalesce(B.w, 'none')"
    told = [f"{text} AS c{place}" for place, text in enumerate(shown)]
    expected = frames["A"].join(frames["B"], on, how).groupBy(F.expr(key).alias("key")).agg(*map(F.expr, told))
    assert_same(a.join(b, on, how).groupBy(f"{key} AS key").agg(*told), expected)


def test_where_before_the_join_is_on_its_side(streams, batch):
    rows = streams["A"].where("n > 2").join(streams["B"].where("m > 2"), "id", "full").select("id", "n", "m")
    assert_same(rows, batch["A"].where("n > 2").join(batch["B"].where("m > 2"), "id", "full").select("id", "n", "m"))


@pytest.mark.slow
@pytest.mark.parametrize("how", KINDS)
def test_the_last_step_over_a_join_of_three(streams, batch, how):
    inner = streams["A"].shape.flow.join(streams["A"], streams["B"], streams["C"], on="id")
    plain = batch["A"].join(batch["B"], F.expr("A.id = B.id")).join(batch["C"], F.expr("B.id = C.id"))
    shown = ["A.n", "B.m", "C.k"] if how in ("semi", "anti") else ["A.n", "B.m", "C.k", "D.d"]
    on = F.expr("C.k = D.k AND D.d > A.w")
    assert_same(inner.join(streams["D"], on, how).select(*shown), plain.join(batch["D"], on, how).selectExpr(*shown))


@pytest.mark.slow
def test_results_are_the_same_with_too_little_memory(streams, batch):
    rows = streams["A"].join(streams["B"], "id", "full").select("id", "n", "m")
    assert_same(rows, batch["A"].join(batch["B"], "id", "full").select("id", "n", "m"), memoryBudget=1)


def test_whole_rows_of_the_missing_side_are_null(streams):
    rows = streams["C"].join(streams["D"], "k", "left")
    sink = collected(rows, endOfInput=True)
    found = [row for table in sink.epochs.values() for row in table.to_pylist()]
    assert len(found) == pa.concat_tables(DATA["C"]).num_rows + 1
    alone = [row["D"] for row in found if row["C"]["k"] == 10]
    assert alone in ([None], [{"k": None, "d": None}])


# --- when rows come ---------------------------------------------------------------------------------------------------


def timed(*rows):
    kinds = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    columns = zip(*((key, n, seconds * SECOND) for key, n, seconds in rows), strict=True) if rows else ([], [], [])
    return pa.table([pa.array(list(each), kind) for each, kind in zip(columns, kinds.types, strict=True)], kinds)


def collected(rows, **options):
    sink = Collected()
    query = rows.writeStream.foreachBatch(sink).options(**options).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return sink


def epoch_of(sink, wanted):
    """In which epoch a row came; it comes once."""
    [epoch] = [
        epoch for epoch, rows in sink.epochs.items() for row in rows.to_pylist() if tuple(row.values()) == wanted
    ]
    return epoch


TIMES = {"time": "ts", "window": "10 seconds", "watermark": "2 seconds"}


def test_a_row_comes_alone_when_no_match_can_come_any_more(spark):
    flow = wm.Flow(spark)
    a = [timed((1, 1, 0), (2, 2, 5), (None, 3, 5)), timed((9, 9, 30)), timed(), timed()]
    b = [timed((7, 0, 0)), timed((7, 0, 11)), timed((7, 0, 12), (2, 4, 14)), timed((7, 0, 42))]
    one, other = (flow.stream(name, wm.testing.replay(spark, each), **TIMES) for name, each in (("A", a), ("B", b)))
    sink = collected(one.join(other, "id", "left").select("A.n AS a", "B.n AS b"))
    assert epoch_of(sink, (3, None)) == 0  # a null key has no match
    assert epoch_of(sink, (2, 4)) == 2
    assert epoch_of(sink, (1, None)) in (2, 3)  # B has promised its times when the third epoch ends
    assert epoch_of(sink, (9, None)) >= 3  # and those of the last row when all input is there
    assert sum(rows.num_rows for rows in sink.epochs.values()) == 4


@pytest.mark.parametrize(("how", "alone"), [("left", (1, None)), pytest.param("anti", (1,), marks=pytest.mark.slow)])
def test_conditions_between_times_tell_when_no_match_can_come(spark, how, alone):
    flow = wm.Flow(spark)
    a = [timed((1, 1, 0), (2, 2, 5)), timed(), timed()]
    b = [timed((2, 3, 6)), timed((7, 0, 100)), timed((7, 0, 101))]
    said = {"time": "ts", "watermark": "2 seconds"}
    one, other = (flow.stream(name, wm.testing.replay(spark, each), **said) for name, each in (("A", a), ("B", b)))
    on = "A.id = B.id AND B.ts BETWEEN A.ts AND A.ts + INTERVAL 10 SECONDS"
    sink = collected(one.join(other, on, how).select("A.n AS a", *(["B.n AS b"] if how == "left" else [])))
    assert epoch_of(sink, alone) in (1, 2)
    assert sum(rows.num_rows for rows in sink.epochs.values()) == (2 if how == "left" else 1)


def test_a_semi_row_comes_with_its_first_match(spark):
    flow = wm.Flow(spark)
    tables = {"A": [timed((1, 1, 0)), timed(), timed()], "B": [timed(), timed((1, 2, 0)), timed((1, 3, 0))]}
    a, b = (flow.stream(name, wm.testing.replay(spark, each)) for name, each in tables.items())
    sink = collected(a.join(b, "id", "semi").select("A.n AS a"))
    assert epoch_of(sink, (1,)) == 1


def test_rows_that_never_come_alone_are_warned_of(spark):
    flow = wm.Flow(spark)
    a, b = (flow.stream(name, wm.testing.replay(spark, [timed((1, 1, 0))])) for name in "AB")
    for how, side in (("left", "A"), ("right", "B"), ("anti", "A")):
        plan = a.join(b, "id", how).plan()
        with pytest.warns(UserWarning, match=f"rows of {side} that have no match never come out.*endOfInput"):
            check_ends(plan, {"availableNow": True}, ends_input=False)
        check_ends(plan, {"availableNow": True}, ends_input=True)
    with pytest.warns(UserWarning, match="rows of A that have no match never come out"):
        collected(a.join(b, "id", "left"))


@pytest.mark.parametrize("time", [None, pytest.param("ts", marks=pytest.mark.slow)])
def test_rows_that_come_after_the_end_are_rejected(spark, tmp_path, time):
    tables = {
        "A": [timed((1, 1, 0), (2, 2, 0)), timed((3, 3, 9))],
        "B": [timed((1, 4, 0)), timed((2, 5, 9), (3, 6, 9))],
    }

    def ran(epochs):
        flow, sink = wm.Flow(spark), Collected()
        a, b = (
            flow.stream(name, wm.testing.replay(spark, each[:epochs], str(tmp_path / name)), time=time)
            for name, each in tables.items()
        )
        writer = a.join(b, "id", "left").select("A.n AS a", "B.n AS b").writeStream.foreachBatch(sink)
        options = {"checkpointLocation": str(tmp_path / "checkpoint"), "endOfInput": True}
        query = writer.options(**options).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)
        found = [each for epoch in query.recentProgress for each in epoch["customMetrics"].get("rejected") or ()]
        return sorted(tuple(row.values()) for rows in sink.epochs.values() for row in rows.to_pylist()), found

    assert ran(1) == ([(1, 4), (2, None)], [])
    late = [{"stream": name, "reason": "late", "rows": rows} for name, rows in (("A", 1), ("B", 2))]
    assert ran(2) == ([], late)


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, "10 seconds"])
def test_rows_of_a_join_come_alone_if_the_window_of_one_of_its_streams_ends(spark, window):
    flow = wm.Flow(spark)
    late = timed((7, 0, 500))
    tables = {"A": [timed((1, 1, 0)), late], "B": [timed((1, 2, 0)), late], "C": [timed((7, 0, 0)), late]}
    said = {"A": {"window": window}, "B": {}, "C": {"window": "10 seconds"}}
    a, b, c = (
        flow.stream(name, wm.testing.replay(spark, each), time="ts", watermark="0 seconds", **said[name])
        for name, each in tables.items()
    )
    rows = a.join(b, "A.id = B.id").join(c, "A.id = C.id", "left").select("A.n AS a", "B.n AS b", "C.n AS c")
    if window is None:
        with pytest.warns(UserWarning, match="rows of A and B that have no match never come out"):
            collected(rows)
    else:
        assert epoch_of(collected(rows), (1, 2, None)) >= 1


# --- what is refused --------------------------------------------------------------------------------------------------


def left_join_of_times(streams, on):
    flow = streams["A"].shape.flow
    rates = flow.spark.readStream.format("rate").load()
    return flow.stream("T", rates, time="timestamp").join(flow.stream("U", rates, time="timestamp"), on, "left")


WRONG = {
    "an unknown kind": (lambda s: s["A"].join(s["B"], "id", "sideways"), "how is 'sideways'", "'semi' and 'anti'"),
    "a kind that is a number": (lambda s: s["A"].join(s["B"], "id", how=3), "how is 3", "'semi' and 'anti'"),
    "a cross join": (lambda s: s["A"].join(s["B"], "id", "cross"), "how is 'cross'", "on="),
    "a join above": (
        lambda s: s["A"].join(s["B"], "id", "left").join(s["C"], on="A.id = C.id"),
        "a left join of A, B is joined with something else",
        "and this one last",
    ),
    "an outer join above": (
        lambda s: s["A"].join(s["B"], "id", "semi").join(s["C"], "id", "left"),
        "a semi join of A, B is joined with something else",
        "and this one last",
    ),
    "an outer join of three": (
        lambda s: s["A"].shape.flow.join(s["A"], s["B"], s["C"], on="id", how="full"),
        "a join of 3 relations is 'full'",
        "join all but the last",
    ),
    "a function of both sides": (
        lambda s: s["A"].join(s["B"], "A.id = B.id AND SQRT(A.n - B.m) < 5", "left"),
        "an outer join is on SQRT(A.n - B.m) < 5",
        "where() after the join",
    ),
    "a condition that changes": (
        lambda s: s["A"].join(s["B"], "A.id = B.id AND A.n < rand()", "left"),
        "an outer join is on A.n < RAND()",
        "changes from one evaluation to the next",
    ),
    "a comparison of types that differ": (
        lambda s: s["A"].join(s["B"], "A.id = B.id AND A.w < B.m", "left"),
        "A.w is string and B.m is bigint",
        "CAST(",
    ),
    "an interval that is none": (
        lambda s: left_join_of_times(s, "T.value = U.value AND T.timestamp < U.timestamp + INTERVAL 'abc' HOUR"),
        "Spark does not accept an expression",
        "interval",
    ),
    "an unknown function": (
        lambda s: s["A"].join(s["B"], "A.id = B.id AND A.n < frobnicate(B.m)", "left"),
        "Spark does not accept an expression",
        "FROBNICATE",
    ),
    "a difference of times": (
        lambda s: left_join_of_times(s, "T.value = U.value AND U.timestamp - T.timestamp <= INTERVAL 5 SECONDS"),
        "an outer join is on U.timestamp - T.timestamp",
        "B.ts <= A.ts + INTERVAL 5 SECONDS",
    ),
    "no equality": (lambda s: s["A"].join(s["B"], "A.n < B.m", "left"), "", "="),
    "an equality on one side": (lambda s: s["A"].join(s["B"], "A.id = A.n", "left"), "", "="),
    "an end that never comes": (
        lambda s: s["A"].join(s["B"], "id", "left").writeStream.format("noop").option("endOfInput", "true").start(),
        "endOfInput is true",
        "trigger(availableNow=True)",
    ),
    "an end that is neither true nor false": (
        lambda s: s["A"].join(s["B"], "id").writeStream.format("noop").option("endOfInput", "soon").start(),
        "endOfInput is 'soon'",
        "true or false",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "what", "more"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_joined_so_is_told(streams, call, what, more):
    with pytest.raises(wm.WatersmeetError) as caught:
        call(streams)
    error = caught.value
    assert what in error.what
    assert more in str(error)
    assert error.why
    assert error.how
