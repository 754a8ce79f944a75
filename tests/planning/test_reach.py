import pyarrow as pa
import pytest
from tests.planning.queries import LONG, join, parsed, planned, stream

from watersmeet.model.plan import Column
from watersmeet.model.query import FilterNode, JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.planning.reach import DAY_US, reach_of

SECOND, HOUR = 1_000_000, 3_600_000_000
KINDS = {"k": LONG, "ts": pa.timestamp("us", "UTC"), "other": pa.timestamp("us", "UTC")}
A, B, C = (stream(name, **KINDS) for name in "ABC")
TIMES = {name: Column(name, "ts") for name in "ABC"}


def reach(condition):
    return reach_of(parsed(condition, A, B, C), TIMES)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("A.ts <= B.ts", {("B", "A"): 0}),
        ("A.ts < B.ts", {("B", "A"): -1}),
        ("B.ts >= A.ts", {("B", "A"): 0}),
        ("B.ts > A.ts", {("B", "A"): -1}),
        ("B.ts <= A.ts + INTERVAL 1 HOUR", {("A", "B"): HOUR}),
        ("B.ts <= INTERVAL 1 HOUR + A.ts", {("A", "B"): HOUR}),
        ("B.ts - INTERVAL 1 HOUR < A.ts", {("A", "B"): HOUR - 1}),
        ("(B.ts) <= ((A.ts) + (INTERVAL '1' HOUR))", {("A", "B"): HOUR}),
        ("B.ts <= A.ts + INTERVAL 1 HOUR - INTERVAL 10 SECONDS", {("A", "B"): HOUR - 10 * SECOND}),
        ("B.ts + INTERVAL 1 HOUR >= A.ts - INTERVAL 1 HOUR", {("B", "A"): 2 * HOUR}),
        ("B.ts BETWEEN A.ts - INTERVAL 5 SECONDS AND A.ts", {("B", "A"): 5 * SECOND, ("A", "B"): 0}),
        ("B.ts <= A.ts + INTERVAL 25 HOURS", {("A", "B"): 25 * HOUR + DAY_US}),
        ("B.ts <= A.ts + INTERVAL 1 DAY", {("A", "B"): 2 * DAY_US}),
        ("B.ts <= A.ts + INTERVAL 1 WEEK", {("A", "B"): 8 * DAY_US}),
        ("B.ts <= A.ts + INTERVAL 1 DAY - INTERVAL 2 HOURS", {("A", "B"): 2 * DAY_US - 2 * HOUR}),
        ("B.ts <= A.ts + INTERVAL 1 DAY - INTERVAL 1 DAY", {("A", "B"): DAY_US}),
        ("B.ts <= A.ts AND C.ts <= B.ts", {("A", "B"): 0, ("B", "C"): 0}),
        ("A.ts <= B.ts - INTERVAL '-1' HOUR", {("B", "A"): HOUR}),
        ("B.ts BETWEEN A.ts + INTERVAL -5 SECONDS AND A.ts", {("B", "A"): 5 * SECOND, ("A", "B"): 0}),
        ("B.ts <= A.ts + (- INTERVAL 5 SECONDS)", {("A", "B"): -5 * SECOND}),
        ("B.ts <= A.ts + INTERVAL (-5) SECONDS", {("A", "B"): -5 * SECOND}),
        ("B.ts <= A.ts + INTERVAL '01:30' HOUR TO MINUTE", {("A", "B"): 90 * 60 * SECOND}),
        ("B.ts <= A.ts - INTERVAL '-01:30.5' MINUTE TO SECOND", {("A", "B"): 90 * SECOND + SECOND // 2}),
        ("B.ts <= A.ts + INTERVAL '1 02:00:00' DAY TO SECOND", {("A", "B"): 26 * HOUR + DAY_US}),
        ("B.ts - A.ts <= INTERVAL 5 SECONDS", {("A", "B"): 5 * SECOND + DAY_US}),
        ("INTERVAL 5 SECONDS > B.ts - A.ts", {("A", "B"): 5 * SECOND - 1 + DAY_US}),
        ("B.ts - A.ts >= INTERVAL -5 SECONDS", {("B", "A"): 5 * SECOND + DAY_US}),
        ("(B.ts + INTERVAL 1 SECOND) - A.ts <= INTERVAL 5 SECONDS", {("A", "B"): 4 * SECOND + DAY_US}),
        ("NOT (B.ts > A.ts + INTERVAL 1 HOUR)", {("A", "B"): HOUR}),
        ("NOT (B.ts >= A.ts)", {("A", "B"): -1}),
        ("NOT (B.ts > A.ts + INTERVAL 1 HOUR OR B.ts < A.ts)", {("A", "B"): HOUR, ("B", "A"): 0}),
        ("NOT (B.ts NOT BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR)", {("A", "B"): HOUR, ("B", "A"): 0}),
        ("NOT NOT (A.ts <= B.ts)", {("B", "A"): 0}),
        ("B.ts <= A.ts + INTERVAL 2 HOURS OR B.ts <= A.ts + INTERVAL 1 HOUR", {("A", "B"): 2 * HOUR}),
        ("B.ts <= A.ts OR (B.ts <= A.ts + INTERVAL 1 HOUR AND C.ts <= A.ts)", {("A", "B"): HOUR}),
        ("NOT (B.ts > A.ts AND B.ts > A.ts + INTERVAL 1 HOUR)", {("A", "B"): HOUR}),
        ("A.ts = B.ts", {("A", "B"): 0, ("B", "A"): 0}),
        ("A.ts = B.ts OR A.ts = B.ts + INTERVAL 1 HOUR", {("A", "B"): 0, ("B", "A"): HOUR}),
        ("B.ts <= A.ts + INTERVAL 2 HOURS AND B.ts < A.ts + INTERVAL 1 HOUR", {("A", "B"): HOUR - 1}),
    ],
)
def test_a_condition_tells_how_much_later_rows_may_be(condition, found):
    assert reach(condition) == found


