"""Which changed queries the state of the old one can serve."""

import pyarrow as pa
import pytest

from watersmeet.model.errors import UnsupportedError
from watersmeet.model.query import FilterNode, JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.planning.describe import difference, fingerprint
from watersmeet.planning.restart import continued
from watersmeet.planning.unkept import refuse_unkept, unkept_field

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("t", pa.string())])
A, B, C = (StreamNode(name, SCHEMA) for name in "ABC")


def planned(needed, where=(), on="A.id = B.id", streams=(A, B)):
    node = JoinNode(streams, on)
    for condition in where:
        node = FilterNode(node, condition)
    return plan(Query(node, tuple(needed)))


OLD = planned(["A.x", "A.t", "B.x"], ["A.x > 3", "B.t IN ('p', 'q')"])


@pytest.mark.parametrize(
    ("needed", "where", "filters"),
    [
        (["A.x"], ["A.x > 3", "B.t IN ('p', 'q')"], ()),
        (["A.x + 1"], ["A.x > 3", "B.t IN ('p', 'q')"], ()),
        (["A.x"], ["A.x > 3", "B.t IN ('p', 'q')", "A.t = 'z'"], ("`A`.`t` = 'z'",)),
        (["A.x"], ["A.x > 5", "B.t IN ('p', 'q')"], ("`A`.`x` > 5",)),
        (["A.x"], ["A.x = 5", "B.t IN ('p', 'q')"], ("`A`.`x` = 5",)),
        (["A.x"], ["A.x >= 4", "B.t IN ('p', 'q')"], ("`A`.`x` >= 4",)),
        (["A.x"], ["A.x > 3", "B.t IN ('p', 'q')", "A.x < B.x"], ("`A`.`x` < `B`.`x`",)),
    ],
)
def test_less_is_served(needed, where, filters):
    made = continued(OLD, planned(needed, where))
    assert made is not None
    assert fingerprint(made) == fingerprint(OLD)
    assert made.root.filters == filters
    assert made.root.output == OLD.root.output


