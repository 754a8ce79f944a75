"""What is asked of pairs where rows of rings meet, and which columns are computed for it."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.planning.queries import DOUBLE, LONG, A, B, C, join, stream

from watersmeet.model.errors import NoEqualityError, UnsupportedError
from watersmeet.model.plan import Test as Condition
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.planning.describe import explain

NEAR = "wm_predicate_2_near"


def made(node, kind=LONG):
    """A plan; an expression is of some kind."""
    return plan(Query(node), lambda *_: kind, endless=True)


def are_all_kept(some):
    """Whether each test reads what the inputs of its operator keep."""
    return all(
        test.columns <= {column.name for source in operator.inputs for column in source.state}
        for operator in some.operators
        for test in operator.tests
    )


@pytest.mark.parametrize("lower", ["(B.x < C.x OR 1 = 1)", "(B.x < C.x OR B.y = C.y OR 1 = 1)"])
def test_a_constant_is_computed_where_it_is_asked(lower):
    some = made(join(A, join(B, C, on=lower), on="A.x < B.x"))
    assert are_all_kept(some)
    computed = [column.stream for each in some.operators for source in each.inputs for column, _ in source.computed]
    assert computed == ["B"]


ON_TWO_OF_A_SIDE = "(A.y < B.y OR C.x > B.x) AND C.x > A.x"
PROGRAM = f"""
from tests.planning.test_ring_tests import *
some = made(join(join(A, B, on="A.x = B.x"), C, on={ON_TWO_OF_A_SIDE!r}), pa.bool_())
print([column.name for each in some.operators for source in each.inputs for column, _ in source.computed])
"""


def test_a_query_has_the_same_plan_in_every_process():
    plans = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert plans == {"['A.#join2.test0']\n"}


def test_a_function_reads_what_is_made_of_one_stream():
    nested = stream("A", x=LONG, s=pa.struct({"v": DOUBLE}))
    some = made(join(nested, B, on=f"A.x < B.x AND {NEAR}(A.s.v, B.y + 1)"))
    [call] = [test for test in some.root.tests if test.function == "call"]
    assert call == Condition("call", ("A.#join1.test0", "B.#join1.test1"), name=NEAR)
    assert [some.types[column] for source in some.root.inputs for column, _ in source.computed] == [DOUBLE, LONG]
    assert are_all_kept(some)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (f"{NEAR}(A.x + B.x, B.y)", ["predicate near reads A.x + B.x", "made of the columns of one stream"]),
        (f"({NEAR}(A.x, B.x) OR A.t LIKE B.t)", ["a join is on (near(A.x, B.x) OR", "Spark cannot call near"]),
        (f"{NEAR}(A.x, A.y)", ["near(A.x, A.y) reads stream A alone"]),
    ],
)
def test_a_function_that_cannot_be_asked_is_told_by_the_name_it_was_given(condition, told):
    with pytest.raises(UnsupportedError) as refused:
        made(join(A, B, on=f"A.x < B.x AND {condition}"))
    text = str(refused.value)
    assert all(each in text for each in told), text
    assert "outer join" not in text
    assert "predicate_2" not in text.lower()
    assert "flow.stream(" in text or "further arguments" in text


@pytest.mark.parametrize("equality", ["A.x = B.x AND ", ""], ids=["join", "ring"])
def test_what_stands_beside_a_function_is_a_test_too(equality):
    some = made(join(A, B, on=f"{equality}{NEAR}(A.x, B.x) AND A.y + 1 < B.y AND (A.z = 1 OR B.z = 2)"))
    assert [test.function for test in some.root.tests] == ["call", "lt", "or"]
    assert some.root.filters == ()
    assert are_all_kept(some)


def test_what_stands_beside_no_function_is_a_filter_of_a_join_with_an_equality():
    some = made(join(A, B, on="A.x = B.x AND A.y < B.y"))
    assert (some.root.tests, some.root.filters) == ((), ("`A`.`y` < `B`.`y`",))


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("on", ["A.x < B.x", "TRUE"])
def test_a_join_that_is_no_inner_one_is_told_that_it_needs_an_equality(how, on):
    with pytest.raises(NoEqualityError) as refused:
        plan(Query(JoinNode((A, B), on, how)))
    assert f"{how} " in refused.value.why
    assert "inner joins may be on any condition" in refused.value.why
    assert refused.value.how == "add a condition such as A.x = B.x"


def test_an_inner_join_needs_a_condition_that_reads_both_or_one_that_says_that_none_does():
    with pytest.raises(NoEqualityError, match=r"no part of the condition reads both.*or TRUE if every row"):
        plan(Query(join(A, B, on="A.x < 3")), endless=True)
    with pytest.raises(NoEqualityError, match="every row meets all rows of the other side that live"):
        plan(Query(join(A, B, on="TRUE")))


@pytest.mark.parametrize("on", ["A.x < 3 AND B.x > 2", "TRUE", "A.x < 3 AND TRUE"])
def test_every_row_meets_every_row_where_that_is_said(on):
    root = plan(Query(join(timed("A", 5_000_000, 0), timed("B", 5_000_000, 0), on=on))).root
    assert (root.kind, root.filters) == ("ring", ())
    assert all(test.function == "and" for test in root.tests), "of nothing but one row"


def test_a_third_stream_that_no_condition_names_is_not_crossed():
    timed_streams = [timed(name, 5_000_000, 0) for name in "ABC"]
    with pytest.raises(NoEqualityError, match="no equality connects C with A, B"):
        plan(Query(join(*timed_streams, on="A.x = B.x AND A.x < 3")))


def timed(name, window=None, delay=None, *, has_time=True):
    schema = pa.schema([("x", LONG), ("ts", pa.timestamp("us", "UTC"))])
    return StreamNode(name, schema, "ts" if has_time else None, window, delay)


WITHIN = "A.x < B.x AND B.ts BETWEEN A.ts - INTERVAL 5 SECONDS AND A.ts + INTERVAL 5 SECONDS"


@pytest.mark.parametrize(
    ("left", "right", "on"),
    [
        (timed("A", 9, 1), timed("B", 9, 1), "A.x < B.x"),
        (timed("A", 9), timed("B", 9, 1), "A.x < B.x"),  # without a watermark users are warned
        (timed("A", 9, 1), timed("B", None, 1), "A.x < B.x AND A.ts < B.ts + INTERVAL 1 SECOND"),
        (timed("A", None, 1), timed("B", None, 1), WITHIN),
    ],
)
def test_a_ring_whose_rows_end_is_planned(left, right, on):
    assert plan(Query(join(left, right, on=on)), lambda *_: pa.timestamp("us", "UTC")).root.kind == "ring"


@pytest.mark.parametrize(
    ("left", "right", "on", "why"),
    [
        (timed("A", 9, 1), timed("B", has_time=False), "A.x < B.x", "rows of A meet all rows of B, which has no event"),
        (timed("A", None, 1), timed("B", None, 1), "A.x < B.x AND A.ts < B.ts", "rows of A live for ever: there is no"),
        (timed("A", 9, 1), timed("B", None, 1), "A.x < B.x", "rows of B live for ever: there is no window"),
        (timed("A", None, 1), timed("B"), WITHIN, "rows of A wait for ever for rows of B, which has no watermark"),
    ],
)
def test_a_ring_with_rows_that_never_end_is_refused_without_a_budget(left, right, on, why):
    query = Query(join(left, right, on=on))
    with pytest.raises(NoEqualityError) as refused:
        plan(query, lambda *_: pa.timestamp("us", "UTC"))
    assert why in refused.value.why
    assert "memoryBudget" in refused.value.how
    assert plan(query, lambda *_: pa.timestamp("us", "UTC"), endless=True).root.kind == "ring"


def test_results_of_a_join_end_with_the_window_of_a_stream_in_it():
    some = join(join(timed("A", 9, 1), timed("B", None, 1), on="A.x = B.x"), timed("C", 9, 1), on="A.x < C.x")
    assert plan(Query(some)).root.kind == "ring"
    never = join(join(timed("A", None, 1), timed("B", None, 1), on="A.x = B.x"), timed("C", 9, 1), on="A.x < C.x")
    with pytest.raises(NoEqualityError, match="rows of A and B live for ever"):
        plan(Query(never))


@pytest.mark.parametrize("on", ["startswith(A.t, B.t)", "LEFT(A.t, LENGTH(B.t)) = B.t", "B.t = left(A.t, length(B.t))"])
def test_a_prefix_is_a_test(on):
    some = made(join(A, B, on=on))
    assert (some.root.tests, some.root.filters) == ((Condition("starts_with", ("A.t", "B.t")),), ())
    assert "startswith(A.t, B.t), found by binary search" in explain(some, 4, 1)


def test_a_pattern_is_left_to_spark_among_the_pairs_that_begin_with_its_first_letters():
    some = made(join(A, B, on="A.t LIKE CONCAT(B.t, '%')"), pa.string())
    assert [test.function for test in some.root.tests] == ["starts_with"]
    assert len(some.root.filters) == 1
    [prefix] = [sql for source in some.root.inputs for _, sql in source.computed]
    assert prefix.count("SUBSTRING_INDEX") == 3
    assert are_all_kept(some)


@pytest.mark.parametrize(
    "on",
    [
        "A.t LIKE B.t ESCAPE '!'",
        "A.t NOT LIKE B.t",
        "A.t LIKE ANY (B.t, 'x')",
        "A.t LIKE ALL (B.t)",
        "(A.t LIKE B.t OR A.x < B.x)",
        "A.t ILIKE B.t",
    ],
)
def test_other_patterns_are_left_to_spark_alone(on):
    some = made(join(A, B, on=on), pa.string())
    assert (some.root.tests, len(some.root.filters)) == ((), 1)
