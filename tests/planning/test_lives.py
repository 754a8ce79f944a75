import pyarrow as pa
import pytest
from tests.planning.queries import LONG, TEXT, columns, join, planned, stream

from watersmeet.model.errors import QueryError, TypeMismatchError, UnknownNameError
from watersmeet.model.plan import Column, Life
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan

INSTANT, PLAIN = pa.timestamp("us", "UTC"), pa.timestamp("us")


def timed(name, window=None, delay=None, time="ts", kind=INSTANT):
    return StreamNode(name, pa.schema([("k", LONG), ("v", TEXT), ("ts", kind)]), time, window, delay)


def lives(made, operator="join1"):
    return {source.name: source.life for source in made.operator(operator).inputs}


def test_without_times_nothing_lives():
    made = planned(join(stream("A", k=LONG), stream("B", k=LONG), on="A.k = B.k"))
    assert lives(made) == {"A": None, "B": None}
    assert not made.root.is_windowed


def test_an_input_keeps_its_times_even_if_nobody_reads_them():
    made = planned(join(timed("A", 10), timed("B", None, 3), on="A.k = B.k"), "A.v")
    assert lives(made) == {"A": Life(Column("A", "ts"), None, 10), "B": Life(Column("B", "ts"))}
    assert [source.state for source in made.root.inputs] == [columns("A.v A.ts"), columns("B.ts")]
    assert [source.bounded for source in made.root.inputs] == [columns("A.ts"), columns("B.ts")]
    assert made.root.life is None, "nobody is above"
    assert made.root.output == columns("A.v")
    assert made.root.is_windowed


def test_lives_that_never_end_decide_nothing():
    assert not planned(join(timed("A"), timed("B", None, 5), on="A.k = B.k")).root.is_windowed
    assert not planned(join(timed("A", 10), stream("B", k=LONG), on="A.k = B.k")).root.is_windowed


def test_an_operator_hands_up_when_its_results_live():
    below = join(timed("A", 10), timed("B"), on="A.k = B.k")
    made = planned(join(below, timed("C", 5), on="A.v = C.v"), "A.k")
    told = Life(*columns("#join1.begin #join1.end"))
    assert made.operator("join1").life == told
    assert made.operator("join1").output[-2:] == told.columns
    assert lives(made, "join2")["join1"] == told
    assert told.columns[0] in made.operator("join2").inputs[0].state
    assert {made.types[column] for column in told.columns} == {LONG}


def test_without_windows_results_need_not_tell_when_they_live():
    made = planned(join(join(timed("A"), timed("B"), on="A.k = B.k"), timed("C"), on="A.v = C.v"))
    assert made.operator("join1").life is None
    assert lives(made, "join2") == {"join1": None, "C": Life(Column("C", "ts"))}


def test_results_of_streams_without_times_live_always():
    plain = join(stream("A", k=LONG, v=TEXT), stream("B", k=LONG), on="A.k = B.k")
    made = planned(join(plain, timed("C", 5), on="A.v = C.v"))
    assert made.operator("join1").life is None
    assert lives(made, "join2")["join1"] is None


def test_names_of_times_are_folded_as_the_session_says():
    node = join(timed("A", time="TS"), timed("B"), on="A.k = B.k")
    assert lives(planned(node))["A"] == Life(Column("A", "ts"))
    with pytest.raises(UnknownNameError, match=r"stream A has no column TS.*ts"):
        plan(Query(node, case_sensitive=True))


@pytest.mark.parametrize(("given", "what"), [({"window": 5}, "window"), ({"delay": 5}, "watermark")])
def test_lengths_without_times_are_refused(given, what):
    with pytest.raises(QueryError, match=f"stream A has a {what} and no time.*time="):
        planned(join(timed("A", time=None, **given), timed("B"), on="A.k = B.k"))


@pytest.mark.parametrize(("column", "kind"), [("k", "bigint"), ("v", "string")])
def test_times_are_timestamps(column, kind):
    with pytest.raises(TypeMismatchError, match=f"column {column}, is {kind}.*to_timestamp"):
        planned(join(timed("A", time=column), timed("B"), on="A.k = B.k"))


def test_times_of_all_zones_are_compared_and_those_without_one_among_themselves():
    rome = pa.timestamp("us", "Europe/Rome")
    assert planned(join(timed("A", 5, kind=rome), timed("B"), on="A.k = B.k")).root.is_windowed
    assert planned(join(timed("A", 5, kind=PLAIN), timed("B", kind=PLAIN), on="A.k = B.k")).root.is_windowed
    with pytest.raises(TypeMismatchError, match="time of stream A is timestamp, that of B timestamp_ntz"):
        planned(join(timed("A", 5), timed("B", kind=PLAIN), on="A.k = B.k"))


@pytest.mark.parametrize(
    ("how", "preserved"),
    [("inner", ()), ("left", (0,)), ("right", (1,)), ("full", (0, 1)), ("semi", (0,)), ("anti", (0,))],
)
def test_kinds_of_joins_have_the_inputs_they_preserve(how, preserved):
    made = planned(JoinNode((timed("A", 5), timed("B", 5)), "A.k = B.k", how))
    assert made.root.preserved == preserved
