"""Conditions between event times: what they bound, and which are decided where rows are joined."""

import pyarrow as pa
import pytest

from watersmeet.model.plan import Plan
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import difference, explain, fingerprint, plan
from watersmeet.planning.restart import continued

A, B, C = (
    StreamNode(name, pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))]), "ts", None, 5) for name in "ABC"
)
WITHIN = "B.ts BETWEEN A.ts AND A.ts + INTERVAL 10 MICROSECONDS"


def planned(condition: str, streams=(A, B), how="inner") -> Plan:
    keys = " AND ".join(f"A.k = {each.name}.k" for each in streams[1:])
    return plan(Query(JoinNode(streams, f"{keys} AND {condition}", how)), type_of=lambda *_: pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        (WITHIN, ((0, 1, 10), (1, 0, 0))),
        ("B.ts < A.ts", ((0, 1, -1),)),
        ("A.ts - INTERVAL 3 MICROSECONDS >= B.ts", ((0, 1, -3),)),
        ("B.ts + INTERVAL 1 HOUR > A.ts", ((1, 0, 3_599_999_999),)),
    ],
)
def test_a_condition_that_only_bounds_two_times_is_no_filter(condition, bounds):
    root = planned(condition).root
    assert (root.bounds, root.filters, len(root.time_conditions)) == (bounds, (), 1)
    assert root.is_windowed


@pytest.mark.parametrize(
    "condition",
    [
        "B.ts > A.ts + INTERVAL 1 DAY",
        "B.ts > A.ts + INTERVAL 30 HOURS",
        "B.ts > A.ts + INTERVAL 30 HOURS - INTERVAL 29 HOURS",
        "B.ts BETWEEN A.ts AND CAST('2026-01-01' AS TIMESTAMP)",
        "B.ts BETWEEN A.ts AND B.ts + INTERVAL 1 SECOND",
        "(B.ts < A.ts OR A.k > 3)",
        "A.k < B.k + 2",
    ],
)
def test_any_other_condition_stays_a_filter(condition):
    root = planned(condition).root
    assert (len(root.filters), root.time_conditions) == (1, ())


def test_what_follows_from_two_conditions_bounds_the_third_pair():
    root = planned(f"{WITHIN} AND C.ts BETWEEN A.ts AND A.ts + INTERVAL 7 MICROSECONDS", (A, B, C)).root
    assert set(root.bounds) == {(0, 1, 10), (1, 0, 0), (0, 2, 7), (2, 0, 0), (1, 2, 7), (2, 1, 10)}


def test_what_an_outer_join_is_on_bounds_nothing_below_it():
    below = JoinNode((A, B), "A.k = B.k")
    on = "A.k = C.k AND C.ts <= A.ts AND B.ts <= C.ts"
    made = plan(Query(JoinNode((below, C), on, "left")))
    assert made.operator("join1").bounds == ()


def test_an_outer_join_needs_no_test_for_it():
    root = planned(WITHIN, how="left").root
    assert (root.tests, root.inputs[0].computed) == ((), ())
    assert len(planned(f"{WITHIN} AND A.k < B.k", how="left").root.tests) == 1


def test_explain_tells_it_where_it_is_decided():
    assert "where B.ts BETWEEN A.ts AND A.ts + INTERVAL '10' MICROSECONDS" in explain(planned(WITHIN), 16, 2)


def test_a_shorter_length_goes_on_with_the_state_and_a_longer_one_does_not():
    old, shorter, longer = (planned(WITHIN.replace("10", str(length))) for length in (10, 9, 11))
    made = continued(old, shorter)
    assert made is not None
    assert made.root.bounds == shorter.root.bounds
    assert continued(old, longer) is None
    assert "is joined with rows of" in difference(fingerprint(old), fingerprint(longer))


def test_another_length_is_another_outer_join():
    old, new = planned(WITHIN, how="left"), planned(WITHIN.replace("10", "9"), how="left")
    assert continued(old, new) is None


def test_another_kind_of_join_is_another_query():
    old, new = planned(WITHIN, how="left"), planned(WITHIN, how="full")
    assert continued(old, new) is None
    assert "left in the checkpoint, full in the query" in difference(fingerprint(old), fingerprint(new))