@pytest.mark.parametrize(
    "new",
    [
        planned(["A.x", "B.id"], ["A.x > 3", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x > 2", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x >= 3", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x < 9", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x > B.x", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x > 3", "B.t IN ('p', 'r')"]),
        planned(["A.x"], ["A.x > 3", "B.t = 'p'"]),
        planned(["A.x"], ["A.x > 3", "B.t IN ('p', 'q')"], on="A.id = B.x"),
        planned(["A.x"], ["A.x > 3", "B.t IN ('p', 'q')"], on="A.id = B.id AND B.id = C.id", streams=(A, B, C)),
        planned(["A.x"], ["A.x > 3", "B.t IN ('p', 'q')", "A.id > 7"]),
    ],
)
def test_more_is_not(new):
    assert continued(OLD, new) is None


@pytest.mark.parametrize(
    ("old", "new", "is_stricter"),
    [
        ("A.x < 5", "A.x < 3", True),
        ("A.x < 5", "A.x <= 5", False),
        ("A.x <= 5", "A.x <= 5.0", True),
        ("A.x <= 5", "A.x IN (1, 5)", True),
        ("A.x <= 5", "A.x IN (1, 6)", False),
        ("A.x IN (1, 2, 3)", "A.x = 2", True),
        ("A.x IN (1, 2, 3)", "A.x > 1", False),
        ("A.x > 3", "B.x > 5", False),
    ],
)
def test_a_comparison_with_a_number_is_stricter_or_not(old, new, is_stricter):
    made = continued(planned(["A.x", "B.x"], [old]), planned(["A.x", "B.x"], [new]))
    assert (made is not None) is is_stricter


TS = SCHEMA.append(pa.field("ts", pa.timestamp("us", "UTC")))
TIMED = tuple(StreamNode(name, TS, "ts", None, 0) for name in "AB")


def outer(how="left", on="A.id = B.id", where=(), after=(), streams=(A, B), needed=("A.x",)):
    left, right = streams
    for condition in where:
        right = FilterNode(right, condition)
    node = JoinNode((left, right), on, how)
    for condition in after:
        node = FilterNode(node, condition)
    return plan(Query(node, tuple(needed)), lambda *_: pa.int64())


def told(old, new):
    return difference(fingerprint(old), fingerprint(new))


def test_another_kind_of_join_is_another_query():
    for old, new in (("inner", "left"), ("left", "inner"), ("semi", "anti"), ("left", "full")):
        plans = [outer(how) for how in (old, new)]
        assert continued(*plans) is None
        assert told(*plans) == f"the kind of join1 is {old} in the checkpoint, {new} in the query"


@pytest.mark.parametrize(
    ("old", "new", "told_as"),
    [
        ("A.x < B.x", "A.x <= B.x", "A.x <= B.x"),
        ("A.x < B.x", "NOT A.x < B.x", "NOT (A.x < B.x)"),
        ("A.x < B.x", "A.x < B.x AND A.x <> B.x", "A.x < B.x, A.x <> B.x"),
        ("A.x + 1 < B.x", "A.x + 2 < B.x", "A.x + 2 < B.x"),
    ],
)
def test_another_condition_of_an_outer_join_is_another_query(old, new, told_as):
    plans = [outer(on=f"A.id = B.id AND {condition}", needed=("A.x", "B.x")) for condition in (old, new)]
    assert continued(*plans) is None
    assert told(*plans) == f"join1 is also on {old} in the checkpoint, {told_as} in the query"


def test_another_condition_on_the_preserved_side_is_another_query():
    plans = [outer(on=f"A.id = B.id AND A.x > {least}", needed=("A.x", "B.x")) for least in (3, 4)]
    assert continued(*plans) is None
    assert "joined on CASE WHEN A.x > 3 THEN A.id END in the checkpoint" in told(*plans)


def test_of_an_outer_join_conditions_may_change_above_and_not_below():
    old = outer(where=["B.x > 3"], needed=("A.x", "A.t", "B.x"))
    assert continued(old, outer(where=["B.x > 5"], needed=("A.x",))) is None
    assert continued(old, outer(where=["B.x > 3", "B.t = 'p'"], needed=("A.x",))) is None
    made = continued(old, outer(where=["B.x > 3"], after=["B.x > 5"], needed=("A.x",)))
    assert made is not None
    assert made.root.filters == ("`B`.`x` > 5",)


@pytest.mark.parametrize(
    ("condition", "is_served"),
    [("INTERVAL 1 HOUR", True), ("INTERVAL 30 MINUTES", True), ("INTERVAL 2 HOURS", False), (None, False)],
)
def test_state_that_conditions_let_go_does_not_serve_longer_ones(condition, is_served):
    def between(length):
        on = "A.id = B.id" if length is None else f"A.id = B.id AND B.ts BETWEEN A.ts AND A.ts + {length}"
        return planned(["A.x", "A.ts", "B.ts"], on=on, streams=TIMED)

    old, new = between("INTERVAL 1 HOUR"), between(condition)
    assert (continued(old, new) is not None) is is_served
    is_same = condition == "INTERVAL 1 HOUR"
    assert (fingerprint(old) == fingerprint(new)) is is_same
    if not is_same:
        assert "input A of join1 is joined with rows of B up to 3600000000 microseconds later" in told(old, new)


def test_a_column_that_cannot_be_kept_is_refused_only_where_it_would_be():
    odd = StreamNode("A", SCHEMA.append(unkept_field("v", "variant", "it has no Arrow type", "leave it out")))
    for needed, where in ((["A.x"], ()), (["A.x"], ["is_variant_null(A.v)"])):
        refuse_unkept(planned(needed, where, streams=(odd, B)))
    with pytest.raises(UnsupportedError, match=r"A\.v has type variant: it has no Arrow type"):
        refuse_unkept(planned(["A.v"], streams=(odd, B)))
