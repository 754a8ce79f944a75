"""Promises that are old are forgotten, with a retention: the store of them stays small, and rows after that are new."""

import pyarrow as pa
import pytest
from tests.support.in_process import InProcess

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.events import ForgetEvent

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
PROMISES = pa.schema([("#shape", pa.int64()), ("k", pa.int64()), ("k#until", pa.int64())])


def query(folder, how="inner", retention_us=100, **more):
    a = StreamNode("A", SCHEMA, "ts", delay_us=0)
    b = StreamNode("B", SCHEMA, "ts", delay_us=0, punctuated=("k",))
    node = JoinNode((a, b), "A.k = B.k", how)
    return InProcess(plan(Query(node, ("A.k", "B.k"))), str(folder), retention_us=retention_us, **more)


def table(rows):
    times = pa.array([time for _, time in rows], pa.int64()).cast(SCHEMA.field("ts").type)
    return pa.table({"k": pa.array([key for key, _ in rows], pa.int64()), "ts": times}, SCHEMA)


def epoch(*, a=(), b=(), promised=()):
    told = {"#shape": [1] * len(promised), "k": list(promised), "k#until": [None] * len(promised)}
    return {"A": table(a), "B": table(b), "B#promises": pa.table(told, PROMISES)}


def stored_promises(running):
    return sum(run.rows for runs in running.manifest.promises.values() for run in runs)


def begun(folder, time, **more):
    """A waits for 1, which B promises at 10; then B has come to a time."""
    running = query(folder, **more)
    running.epoch(epoch(a=[(1, 5), (2, 5)], b=[(9, 10)], promised=[1]))
    running.epoch(epoch(b=[(9, time)]))
    for _ in range(4):
        running.epoch(epoch())
    return running


@pytest.mark.parametrize(("time", "left"), [(109, 1), (110, 0)])
def test_promises_go_when_the_watermark_has_left_them_behind(tmp_path, time, left):
    running = begun(tmp_path, time)
    assert stored_promises(running) == left


@pytest.mark.parametrize("more", [{"retention_us": None}, {"how": "full"}])
def test_they_are_kept_for_ever_without_an_option_and_in_full_joins(tmp_path, more):
    assert stored_promises(begun(tmp_path, 10_000, **more)) == 1


def test_a_row_after_that_is_new_and_finds_nothing_that_was_let_go(tmp_path):
    running = begun(tmp_path, 110)
    joined = running.epoch(epoch(a=[(3, 110)], b=[(1, 110), (2, 110)]))
    assert joined.column("A").to_pylist() == [{"k": 2}]
    assert not running.loop.history.get(running.manifest.batch).rejected
    assert len(running.epoch(epoch(a=[(1, 111)]))) == 1  # the new row of B is kept, and waits


def test_a_row_before_that_is_rejected(tmp_path):
    running = begun(tmp_path, 109)
    running.epoch(epoch(b=[(1, 109)]))
    assert [each.reason for each in running.loop.history.get(running.manifest.batch).rejected] == ["punctuated"]


def test_a_row_comes_out_alone_once_before_and_once_after(tmp_path):
    running = query(tmp_path, "left")
    told = [running.epoch(epoch(a=[(1, 5)], b=[(9, 10)], promised=[1])), running.epoch(epoch(b=[(9, 200)]))]
    told += [running.epoch(epoch()) for _ in range(4)]
    told += [
        running.epoch(epoch(a=[(1, 200)])),
        running.epoch(epoch(b=[(9, 300)], promised=[1])),
        running.epoch(epoch()),
    ]
    assert [len(each) for each in told] == [0, 1, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.long
def test_the_store_stays_small(tmp_path):
    running, sizes = query(tmp_path, retention_us=50), []
    for number in range(120):
        running.epoch(epoch(b=[(-1, 2 * number)], promised=[3 * number]))
        sizes.append(stored_promises(running))
    assert max(sizes[60:]) <= 50
    forgotten = [event for event in running.loop.stepper.checkpoint.events() if isinstance(event, ForgetEvent)]
    assert 5 <= len(forgotten) <= 40
    assert forgotten[-1].reason == "the watermark of B is more than 50 microseconds later than they came"


def test_a_restart_knows_what_is_forgotten(tmp_path):
    running = begun(tmp_path, 110)
    running.recover()
    assert len(running.epoch(epoch(b=[(1, 110)]))) == 0
    assert len(running.epoch(epoch(a=[(1, 110)]))) == 1


def test_nothing_is_forgotten_while_results_are_missing(tmp_path):
    running = query(tmp_path, options=MemoryOptions(budget_bytes=1))
    running.epoch(epoch(a=[(1, 5), (2, 5)], b=[(9, 10)], promised=[1]))
    for number in range(3):
        running.epoch(epoch(a=[(2, 10)], b=[(2, 200 + number)]))
    assert running.manifest.spilled(running.plan.root.id)
    assert stored_promises(running) == 1
