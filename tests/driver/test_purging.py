"""What streams have promised of keys leaves the state soon, however much there is, and looking for it costs little."""

import numpy as np
import pyarrow as pa
import pytest
from tests.support.in_process import InProcess

from watersmeet.adapt.merging.purging import SMALL_BYTES, WAIT_MOST
from watersmeet.adapt.policy import REWRITE_AT, MemoryOptions
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.site import expiry
from watersmeet.state.inspect import state_table

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
PROMISES = pa.schema([("#shape", pa.int64()), ("k", pa.int64()), ("k#until", pa.int64())])
RANGE = 1 << 31
MANY = 20_000
"""Rows of each stream: far more than what is looked at without any thought."""


def query(folder, how="inner", options=None, sites=1, said=None):
    said = {"A": {"punctuated": ("k",)}, "B": {"punctuated": ("k",)}} if said is None else said
    nodes = tuple(StreamNode(name, SCHEMA, **said.get(name, {})) for name in "AB")
    options = MemoryOptions() if options is None else options
    needed = ("A.k", "A.v") if how in ("semi", "anti") else None
    return InProcess(plan(Query(JoinNode(nodes, "A.k = B.k", how), needed)), str(folder), options=options, sites=sites)


def rows(keys):
    return pa.table({"k": np.asarray(keys, np.int64), "v": np.asarray(keys, np.int64)}, SCHEMA)


def keys(some):
    """A punctuation for each key."""
    some = np.asarray(some, np.int64)
    return pa.table([np.ones(len(some), np.int64), some, pa.nulls(len(some), pa.int64())], PROMISES)


def ranges(*bounds):
    lows, highs = zip(*bounds, strict=True) if bounds else ((), ())
    return pa.table([[RANGE] * len(bounds), lows, highs], PROMISES)


def epoch(running, a=(), b=(), promised=None):
    given = {"A": rows(a), "B": rows(b)}
    promised = keys([]) if promised is None else promised
    given |= {f"{each.name}#promises": promised for each in running.plan.streams if each.punctuated}
    return running.epoch(given)


@pytest.fixture
def asked(monkeypatch):
    """How many stored rows were asked whether they can go."""
    counted, real = [], expiry.End._are_promised  # noqa: SLF001

    def counting(self, rows, *, arriving):
        counted.append(0 if arriving else len(rows))
        return real(self, rows, arriving=arriving)

    monkeypatch.setattr(expiry.End, "_are_promised", counting)
    return counted


@pytest.mark.parametrize("sites", [1, 4])
def test_all_that_was_promised_goes_though_no_row_comes_any_more(tmp_path, sites):
    running = query(tmp_path, sites=sites)
    epoch(running, range(MANY), range(MANY))
    assert running.manifest.bytes > 3 * sites * SMALL_BYTES
    for part in np.split(np.arange(MANY), 40):
        epoch(running, promised=keys(part))
    epoch(running)
    assert running.manifest.rows == 0


def test_no_more_than_the_threshold_is_left_of_what_was_promised(tmp_path):
    running, held = query(tmp_path), []
    epoch(running, range(MANY), range(MANY))
    for number, part in enumerate(np.split(np.arange(MANY), 40)):
        came = MANY + 200 * number + np.arange(200)
        epoch(running, came, came, promised=keys(part))
        held.append(running.manifest.rows)
    needed = 2 * (MANY - 500 * np.arange(40) + 200 * np.arange(1, 41))
    assert (np.array(held) * (1 - REWRITE_AT["purge"]) <= needed).all()


def test_what_is_looked_at_follows_what_is_promised_and_not_what_is_held(tmp_path, asked):
    running = query(tmp_path)
    epoch(running, range(MANY), range(MANY))
    epoch(running, promised=keys([0]))
    epoch(running)
    asked.clear()
    for number in range(1, 100):
        epoch(running, promised=keys([number]))
    assert sum(asked) <= 2 * 100


def test_what_was_promised_goes_after_a_restart(tmp_path):
    running = query(tmp_path)
    epoch(running, range(MANY), range(MANY))
    for part in np.split(np.arange(MANY), 20)[:19]:
        epoch(running, promised=keys(part[:5]))
    assert running.manifest.rows == 2 * MANY
    running.recover()
    epoch(running, promised=keys(range(MANY)))
    epoch(running)
    assert running.manifest.rows == 0


def test_keys_that_cannot_be_told_one_by_one_are_looked_for_now_and_then(tmp_path, asked):
    running, wide = query(tmp_path), 1_000
    epoch(running, np.arange(MANY) * wide, np.arange(MANY) * wide)
    for number in range(64):
        epoch(running, promised=ranges((number * 100 * wide, (number + 1) * 100 * wide)))
    assert sum(asked) <= 2 * MANY * 16, "all rows are not asked in each step"
    assert running.manifest.rows <= 2 * MANY * 0.8
    epoch(running, promised=ranges((0, MANY * wide)))
    for _ in range(WAIT_MOST):
        epoch(running)
    assert running.manifest.rows == 0


