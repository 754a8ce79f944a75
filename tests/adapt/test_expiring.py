"""Rows that have ended leave the state: whole runs at once, and runs are merged so that they end as a whole."""

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.support.in_process import InProcess

from watersmeet.adapt.expiring.policy import ExpirePolicy
from watersmeet.adapt.merging import choice
from watersmeet.adapt.merging.choice import AGES, FAN_IN, SETTLED_FAN_IN, choose_by_age
from watersmeet.adapt.merging.policy import MergePolicy
from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.model.ids import InputName, OperatorId, RunId, SiteId
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import LIVE, Bounds, Manifest, OperatorState, RowSet, RunFile, Slice
from watersmeet.state.vectors import Vector

GROUPS = 4
JOIN = OperatorId("join1")
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])


def windowed(window=10, how="inner"):
    return plan(Query(JoinNode(tuple(StreamNode(name, SCHEMA, "ts", window, 0) for name in "AB"), "A.k = B.k", how)))


def run(name, begins, source="A", groups=(0, 1)):
    """A run of two rows a group."""
    sizes = (Vector.of([2] * len(groups), "<u4"), Vector.of([50] * len(groups), "<u4"))
    bounds = {f"{source}.ts": Bounds(*begins)}
    held = GroupSet.of(groups)
    return RunFile(RunId(name), name, JOIN, InputName(source), held, 2 * len(groups), 100, 0, *sizes, bounds)


def manifest_of(*runs, closed=(), made=None, **latest):
    """A query whose runs are live, but for those that are closed."""
    slices = tuple(
        Slice(each.id, RowSet(each.groups), *((7, "disk") if each.id in closed else (LIVE, "memory"))) for each in runs
    )
    operators = {JOIN: OperatorState((SiteId(0),) * GROUPS, slices)}
    return Manifest("q", made or windowed(), GROUPS, 1, operators, {each.id: each for each in runs}, latest=latest)


def dropped(manifest):
    return {name: each.what for each in ExpirePolicy().suggest(View("step", manifest)) for name in each.what.runs}


# --- what goes --------------------------------------------------------------------------------------------------------


def test_a_run_goes_when_its_last_row_has_ended():
    runs = [run("over", (0, 90)), run("not yet", (0, 91)), run("other side", (0, 90), source="B")]
    found = dropped(manifest_of(*runs, A=50, B=100))
    assert set(found) == {"over"}, "of B, rows up to 40 have ended"
    change = found["over"]
    assert (change.rows, change.bytes, change.groups) == (4, 100, GroupSet.of(range(GROUPS)))
    assert change.reason == "rows of A have ended, and no other input brings any for them"


def ring_run(name, begins, ends, groups=(0, 1)):
    """A run of a ring tells when each of its groups ends."""
    return replace(run(name, begins, groups=groups), group_ends=Vector.of(ends, "<u4"))


def test_a_group_of_a_ring_goes_when_its_last_row_has_ended_and_its_run_later():
    found = dropped(manifest_of(ring_run("r", (0, 1000), [90, 91]), A=50, B=100))
    assert (list(found["r"].groups), found["r"].rows, found["r"].bytes) == ([0], 2, 50)
    assert not dropped(manifest_of(ring_run("r", (0, 1000), [91, 92]), A=50, B=100))


def test_groups_go_together_where_all_runs_agree_on_what_is_over():
    sites = [ring_run("one", (0, 1000), [90, 91], (0, 1)), ring_run("two", (0, 1000), [10, 800], (2, 3))]
    other = ring_run("other", (0, 1000), [91, 90], (0, 3))
    runs = [*sites, other]
    changes = [each.what for each in ExpirePolicy().suggest(View("step", manifest_of(*runs, A=50, B=100)))]
    assert [(change.runs, list(change.groups)) for change in changes] == [(("one", "two"), [0, 2]), (("other",), [3])]


def test_a_run_in_two_slices_keeps_the_groups_that_are_not_over():
    first = ring_run("r", (0, 1000), [90, 91])
    second = ring_run("other", (0, 1000), [90], (1,))
    manifest = manifest_of(first, second, A=50, B=100)
    state = manifest.operators[JOIN]
    halves = tuple(Slice(first.id, RowSet(GroupSet.of([group]))) for group in (0, 1))
    manifest = replace(manifest, operators={JOIN: replace(state, slices=(*halves, state.slices[1]))})
    changes = [each.what for each in ExpirePolicy().suggest(View("step", manifest))]
    assert [(change.runs, list(change.groups), change.rows) for change in changes] == [
        (("r",), [0], 2), (("other",), [1], 2),
    ]  # fmt: skip


