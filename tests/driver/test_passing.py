"""Promises that operators pass on by expiry: one stream's are enough once its own rows are over."""

import pyarrow as pa
import pytest
from msgspec import structs
from tests.support.in_process import InProcess

from watersmeet.adapt.expiring import passing
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.registry import Registry
from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.passing import MARKS_MOST, with_marks

TIMED = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
PLAIN = pa.schema([("k", pa.int64())])
PROMISES = pa.schema([("#shape", pa.int64()), ("k", pa.int64()), ("k#until", pa.int64())])


def query(folder, how, budget_bytes=None):
    """A and B are joined and live for 10 microseconds; C lives for ever. Only A promises anything."""
    a = StreamNode("A", TIMED, "ts", window_us=10, delay_us=0, punctuated=("k",))
    b = StreamNode("B", TIMED, "ts", window_us=10, delay_us=0)
    below = JoinNode((a, b), "A.k = B.k", "inner")
    node = JoinNode((below, StreamNode("C", PLAIN)), "A.k = C.k", how)
    return InProcess(plan(Query(node, ("A.k", "B.k", "C.k"))), str(folder), options=MemoryOptions(budget_bytes))


def epoch(*, a=(), b=(), c=(), promised=()):
    told = {"#shape": [1] * len(promised), "k": list(promised), "k#until": [None] * len(promised)}
    return {
        "A": timed(a),
        "B": timed(b),
        "C": pa.table({"k": list(c)}, PLAIN),
        "A#promises": pa.table(told, PROMISES),
    }


def timed(rows):
    times = pa.array([time for _, time in rows], pa.int64()).cast(TIMED.field("ts").type)
    return pa.table({"k": pa.array([key for key, _ in rows], pa.int64()), "ts": times}, TIMED)


def rows_of_c(running):
    return sum(run.rows for run in running.manifest.runs.values() if run.input == "C")


def begun(folder, how):
    running = query(folder, how)
    running.epoch(epoch(a=[(1, 5)], b=[(1, 0)], c=[1, 2], promised=[1]))
    return running


def test_rows_go_that_wait_for_a_key_which_one_stream_has_promised(tmp_path):
    running = begun(tmp_path, "inner")
    running.epoch(epoch(b=[(3, 14)]))
    running.epoch(epoch())
    assert rows_of_c(running) == 2  # B may bring a row at 14 that meets A's of 5
    running.epoch(epoch(b=[(3, 15)]))
    running.epoch(epoch())
    running.epoch(epoch())
    assert rows_of_c(running) == 1


def test_promises_that_are_passed_on_are_counted(tmp_path):
    running = begun(tmp_path, "inner")
    for late in (14, 15, 16):
        running.epoch(epoch(b=[(3, late)]))
    counted = [running.loop.history.get(batch).passed_on for batch in range(running.manifest.batch + 1)]
    assert counted == [0, 0, 1, 0]


def test_a_row_that_waits_for_such_a_key_comes_out_alone(tmp_path):
    running = begun(tmp_path, "right")
    running.epoch(epoch(a=[(9, 6)], c=[1], promised=[7]))
    found = keys_alone(running, epoch(c=[7], b=[(3, 30)]), epoch(), epoch())
    assert found == [7]  # the others have met A and B


def test_a_row_comes_out_alone_though_the_registry_has_no_component(tmp_path):
    """Without any, nothing is dropped; which rows there are must not depend on that."""
    running = begun(tmp_path, "right")
    running.loop.stepper.coordinator.change_registry(Registry(frozenset()), "a test takes all out")
    running.epoch(epoch(a=[(9, 6)], c=[1], promised=[7]))
    assert keys_alone(running, epoch(c=[7], b=[(3, 30)]), epoch(), epoch()) == [7]


def test_a_row_that_waits_for_a_cleanup_below_comes_out_alone_without_an_epoch(tmp_path):
    """What is missing below holds promises back; once it is cleaned and no input comes, a step passes them on."""
    running = query(tmp_path, "right", budget_bytes=1)
    running.epoch(epoch(a=[(7, 5), (8, 5)], promised=[8]))
    assert keys_alone(running, epoch(c=[8], b=[(7, 30)])) == []
    assert running.is_missing
    while running.is_missing:
        running.clean("end", None)
    assert keys_alone(running, *[None] * 3) == [8]


def keys_alone(running, *epochs):
    """The keys of C's rows that come out alone, in epochs, or (None) while no input comes."""
    told = [running.clean("final", None) if each is None else running.epoch(each) for each in epochs]
    rows = [row for table in told for row in table.to_pylist()]
    return [row["C"]["k"] for row in rows if row["A"] is None or row["A"]["k"] is None]


def test_nothing_is_passed_on_without_the_policy(tmp_path, monkeypatch):
    monkeypatch.setattr(passing, "newly_passed", lambda _: [])
    running = begun(tmp_path, "inner")
    for _ in range(3):
        running.epoch(epoch(b=[(3, 30)]))
    assert rows_of_c(running) == 2


@pytest.mark.parametrize(("promised", "found"), [((), []), ((1,), [2]), ((1, 2), [2])])
def test_groups_by_a_time_are_final_once_no_row_is_held_that_could_come_into_them(tmp_path, promised, found):
    """C has no times, so no row of A ever ends; but those of a key go that C has promised (CAPE 3.3: by purge)."""
    a, c = StreamNode("A", TIMED, "ts", delay_us=0), StreamNode("C", PLAIN, punctuated=("k",))
    time = TIMED.field("ts").type
    window = GroupKey("w", "window(A.ts, '10 microseconds')", pa.struct([("start", time), ("end", time)]))
    node = AggregateNode(JoinNode((a, c), "A.k = C.k"), (window,), (Aggregate("n", "count", pa.int64()),))
    running = InProcess(plan(Query(node)), str(tmp_path))
    told = [each for number in range(5) for each in groups_of(running, number, promised)]
    assert [row["aggregate1"]["n"] for row in told] == found


def groups_of(running, number, promised):
    """An epoch: two rows of key 1 in the first window, then one of key 2, later, and what C promises."""
    rows = {0: [(1, 5), (1, 6)], 1: [(2, 30)]}.get(number, [])
    keys = promised if number == 1 else ()
    told = {"#shape": [1] * len(keys), "k": list(keys), "k#until": [None] * len(keys)}
    c = pa.table({"k": [1, 2] if number == 0 else []}, PLAIN)
    return running.epoch({"A": timed(rows), "C": c, "C#promises": pa.table(told, PROMISES)}).to_pylist()


def test_marks_are_few_and_the_last_one_is_kept(tmp_path):
    manifest = begun(tmp_path, "inner").manifest
    for version in range(manifest.version, 1000):
        manifest = with_marks(structs.replace(manifest, version=version), ["A"])
    assert len(manifest.marks["A"]) <= MARKS_MOST
    assert manifest.marks["A"][-1] == (1000, 5)


def test_of_what_was_passed_on_little_is_kept(tmp_path):
    running = begun(tmp_path, "inner")
    for number in range(5):
        running.epoch(epoch(a=[(3, 20 * number)], b=[(3, 20 * number)], promised=[number]))
    assert len(running.manifest.operators[running.plan.root.id].passed["A"]) <= 2
