"""Aggregates in plans: what is computed where, which windows there are, and what tells two aggregates apart."""

import json
import warnings

import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.planning.queries import DOUBLE, LONG, TEXT, columns, join

from watersmeet.api.checks import check_ends
from watersmeet.model.errors import UnsupportedError, WatersmeetError
from watersmeet.model.plan import Column
from watersmeet.model.query import Aggregate, AggregateNode, FilterNode, GroupKey, History, JoinNode, Query, StreamNode
from watersmeet.planning import difference, explain, fingerprint, plan
from watersmeet.planning.aggregates import aggregate_name
from watersmeet.planning.names import Scope
from watersmeet.planning.restart import continued
from watersmeet.planning.windows import WINDOW_TYPE, time_window, window_shown

INSTANT, PLAIN = pa.timestamp("us", "UTC"), pa.timestamp("us")
N = Aggregate("n", "count", LONG)


def timed(name, delay=5, kind=INSTANT, **said):
    fields = pa.schema([("k", LONG), ("v", LONG), ("d", DOUBLE), ("t", TEXT), ("ts", kind)])
    return StreamNode(name, fields, **{"time": "ts", "window_us": 10, "delay_us": delay, **said})


A, B = timed("A"), timed("B")
AB = join(A, B, on="A.k = B.k")
WINDOW = GroupKey("window", "window(A.ts, '1 minute')", WINDOW_TYPE)


def made(node, *keys, told=(N,), mode="append"):
    return plan(Query(AggregateNode(node, keys, told, mode)))


def total(sql, kind=LONG):
    return Aggregate("total", "sum", kind, sql, kind)


def key(sql, kind=LONG, name="key"):
    return GroupKey(name, sql, kind)


def test_one_stream_feeds_an_aggregate_at_the_lowest_level():
    planned = made(A, key("A.k", name="k"), told=(N, total("A.v")))
    (root,) = planned.operators
    assert (root.id, root.kind, root.level, root.mode) == ("aggregate1", "aggregate", 0, "append")
    assert [source.name for source in root.inputs] == ["A"]
    assert root.output == columns("aggregate1.k aggregate1.n aggregate1.total")
    assert [planned.types[column] for column in root.output] == [LONG, LONG, LONG]
    assert set(root.inputs[0].state) == set(columns("A.k A.v A.ts")), "times are kept for whoever lets rows in"
    assert root.final is None


def test_an_aggregate_is_above_all_joins():
    c = timed("C")
    planned = made(join(AB, c, on="B.v = C.v"), key("A.k", name="k"), told=(total("C.v"),))
    assert [(each.id, each.level) for each in planned.operators] == [("join1", 0), ("join2", 1), ("aggregate1", 2)]
    assert planned.root.inputs[0].operator == "join2"
    assert Column("A", "k") in planned.operator("join2").output
    assert Column("A", "t") not in planned.operator("join2").output


def test_what_reads_one_stream_is_computed_as_its_rows_come():
    planned = made(AB, key("A.v % 10"), told=(total("B.v * 2"),))
    inputs = {source.name: [sql for _, sql in source.computed] for source in planned.operator("join1").inputs}
    assert any("`A`.`v` % 10" in sql and "XXHASH64" not in sql for sql in inputs["A"])
    assert any("XXHASH64" in sql for sql in inputs["A"])
    assert inputs["B"] == ["`B`.`v` * 2"]
    assert planned.root.inputs[0].computed == ()


def test_what_reads_several_streams_is_computed_on_the_results_of_joins():
    planned = made(AB, key("A.v + B.v"), told=(total("A.v * B.v"),))
    late = [sql for _, sql in planned.root.inputs[0].computed]
    assert "`A`.`v` + `B`.`v`" in late
    assert "`A`.`v` * `B`.`v`" in late
    assert all(not source.computed for source in planned.operator("join1").inputs)
    assert set(columns("A.v B.v")) <= set(planned.operator("join1").output)