def test_what_waits_for_a_stream_that_has_ended_goes_whatever_its_times():
    unbounded = replace(run("r", (0, 1)), bounds={})
    manifest = manifest_of(unbounded, run("other side", (0, 1), source="B"))
    assert set(dropped(replace(manifest, ended={"B": 1}))) == {"r"}
    assert set(dropped(replace(manifest, has_ended=True))) == {"r", "other side"}


@pytest.mark.parametrize(("how", "alone"), [("inner", 0), ("left", 1), ("full", 2), ("anti", 1)])
def test_a_query_whose_input_has_ended_holds_no_row(tmp_path, how, alone):
    plain = pa.schema([("k", pa.int64())])
    node = JoinNode(tuple(StreamNode(name, plain) for name in "AB"), "A.k = B.k", how)
    made = plan(Query(node, ("A.k",)))
    query = InProcess(made, str(tmp_path))
    query.epoch({"A": pa.table({"k": [1, 2]}), "B": pa.table({"k": [2, 3]})})
    assert query.manifest.rows == 4
    query.loop.end_input()
    assert sum(query.clean("final", None).num_rows for _ in range(3)) == alone
    query.loop.revive()
    assert query.manifest.rows == 0


def test_nothing_goes_without_promises():
    assert dropped(manifest_of(run("r", (0, 1)))) == {}
    assert dropped(manifest_of(run("r", (0, 1)), A=10**9)) == {}, "the other side has promised nothing"


def test_runs_that_do_not_tell_their_times_stay():
    assert dropped(manifest_of(replace(run("r", (0, 1)), bounds={}), A=10**9, B=10**9)) == {}


def test_groups_with_missing_results_keep_their_rows():
    runs = [run("live", (0, 5), groups=(0, 1)), run("closed", (0, 5), groups=(1, 2))]
    found = dropped(manifest_of(*runs, closed={"closed"}, A=100, B=100))
    assert set(found) == {"live", "closed"}
    for change in found.values():
        assert list(change.groups) == [0, 2, 3], "group 1 has two generations"
    alone = manifest_of(
        run("live", (0, 5), groups=(1,)), run("closed", (0, 5), groups=(1,)), closed={"closed"}, A=99, B=99
    )
    assert dropped(alone) == {}


def test_rows_of_a_preserved_input_wait_until_they_are_decided():
    runs = [run("a", (0, 5)), run("b", (0, 5), source="B")]
    manifest = manifest_of(*runs, made=windowed(how="left"), A=100, B=100)
    assert dropped(manifest) == {}
    state = replace(manifest.operators[JOIN], decided={InputName("A"): Vector.of([90] * GROUPS)})
    assert set(dropped(replace(manifest, operators={JOIN: state}))) == {"a", "b"}


# --- what is merged ---------------------------------------------------------------------------------------------------


def chosen(spans, limit=None, size=100):
    ends = {RunId(name): span for name, span in spans.items()}
    return choose_by_age(dict.fromkeys(ends, size), ends, limit)


def test_a_run_most_of_whose_rows_have_ended_is_written_anew_alone():
    assert chosen({"a": (0, 10), "b": (8, 20)}, limit=6) == ["a"]
    assert chosen({"a": (0, 10), "b": (8, 20)}, limit=5) == []
    assert chosen({"a": (0, 10), "b": (0, 12), "c": (90, 99)}, limit=9) == ["a", "b"]
    many = {f"run{number:02}": (0, 10) for number in range(3 * FAN_IN)}
    assert len(chosen(many, limit=9)) == FAN_IN


def test_runs_of_one_age_are_merged_and_those_of_different_ages_are_not():
    spread = {f"run{number:02}": (number * 1000, number * 1000) for number in range(FAN_IN)}
    assert chosen(spread) == []
    close = {f"run{number:02}": (7000 + number, 7000 + number) for number in range(FAN_IN)}
    assert chosen({"old": (0, 0)} | close) == sorted(close)


def test_a_part_that_gets_no_rows_any_more_becomes_one_run():
    old = {f"old{number}": (number, number) for number in range(SETTLED_FAN_IN)}
    assert chosen(old | {"new": (100_000, 100_000)}) == sorted(old)
    fewer = dict(list(old.items())[1:])
    assert chosen(fewer | {"new": (100_000, 100_000)}) == []
    assert chosen(old | {"new": (100_000, 100_000)}, size=choice.MERGED_LIMIT_BYTES) == []


