"""What punctuations do to state, in this process: rows go, are not kept, and promises stay few."""

import pyarrow as pa
import pytest
from tests.support.in_process import InProcess

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.inspect import state_table

UNLIMITED = MemoryOptions()
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def query(folder, how="inner", options=UNLIMITED, **said):
    said = {"A": {}, "B": {}} | said
    a, b = (StreamNode(name, SCHEMA, **said[name]) for name in "AB")
    needed = ("A.v",) if how == "anti" else None
    return InProcess(plan(Query(JoinNode((a, b), "A.k = B.k", how), needed)), str(folder), options=options)


def rows(*keys):
    return pa.table({"k": list(keys), "v": list(keys)}, SCHEMA)


def promised(*keys):
    """Punctuations of single keys."""
    columns = {"#shape": [1] * len(keys), "k": list(keys), "k#until": [None] * len(keys)}
    return pa.table(columns, pa.schema([("#shape", pa.int64()), ("k", pa.int64()), ("k#until", pa.int64())]))


def held(running):
    """The number of rows that each input holds."""
    found = {"A": 0, "B": 0}
    for run in running.manifest.runs.values():
        found[run.input] += run.rows
    return found


def metrics(running):
    return running.loop.history.get(running.manifest.batch)


def test_rows_go_whose_keys_the_other_stream_has_promised(tmp_path):
    running = query(tmp_path, B={"punctuated": ("k",)})
    running.epoch({"A": rows(*range(10)), "B": rows(), "B#promises": promised(*range(5))})
    assert held(running) == {"A": 10, "B": 0}  # it holds from the end of its epoch on
    running.epoch({"A": rows(), "B": rows(), "B#promises": promised()})
    assert held(running) == {"A": 5, "B": 0}
    assert metrics(running).dropped == 5


def test_rows_that_only_meet_what_is_there_are_joined_and_not_kept(tmp_path):
    running = query(tmp_path, B={"punctuated": ("k",)})
    running.epoch({"A": rows(), "B": rows(1, 1, 2), "B#promises": promised(1)})
    joined = running.epoch({"A": rows(1, 2), "B": rows(1), "B#promises": promised()})
    assert len(joined) == 3  # twice with 1, once with 2; the late 1 is rejected
    assert held(running) == {"A": 1, "B": 3}
    assert metrics(running).not_stored == 1
    assert [(each.reason, each.rows) for each in metrics(running).rejected] == [("punctuated", 1)]


def test_rows_of_a_unique_key_are_not_waited_for_twice(tmp_path):
    running = query(tmp_path, A={"unique": ("k",)})
    running.epoch({"A": rows(1, 2), "B": rows(1, 3)})
    assert len(running.epoch({"A": rows(3), "B": rows(1, 2)})) == 3
    assert held(running)["B"] <= 1  # that of 3, whose A came in this epoch
    running.epoch({"A": rows(), "B": rows()})
    assert held(running) == {"A": 3, "B": 0}


def test_promises_that_adjoin_are_one_range_and_runs_of_them_stay_few(tmp_path):
    running = query(tmp_path, B={"punctuated": ("k",)})
    for epoch in range(100):
        running.epoch({"A": rows(), "B": rows(), "B#promises": promised(2 * epoch, 2 * epoch + 1)})
    assert len(running.manifest.promises["B-0"]) <= 16
    told = [row for row in state_table(running.manifest).to_pylist() if row["operator"] == "promises B-0"]
    assert told[0]["rows"] <= 16
    assert told[0]["site"] is None


def test_a_restart_knows_all_promises(tmp_path):
    running = query(tmp_path, B={"punctuated": ("k",)})
    running.epoch({"A": rows(), "B": rows(), "B#promises": promised(1)})
    running.recover()
    assert len(running.epoch({"A": rows(1), "B": rows(1), "B#promises": promised()})) == 0


def test_a_stream_that_has_ended_lets_all_rows_of_the_other_go(tmp_path):
    running = query(tmp_path, B={"punctuated": ("k",)})
    end = pa.table({"#shape": [0], "k": [None], "k#until": [None]}, promised().schema)
    running.epoch({"A": rows(1, 2), "B": rows(1), "B#promises": end})
    assert len(running.epoch({"A": rows(1, 3), "B": rows(3), "B#promises": promised()})) == 1
    assert held(running)["A"] == 0
    assert [(each.reason, each.rows) for each in metrics(running).rejected] == [("punctuated", 1)]


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_a_row_comes_out_alone_in_the_epoch_after_its_key_was_promised(tmp_path, how):
    running = query(tmp_path, how, B={"punctuated": ("k",)})
    nothing = {"A": rows(), "B": rows(), "B#promises": promised()}
    assert len(running.epoch({"A": rows(1, 2, 3), "B": rows(3), "B#promises": promised(1, 3)})) == (how != "anti")
    assert len(running.epoch(nothing)) == 1
    assert len(running.epoch(nothing)) == 0
    assert len(running.epoch({**nothing, "A": rows(1)})) == 1  # it can have no match, and is not kept
    if how != "full":  # rows of B that came later could be joined with it
        assert held(running)["A"] == 1
    assert len(running.epoch(nothing)) == 0


def test_purges_are_told_in_events(tmp_path):
    from watersmeet.state.event_log import EventLog  # noqa: PLC0415

    running = query(tmp_path, B={"punctuated": ("k",)})
    running.epoch({"A": rows(*range(10)), "B": rows(), "B#promises": promised(1, 2)})
    running.epoch({"A": rows(), "B": rows(), "B#promises": promised()})
    told = EventLog(running.loop.stepper.checkpoint.store).all()
    assert [type(event).__name__ for event in told] == ["PurgeEvent"] * len(told)
    assert sum(event.before.rows - event.after.rows for event in told) == 2


@pytest.mark.parametrize("how", ["left", "full"])
def test_a_row_whose_match_was_spilled_waits_for_it_although_its_key_was_promised(tmp_path, how):
    running = query(tmp_path, how, MemoryOptions(budget_bytes=1), B={"unique": ("k",)})
    running.epoch({"A": rows(), "B": rows(1)})
    assert running.epoch({"A": rows(1), "B": rows()}).num_rows == 0
    assert running.clean("end", None).column("B").to_pylist() == [{"k": 1, "v": 1}]