def test_a_constant_is_computed_somewhere_and_no_key_means_one_group():
    planned = made(AB, key("'x'", TEXT))
    assert planned.root.output[0] == Column("aggregate1", "key")
    one = made(AB)
    assert one.root.output == columns("aggregate1.n")
    assert "by nothing: all rows are one group" in explain(one, 1, 1)


def test_both_zeros_are_one_group():
    planned = made(A, key("A.d", DOUBLE))
    assert Column("A", "d") not in planned.root.inputs[0].state
    assert any("`A`.`d`" in sql and "XXHASH64" not in sql for _, sql in planned.root.inputs[0].computed)


@pytest.mark.parametrize("node", [A, AB, join(B, A, on="A.k = B.k")])
def test_a_window_of_the_time_of_a_stream_says_when_a_group_is_final(node):
    planned = made(node, WINDOW)
    assert planned.root.final is not None
    assert planned.root.final.stream == "A"
    assert planned.types[planned.root.final] == LONG
    assert planned.types[Column("aggregate1", "window")] == WINDOW_TYPE


def test_a_window_of_another_time_does_not():
    other = StreamNode("A", pa.schema([("ts", INSTANT), ("sent", INSTANT)]), "ts", None, 5)
    assert made(other, key("window(A.sent, '1 minute')", WINDOW_TYPE)).root.final is None
    assert made(timed("A", time=None, delay=None, window_us=None), WINDOW).root.final is None


def test_a_group_by_a_time_itself_is_final_as_a_window_of_a_microsecond():
    planned = made(A, key("A.ts", INSTANT, "ts"))
    assert planned.root.final is not None
    assert dict(planned.root.inputs[0].computed)[planned.root.final] == "UNIX_MICROS(`A`.`ts`) + 1"


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_windows_the_first_to_end_decides(turned):
    hour = key("window(A.ts, '1 hour')", WINDOW_TYPE, "hour")
    keys = [WINDOW, hour][:: -1 if turned else 1]
    planned = made(A, *keys)
    text = dict(planned.root.inputs[0].computed)[planned.root.final]
    assert text.startswith("LEAST(")
    assert "60000000" in text
    assert "3600000000" in text


@pytest.mark.parametrize("turned", [False, True])
def test_of_windows_of_several_streams_one_with_a_watermark_decides(turned):
    never = timed("B", delay=None)
    keys = [WINDOW, key("window(B.ts, '1 second')", WINDOW_TYPE, "other")][:: -1 if turned else 1]
    planned = made(join(A, never, on="A.k = B.k"), *keys)
    assert planned.root.final.stream == "A"


def test_windows_may_begin_a_little_later_or_earlier():
    window = time_window("window(A.ts, '1 hour', '1 hour', '-15 minutes')", Scope((A,)))
    assert (window.length_us, window.offset_us) == (3_600_000_000, -900_000_000)
    assert "PMOD(UNIX_MICROS(`A`.`ts`) - -900000000, 3600000000)" in window.sql


def test_a_window_in_sql_begins_at_a_multiple_of_its_length():
    window = time_window("WINDOW(a.TS, '1 hour')", Scope((A,)))
    assert window is not None
    assert (window.column, window.length_us) == (Column("A", "ts"), 3_600_000_000)
    assert window.end == f"{window.start} + 3600000000"
    assert "PMOD" in window.start
    assert window.start in window.sql
    assert time_window("window(A.ts, '1 hour', '60 minutes', '0 seconds')", Scope((A,))) == window
    assert time_window("A.k + 1", Scope((A,))) is None


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("window(A.ts, '5 minutes', '10 minutes')", "its slide is longer than itself"),
        ("window(A.ts, '1 day', '1 second')", "each row would be in 86,400 windows, and 1,000 are the most"),
        ("window(A.ts, '10 minutes', '5 minutes', '5 minutes')", "offset is not shorter than its slide"),
        ("window(A.ts, '5 minutes', '5 minutes', '5 minutes')", "offset is not shorter"),
        ("session_window(A.ts, '5 minutes')", "a session grows with the rows"),
        ("SESSION_WINDOW(A.ts, CASE WHEN A.k > 1 THEN '5 minutes' ELSE '1 minute' END)", "a session grows"),
        ("window(A.ts, '5 minutes').start", "it is made of WINDOW"),
        ("coalesce(session_window(A.ts, '5 minutes').end, A.ts)", "it is made of SESSION_WINDOW"),
        ("window(A.ts)", "no length"),
        ("window(A.ts + INTERVAL 1 HOUR, '1 minute')", "no column"),
        ("window(A.k, '1 minute')", "k is no timestamp"),
        ("window(A.t, '1 minute')", "t is no timestamp"),
        ("window(A.ts, '0 seconds')", "length"),
        ("window(A.ts, '-1 minute')", "length"),
        ("window(A.ts, '1 month')", "month"),
        ("window(A.ts, 'soon')", "soon"),
    ],
)
def test_other_windows_are_refused_with_the_reason(sql, why):
    with pytest.raises(WatersmeetError, match=why) as caught:
        made(A, key(sql, WINDOW_TYPE, "window"))
    assert caught.value.what
    assert caught.value.why
    assert caught.value.how


