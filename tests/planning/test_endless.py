import pyarrow as pa
import pytest

from watersmeet.api.checks import check_ends
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.planning.endless import unbounded
from watersmeet.planning.predicates import predicate_name

INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("k", pa.int64()), ("ts", INSTANT), ("d", pa.int64())])


CALL = f"{predicate_name(1, 'values')}(A.d, B.d)"


def made(condition, how="inner", window=None, delay=0):
    a, b = StreamNode("A", SCHEMA, "ts", window, delay), StreamNode("B", SCHEMA, "ts", None, delay)
    return plan(Query(JoinNode((a, b), f"A.k = B.k AND {condition}", how)), type_of=lambda *_: INSTANT)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize(
    ("condition", "streams"),
    [
        ("B.ts <= A.ts + INTERVAL 1 MONTH", ["A"]),
        ("B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 YEAR", ["A"]),
        ("date_trunc('HOUR', A.ts) < B.ts", ["B"]),
        ("B.ts < A.ts + 2 * INTERVAL 1 HOUR", ["A"]),
    ],
)
def test_a_condition_whose_length_is_not_known_is_told(condition, streams, how):
    assert [stream for _, stream in unbounded(made(condition, how))] == streams


@pytest.mark.parametrize(
    "condition",
    [
        "B.ts <= A.ts + INTERVAL 1 HOUR",
        "B.ts - A.ts <= INTERVAL -1 HOUR",
        "B.ts <= A.ts + INTERVAL 1 MONTH AND B.ts <= A.ts + INTERVAL 1 DAY",
        "A.d < B.d",
        "A.ts < current_timestamp()",
        "A.ts <> B.ts",
    ],
)
def test_others_are_not(condition):
    assert list(unbounded(made(condition))) == []


@pytest.mark.parametrize(
    "condition", ["A.`odd name` < B.d", "A.`a.b` < B.d", "B.ts <= A.ts AND A.`select` < B.d + 1", CALL]
)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_names_that_need_quotes_and_functions_named_as_sql_are_no_obstacle(condition, how):
    """What is asked of pairs is looked at once more, as SQL."""
    odd = pa.schema([*SCHEMA, *(pa.field(name, pa.int64()) for name in ("odd name", "a.b", "select"))])
    nodes = tuple(StreamNode(name, odd, "ts", 10, 0) for name in "AB")
    kinds = {True: INSTANT, False: pa.int64()}
    both = f"A.k = B.k AND {condition}" if how == "left" else condition
    planned = plan(Query(JoinNode(nodes, both, how)), type_of=lambda sql, _: kinds["ts" in sql])
    assert list(unbounded(planned)) == []


def test_nor_are_those_of_streams_that_something_else_bounds_or_nothing_can():
    condition = "B.ts <= A.ts + INTERVAL 1 MONTH"
    assert list(unbounded(made(condition, window=10))) == []
    assert list(unbounded(made(condition, delay=None))) == []


def test_a_query_with_one_warns():
    with pytest.warns(UserWarning, match=r"B\.ts <= A\.ts \+ INTERVAL '1' MONTH bounds no state.*give A a window"):
        check_ends(made("B.ts <= A.ts + INTERVAL 1 MONTH"), {}, ends_input=False)