@pytest.mark.parametrize(
    "condition",
    [
        "A.ts <> B.ts",
        "NOT A.ts = B.ts",
        "A.ts <= A.ts + INTERVAL 1 HOUR",
        "A.ts <= B.other",
        "A.k <= B.k",
        "A.ts <= B.ts OR A.k = 1",
        "NOT (A.ts <= B.ts AND A.k = 1)",
        "A.ts <= B.ts + INTERVAL 1 MONTH",
        "A.ts <= B.ts - INTERVAL '1:2:3' HOUR TO MINUTE",
        "A.ts <= B.ts + INTERVAL '01:30' MINUTE TO HOUR",
        "A.ts <= B.ts + INTERVAL '2' MONTH TO HOUR",
        "A.ts - INTERVAL 1 HOUR <= INTERVAL 1 HOUR",
        "A.ts - A.ts <= INTERVAL 1 HOUR",
        "B.ts - A.k <= INTERVAL 1 HOUR",
        "A.ts <= INTERVAL 1 HOUR - B.ts",
        "date_trunc('HOUR', A.ts) <= B.ts",
        "A.ts <= TIMESTAMP '2026-01-01 00:00:00'",
    ],
)
def test_other_conditions_bound_nothing(condition):
    assert reach(condition) == {}


def timed(name):
    return StreamNode(name, pa.schema(list(KINDS.items())), "ts", None, 0)


ON = "A.k = B.k AND B.ts <= A.ts + INTERVAL 1 HOUR"


def reaches(made, operator="join1"):
    return [dict(source.reach) for source in made.operator(operator).inputs]


def test_inputs_know_their_reach_wherever_the_condition_stands():
    assert reaches(planned(join(timed("A"), timed("B"), on=ON))) == [{"B": HOUR}, {}]
    above = FilterNode(join(timed("A"), timed("B"), on="A.k = B.k"), "B.ts <= A.ts + INTERVAL 1 HOUR")
    assert reaches(planned(above)) == [{"B": HOUR}, {}]


def test_the_condition_of_an_outer_join_has_a_reach_and_a_filter_after_it_has_none():
    made = plan(Query(JoinNode((timed("A"), timed("B")), ON, "left")), lambda *_: KINDS["ts"])
    assert reaches(made) == [{"B": HOUR}, {}]
    after = FilterNode(JoinNode((timed("A"), timed("B")), "A.k = B.k", "left"), "B.ts <= A.ts + INTERVAL 1 HOUR")
    assert reaches(planned(after)) == [{}, {}]


@pytest.mark.parametrize("how", ["inner", "left", "full"])
@pytest.mark.parametrize("equal", ["A.ts = B.ts", "B.ts <=> A.ts", "A.ts IN (B.ts)"])
def test_of_event_times_that_are_keys_neither_is_later_than_the_other(how, equal):
    node = JoinNode((timed("A"), timed("B")), f"A.k = B.k AND {equal}", how)
    assert reaches(plan(Query(node), lambda *_: KINDS["ts"])) == [{"B": 0}, {"A": 0}]


def test_keys_that_are_a_length_apart_have_a_reach_and_what_follows_from_keys_below_has_one():
    shifted = join(timed("A"), timed("B"), on="A.k = B.k AND B.ts = A.ts + INTERVAL 1 SECOND")
    assert reaches(plan(Query(shifted), lambda *_: KINDS["ts"])) == [{"B": SECOND}, {"A": -SECOND}]
    below = join(timed("A"), timed("C"), on="A.k = C.k AND A.ts = C.ts")
    made = planned(join(below, timed("B"), on="C.k = B.k AND B.ts <= C.ts"))
    assert reaches(made, made.root.id) == [{"B": 0}, {}]


def test_results_reach_as_far_as_any_of_their_rows_and_are_reached_only_if_all_are():
    made = planned(join(join(timed("A"), timed("C"), on="A.k = C.k"), timed("B"), on=ON))
    assert [reaches(made, name) for name in ("join1", "join2")] == [[{}, {}], [{"B": HOUR}, {}]]
    both = f"{ON} AND A.ts <= B.ts AND C.ts <= A.ts + INTERVAL 1 SECOND"
    made = planned(join(join(timed("A"), timed("C"), on="A.k = C.k"), timed("B"), on=both))
    assert reaches(made, "join1") == [{"C": SECOND}, {}]
    assert reaches(made, "join2") == [{"B": HOUR}, {"join1": SECOND}]


def test_results_end_where_the_streams_above_can_meet_none_of_their_rows_any_more():
    below = join(timed("A"), timed("C"), on="A.k = C.k")
    made = planned(join(below, timed("B"), on=f"{ON} AND B.ts < C.ts - INTERVAL 1 SECOND"))
    assert made.operator("join1").life is not None
    assert [each.life.above_us for each in made.operator("join1").inputs] == [HOUR + 1, -SECOND]
    assert [each.life.above_us for each in made.operator("join2").inputs] == [None, None], "nobody is above"


def test_what_an_outer_join_is_on_ends_results_of_one_side_and_says_nothing_within_it():
    below = JoinNode((timed("A"), timed("C")), "A.k = C.k")
    made = plan(Query(JoinNode((below, timed("B")), f"{ON} AND C.ts <= B.ts", "left")), lambda *_: KINDS["ts"])
    assert reaches(made) == [{}, {}]
    assert reaches(made, "join2") == [{"B": HOUR}, {}]
    assert [each.life.above_us for each in made.operator("join1").inputs] == [HOUR + 1, None]