def test_a_window_of_times_without_a_zone_is_of_such_times():
    plain = pa.struct([("start", PLAIN), ("end", PLAIN)])
    planned = made(timed("A", kind=PLAIN), WINDOW)
    assert planned.types[Column("aggregate1", "window")] == plain
    assert planned.root.final.stream == "A"
    assert "by window(A.ts, '1 minute')" in explain(planned, 1, 1)
    assert made(timed("A", kind=PLAIN), key("A.ts", PLAIN, "ts")).root.final is not None


@pytest.mark.parametrize("kind", [INSTANT, PLAIN])
@pytest.mark.parametrize("rest", ["'1 hour'", "'1 hour', '1 hour', '-15 minutes'", "'1 hour', '7 minutes'"])
def test_a_window_is_shown_as_it_was_written(kind, rest):
    sql = f"window(`A`.`ts`, {rest})"
    window = time_window(sql, Scope((timed("A", kind=kind),)))
    assert window_shown(window.sql) == sql


SLIDING = key("window(A.ts, '10 minutes', '4 minutes')", WINDOW_TYPE, "window")


@pytest.mark.parametrize("node", [A, AB])
def test_a_window_that_slides_is_no_part_of_the_hash_and_may_end_its_groups(node):
    planned = made(node, SLIDING, key("A.k", name="k"))
    (window,) = planned.root.sliding
    assert (window.length_us, window.slide_us, window.ends) == (600_000_000, 240_000_000, True)
    assert window.time == "A.ts"
    assert Column("A", "ts") in planned.root.inputs[0].state
    assert len(planned.root.inputs[0].keys) == 1
    assert "by window(A.ts, '10 minutes', '4 minutes'), A.k" in explain(planned, 1, 1)


def test_a_window_that_slides_alone_is_a_key_without_a_hash():
    planned = made(A, SLIDING)
    assert len(planned.root.inputs[0].keys) == 1
    assert planned.root.output == columns("aggregate1.window aggregate1.n")


def test_windows_of_another_time_than_the_one_that_ends_a_group_do_not_end_it():
    other = StreamNode("A", pa.schema([("ts", INSTANT), ("sent", INSTANT)]), "ts", None, 5)
    sent = key("window(A.sent, '10 minutes', '5 minutes')", WINDOW_TYPE, "sent")
    planned = made(other, SLIDING, sent)
    assert [each.ends for each in planned.root.sliding] == [True, False]


def test_one_window_by_two_names_is_one():
    planned = made(A, SLIDING, key("window(A.ts, '600 seconds', '4 minutes')", WINDOW_TYPE, "again"))
    assert len(planned.root.sliding) == 1
    assert planned.root.output == columns("aggregate1.window aggregate1.again aggregate1.n")


def test_several_windows_that_slide_may_be_too_many_together():
    other = StreamNode("A", pa.schema([("ts", INSTANT), ("sent", INSTANT)]), "ts", None, 5)
    keys = [key(f"window(A.{name}, '40 seconds', '1 second')", WINDOW_TYPE, name) for name in ("ts", "sent")]
    with pytest.raises(UnsupportedError, match="in 1,600 windows"):
        made(other, *keys)