def test_runs_of_no_length_and_one_run_alone_are_left_as_they_are():
    assert chosen({"a": (5, 5)}) == []
    assert chosen({"a": (5, 5)}, limit=5) == []
    assert chosen({"a": (5, 5)}, limit=4) == []


def test_the_number_of_runs_stays_small_however_many_epochs_there_are():
    spans, merges = {}, 0
    for epoch in range(600):
        limit = epoch - 100
        spans = {name: span for name, span in spans.items() if span[1] > limit}
        spans[f"run{epoch:04}"] = (epoch, epoch)
        if found := chosen(spans, limit):
            merges += 1
            gone = [spans.pop(name) for name in found]
            left = (max(limit + 1, min(first for first, _ in gone)), max(last for _, last in gone))
            spans[f"run{epoch:04}m"] = left
    assert len(spans) <= (AGES + 3) * FAN_IN // 2
    assert merges < 600


def test_the_policy_merges_by_age_where_rows_end_and_by_size_where_they_do_not():
    runs = [run(f"run{number}", (number, number)) for number in range(SETTLED_FAN_IN)] + [run("new", (10**6, 10**6))]
    [merge] = [
        each.what for each in MergePolicy(1 << 30, merges_closed=False).suggest(View("tasks", manifest_of(*runs)))
    ]
    assert merge.runs == ("run0", "run1", "run2")
    assert merge.reason == "4 live runs of A, by age"
    untold = [replace(each, bounds={}) for each in runs]
    assert not list(MergePolicy(1 << 30, merges_closed=False).suggest(View("tasks", manifest_of(*untold))))


# --- together ---------------------------------------------------------------------------------------------------------


def within(first, second):
    return f"{second}.ts BETWEEN {first}.ts AND {first}.ts + INTERVAL 40 MICROSECONDS"


def tree(how, on):
    """A tree of joins that conditions alone bound."""
    a, b, c = (StreamNode(name, SCHEMA, "ts", None, 0) for name in "ABC")
    below = JoinNode((a, b), f"A.k = B.k AND {within('A', 'B')}")
    query = Query(JoinNode((below, c), f"A.k = C.k AND {on}", how), ("A.k", "A.ts", "B.ts"))
    return plan(query, type_of=lambda *_: SCHEMA.field("ts").type)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("on", [within("A", "C"), within("B", "C"), within("C", "A")])
def test_conditions_between_streams_of_different_operators_keep_state_flat(tmp_path, how, on):
    query, rows = InProcess(tree(how, on), str(tmp_path), sites=1), []
    for epoch in range(60):
        begins = np.arange(2) + 10 * epoch
        table = pa.table([pa.array(begins % 5), pa.array(begins, SCHEMA.field("ts").type)], SCHEMA)
        query.epoch(dict.fromkeys("ABC", table))
        rows.append(query.manifest.rows)
    assert max(rows[30:]) <= max(rows[:30])


@pytest.mark.parametrize("per_epoch", [1, 7])
def test_state_and_runs_stay_flat_over_many_epochs(tmp_path, per_epoch):
    query, window = InProcess(windowed(window=50), str(tmp_path), sites=1), 50
    rows, files = [], []
    for epoch in range(140):
        begins = np.arange(per_epoch) + epoch * per_epoch
        table = pa.table([pa.array(begins % 5), pa.array(begins, SCHEMA.field("ts").type)], SCHEMA)
        query.epoch({"A": table, "B": table})
        rows.append(query.manifest.rows)
        files.append(len(query.manifest.runs))
    assert max(rows[70:]) <= max(rows[:70])
    assert max(rows) <= 4 * 2 * (window + per_epoch)
    assert max(files[70:]) <= 2 * (AGES + 3) * SETTLED_FAN_IN


def test_what_ends_in_spilled_groups_is_cleaned_and_goes_although_input_never_pauses(tmp_path):
    options = MemoryOptions(20_000)
    query, rows, found = InProcess(windowed(), str(tmp_path), sites=1, options=options), [], 0
    spilled = 0
    for epoch in range(100):
        begins = np.full(300, 5 * epoch)
        table = pa.table([pa.array(np.arange(300)), pa.array(begins, SCHEMA.field("ts").type)], SCHEMA)
        found += query.epoch({"A": table, "B": table}).num_rows
        rows.append(query.manifest.rows)
        spilled += query.is_missing
    assert spilled
    assert max(rows) <= 2 * 1800, "three epochs of either stream have not ended, and a budget of rows that have"
    while query.is_missing:
        found += query.clean("asked", None).num_rows
    assert found == 300 * (100 + 2 * 99), "each row is joined with those of its epoch, the one before and the next"
