"""Runs are checked at both doors, and deleted only when no retained version names them."""

import numpy as np
import pyarrow as pa
import pytest
from watersmeet.state.ledger import Ledger

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import BatchId, InputName, OperatorId, RunId
from watersmeet.state import runs
from watersmeet.state.changes import AddRun, FinishBatch, MergeRuns, apply_all
from watersmeet.state.garbage import Collector
from watersmeet.state.manifest import LIVE, Manifest, OperatorState, Slice
from watersmeet.state.rows import SortedRows, bytes_by_group, sort_rows
from watersmeet.state.runs import open_run, run_name, verify_run, write_run
from watersmeet.state.versions import VersionStore
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

JOIN, A = OperatorId("join1"), InputName("A")


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path), durable=False)


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, 2**64, count, dtype=np.uint64)
    return sort_rows(
        hashes, pa.record_batch({"A.x": rng.integers(0, 9, count), "A.s": [f"s{n}" for n in range(count)]})
    )


def written(storage, epoch, seed=0, count=20):
    return write_run(storage, RunId(run_name(epoch, 0, f"r{seed}")), JOIN, A, rows(count, seed), 8)


def test_a_run_is_read_as_it_was_written(storage):
    run = written(storage, 0)
    found = open_run(storage, run)
    assert found.rows.equals(rows(20).rows)
    assert found.hashes.tolist() == rows(20).hashes.tolist()
    assert run.rows == 20


def test_rows_without_columns_are_still_counted(storage):
    bare = SortedRows(np.array([1, 2, 3], np.uint64), pa.RecordBatch.from_arrays([], names=[]))
    run = write_run(storage, RunId(run_name(0, 0, "bare")), JOIN, A, bare, 8)
    assert len(open_run(storage, run)) == 3


def test_unsorted_rows_are_not_written(storage):
    with pytest.raises(CheckpointCorruptError, match="not sorted"):
        write_run(storage, RunId("x"), JOIN, A, SortedRows(rows(9).hashes[::-1], rows(9).rows), 8)
    assert storage.list("runs") == []


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data[:99] + b"!" + data[100:], lambda _: b""],
    ids=["cut", "changed", "empty"],
)
def test_a_damaged_run_is_refused_by_name(storage, damage):
    run = written(storage, 0)
    storage.create(run.path, damage(storage.read(run.path)))
    for check in (verify_run, open_run):
        with pytest.raises(CheckpointCorruptError, match=run.id):
            check(storage, run)


def test_a_missing_run_is_refused_by_name(storage):
    run = written(storage, 0)
    storage.delete([run.path])
    for check in (verify_run, open_run):
        with pytest.raises(CheckpointCorruptError, match=run.id):
            check(storage, run)


def test_a_process_keeps_no_more_runs_mapped_than_the_limit(storage, monkeypatch):
    monkeypatch.setattr(runs, "MAPPED_LIMIT", 2)
    for seed in range(4):
        open_run(storage, written(storage, 0, seed))
    assert len(runs._mapped) == 2  # noqa: SLF001


def test_bytes_by_group_add_up_to_the_bytes_of_the_rows():
    piece = rows(200)
    counts, sizes = bytes_by_group(piece, 8)
    assert sum(counts) == 200
    assert piece.bytes <= sum(sizes) <= piece.bytes * 1.2


def test_what_a_retained_version_names_stays_and_the_rest_goes(storage):
    store = VersionStore(storage)
    manifest = Manifest("q", {}, 8, 1, {JOIN: OperatorState((0,) * 8)})
    store.commit(manifest)
    collector = Collector(store, retained=2)
    collector.start()
    made = [written(storage, epoch, seed=epoch) for epoch in range(3)]
    orphan = written(storage, 0, seed=99)
    changes = [[AddRun(made[0])], [AddRun(made[1])], [MergeRuns((made[0].id, made[1].id), ((0, 8),), made[2])], [], []]
    named = []
    for batch, each in enumerate(changes):
        manifest = apply_all(manifest, [*each, FinishBatch(BatchId(batch))])
        store.commit(manifest)
        collector.committed(manifest)
        named.append([run.path in storage.list("runs") for run in made])
    assert named[2] == [True, True, True], "the version before the merge is retained"
    assert named[3] == [False, False, True]
    assert len(store.versions()) == 2
    assert orphan.path in storage.list("runs"), "orphans are found by listing, at a start or now and then"
    Collector(store, retained=2).start()
    assert storage.list("runs") == [made[2].path]


@pytest.mark.parametrize(("tier", "kept"), [("memory", True), ("disk", False)])
def test_a_spilled_run_that_was_copied_to_be_measured_does_not_stay_on_this_host(tmp_path, tier, kept):
    storage = FsspecStorage(f"file://{tmp_path}/state", cache=str(tmp_path / "copies"))
    run = written(storage, 0)
    storage.forget([run.path])
    part = Slice(run.id, run.groups, LIVE if tier == "memory" else 3, tier)
    manifest = Manifest("q", {}, 8, 1, {JOIN: OperatorState((0,) * 8, (part,))}, runs={run.id: run})
    assert Ledger(storage, 8).slice_bytes(manifest, part, range(8)) > 0
    assert bool(storage.copied("runs")) == kept