def test_another_slide_is_another_query():
    other = key("window(A.ts, '10 minutes', '5 minutes')", WINDOW_TYPE, "window")
    assert "'10 minutes', '5 minutes'" in told_apart(made(A, SLIDING), made(A, other))
    assert continued(made(A, SLIDING), made(A, other)) is None


def test_an_aggregate_is_explained_with_what_it_tells():
    planned = made(FilterNode(AB, "A.v > 3"), key("A.k", name="k"), WINDOW, told=(N, total("B.v * 2")))
    lines = explain(planned, groups=4, sites=2).splitlines()
    assert lines[:7] == [
        "2 operators over 2 streams; 4 partition groups an operator, on 2 sites",
        "",
        "aggregate1 groups join1",
        "    an aggregate in mode append",
        "    by A.k, window(A.ts, '1 minute')",
        "    telling count(*) as n",
        "    telling sum(B.v * 2) as total",
    ]
    assert "            where A.v > 3" in [line[4:] for line in lines]
    assert any("join1 joins A, B" in line for line in lines)


def told_apart(one, other):
    return difference(json.loads(json.dumps(fingerprint(one))), fingerprint(other))


def test_the_same_aggregate_in_other_words_is_the_same_query():
    again = made(AB, key("a.K", name="k"), told=(N, total("b.V")))
    assert told_apart(made(AB, key("A.k", name="k"), told=(N, total("B.v"))), again) == ""


@pytest.mark.parametrize(
    "other",
    [
        made(AB, key("A.k", name="k"), told=(total("B.v"),)),
        made(AB, key("A.k", name="k"), told=(N, total("B.v")), mode="update"),
        made(AB, key("A.k", name="k"), told=(N, total("A.v"))),
        made(AB, key("A.v", name="k"), told=(N, total("B.v"))),
        made(AB, key("A.k", name="k"), WINDOW, told=(N, total("B.v"))),
        made(AB, told=(N, total("B.v"))),
        made(A, key("A.k", name="k"), told=(N, total("A.v"))),
        plan(Query(AB)),
        made(AB, key("A.k", name="k"), told=(N, Aggregate("total", "max", LONG, "B.v", LONG))),
    ],
)
def test_another_aggregate_or_mode_is_another_query(other):
    assert told_apart(made(AB, key("A.k", name="k"), told=(N, total("B.v"))), other)


@pytest.mark.parametrize("node", [A, AB])
def test_another_expression_is_another_query(node):
    other = key("window(A.ts, '2 minutes')", WINDOW_TYPE, "window")
    assert "mode append, by window(A.ts, '2 minutes'), telling" in told_apart(made(node, WINDOW), made(node, other))
    assert told_apart(made(node, key("A.v % 2")), made(node, key("A.v % 3")))
    assert told_apart(made(node, told=(total("A.v * 2"),)), made(node, told=(total("A.v * 3"),)))


def test_another_expression_over_several_streams_is_another_query():
    assert told_apart(made(AB, told=(total("A.v * B.v"),)), made(AB, told=(total("A.v + B.v"),)))
    assert told_apart(made(AB, key("A.v * B.v")), made(AB, key("A.v + B.v")))


@pytest.mark.parametrize(("how", "late"), [("left", {"B"}), ("right", {"A"}), ("full", {"A", "B"}), ("anti", set())])
def test_what_an_outer_join_may_fill_up_with_nulls_is_computed_on_its_results(how, late):
    sides = ["A"] if how == "anti" else ["A", "B"]
    keys = tuple(key(f"{name}.k + 1", name=name) for name in sides)
    planned = plan(Query(AggregateNode(JoinNode((A, B), "A.k = B.k", how), keys, (N,))))
    on_results = {column.stream for column, _ in planned.root.inputs[0].computed}
    assert on_results == late


def test_names_of_aggregates_are_no_names_of_streams():
    assert aggregate_name(["A"]) == "aggregate1"
    assert aggregate_name(["Aggregate1", "x"]) == "aggregate2"