def test_rows_whose_key_has_many_go_at_once(tmp_path):
    running = query(tmp_path)
    epoch(running, np.arange(MANY) % 10, [])
    epoch(running, promised=keys([3, 4, 5]))
    epoch(running)
    assert running.manifest.rows == MANY * 7 // 10


@pytest.mark.parametrize("revived", [False, True])
def test_what_was_spilled_and_cleaned_goes_with_its_promise(tmp_path, revived):
    running = query(tmp_path, options=MemoryOptions(60_000))
    for _ in range(3):
        epoch(running, range(1000), range(1000))
    while running.is_missing:
        running.clean("asked", None)
    assert tiers(running) >= {"disk"}
    if revived:
        running.options = MemoryOptions()
        running.recover()
        running.loop.revive()
        assert tiers(running) == {"memory"}
    epoch(running, promised=keys(range(1000)))
    epoch(running)
    assert running.manifest.rows == 0


def test_what_was_spilled_stays_until_it_is_cleaned(tmp_path):
    running = query(tmp_path, options=MemoryOptions(20_000))
    for _ in range(3):
        epoch(running, range(1000), range(1000))
    epoch(running, promised=keys(range(1000)))
    found = epoch(running).num_rows
    assert running.is_missing
    while running.is_missing:
        found += running.clean("asked", None).num_rows
    assert found > 0
    epoch(running)
    epoch(running)
    assert running.manifest.rows == 0


@pytest.mark.parametrize("how", ["left", "full"])
def test_a_row_that_comes_as_all_spilled_rows_of_its_group_can_go_comes_out_alone(tmp_path, how):
    running = query(tmp_path, how, MemoryOptions(1), said={"B": {"punctuated": ("k",)}})
    epoch(running, [1], [])
    assert tiers(running) == {"disk"}
    assert epoch(running, promised=keys([1])).num_rows + epoch(running).num_rows == 1
    found = epoch(running, [1], []).num_rows + epoch(running).num_rows
    while running.is_missing:
        found += running.clean("asked", None).num_rows
    assert found + running.clean("final", None).num_rows == 1


def tiers(running):
    return {row["tier"] for row in state_table(running.manifest).to_pylist() if row["operator"] == "join1"}


def test_rows_that_do_not_count_any_more_are_not_told_as_state(tmp_path):
    running = query(tmp_path, options=MemoryOptions(60_000))
    for _ in range(3):
        epoch(running, range(1000), range(1000))
    assert running.is_missing, "what was spilled stays in the files of which other rows go"
    epoch(running, promised=keys(range(1000)))
    epoch(running)
    told = sum(row["rows"] for row in state_table(running.manifest).to_pylist() if row["operator"] == "join1")
    metrics = running.loop.history.get(running.manifest.batch)
    assert metrics.state_rows == metrics.operators[0].state_rows == told
    assert sum(run.rows for run in running.manifest.runs.values()) > told


def held(running):
    """The number of rows that each input holds."""
    found = {"A": 0, "B": 0}
    for part in running.manifest.operators["join1"].slices:
        run = running.manifest.runs[part.run]
        found[run.input] += run.rows_in(part.groups)
    return found


@pytest.mark.parametrize("how", ["right", "full"])
def test_rows_go_of_which_the_other_input_has_neither_a_row_nor_another_one_to_come(tmp_path, how):
    running = query(tmp_path, how, said={"B": {"punctuated": ("k",)}})
    found = epoch(running, range(10), [1, 2, 3]).num_rows
    assert found == 3
    found = epoch(running, promised=keys(range(10))).num_rows + epoch(running).num_rows
    assert found == (7 if how == "full" else 0)
    epoch(running)
    assert held(running) == {"A": 3, "B": 3}, "rows of B may be joined with others, and have had a match"
    assert epoch(running, [1, 5]).num_rows == (2 if how == "full" else 1)
    assert held(running) == {"A": 4, "B": 3}, "none of B is there that could ask for 5"
    running.loop.end_input()
    assert running.clean("final", None).num_rows == 0


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_rows_that_come_out_once_at_most_go_with_their_match(tmp_path, how):
    running = query(tmp_path, how, said={})
    for number in range(64):
        given = [*range(100), 1000 + number]
        assert epoch(running, given, range(100)).num_rows == (100 if how == "semi" else 0)
    assert held(running)["A"] <= 64 + 8 * 100
    found = epoch(running, [], [1000]).num_rows
    assert found == (how == "semi")
    running.loop.end_input()
    assert running.clean("final", None).num_rows == (63 if how == "anti" else 0)