# --- over the last rows -----------------------------------------------------------------------------------------------


def over(node, history, *keys):
    return plan(Query(AggregateNode(node, keys or (key("A.k", name="k"),), (N,), "update", history)))


def test_rows_of_a_stream_are_ordered_by_its_time_and_results_by_the_latest_of_theirs():
    alone, both = over(A, History(rows=3)), over(AB, History(rows=3))
    assert alone.root.order == Column("A", "ts")
    assert (Column("A", "#aggregate1.order"), "GREATEST(`A`.`ts`, `B`.`ts`)") in both.root.inputs[0].computed
    assert both.types[both.root.order] == INSTANT
    with_one = over(join(A, StreamNode("B", A.schema), on="A.k = B.k"), History(rows=3))
    assert with_one.root.order == Column("A", "ts"), "a row without a time is as late as it likes"


def test_rows_end_by_themselves_in_a_range_of_time_with_promises_of_all_streams():
    assert over(A, History(time_us=9)).root.inputs[0].life.begin == Column("A", "ts")
    assert over(A, History(rows=9)).root.inputs[0].life is None
    assert over(timed("A", delay=None), History(time_us=9)).root.inputs[0].life is None
    assert over(join(A, timed("B", delay=None), on="A.k = B.k"), History(time_us=9)).root.inputs[0].life is None
    windowed = over(A, History(time_us=9), WINDOW)
    assert windowed.root.inputs[0].life.begin == windowed.root.final


def test_another_history_is_another_query():
    few, many = over(A, History(rows=3)), over(A, History(rows=4))
    assert "over the last 3 rows" in difference(fingerprint(few), fingerprint(many))
    assert continued(few, many) is None
    assert "over the last 9 microseconds, ordered by A.ts" in explain(over(A, History(time_us=9)), 4, 1)


def test_without_times_nobody_knows_which_rows_are_the_last():
    with pytest.raises(
        WatersmeetError, match=r"A are aggregated over the last 3 rows.*depend on how they arrive.*time="
    ):
        over(StreamNode("A", A.schema), History(rows=3))


def test_histories_of_outer_joins_are_refused():
    node = AggregateNode(JoinNode((A, B), "A.k = B.k", "left"), (key("A.k", name="k"),), (N,), history=History(rows=3))
    with pytest.raises(UnsupportedError, match="groups of an outer join are aggregated over"):
        plan(Query(node))


def test_an_outer_join_of_streams_with_promised_keys_is_not_aggregated():
    node = AggregateNode(JoinNode((A, replace(B, unique=("k",))), "A.k = B.k", "left"), (key("A.k", name="k"),), (N,))
    with pytest.raises(UnsupportedError, match="B has punctuations or unique columns"):
        plan(Query(node))


@pytest.mark.parametrize(
    ("b", "on", "warns"),
    [
        ({}, "A.k = B.k", False),
        ({"delay": None}, "A.k = B.k", True),
        ({"time": None, "window_us": None, "delay": None}, "A.k = B.k", True),
        ({"window_us": None}, "A.k = B.k", False),
    ],
)
def test_groups_are_warned_of_whose_rows_may_always_find_a_match(b, on, warns):
    node = AggregateNode(join(A, timed("B", **b), on=on), (WINDOW,), (N,), "append")
    assert is_warned(plan(Query(node))) == warns


def test_so_are_groups_of_rows_that_nothing_ends():
    a, b = timed("A", window_us=None), timed("B", window_us=None)
    within = "A.k = B.k AND B.ts <= A.ts + INTERVAL 1 MINUTE"
    assert is_warned(made(join(a, b, on="A.k = B.k"), WINDOW))
    assert not is_warned(made(join(a, b, on=within), WINDOW))
    assert is_warned(made(join(join(a, b, on=within), timed("C", window_us=None), on="A.k = C.k"), WINDOW))


def is_warned(planned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_ends(planned, {}, ends_input=False)
    return any("groups never come out" in str(each.message) for each in caught)
