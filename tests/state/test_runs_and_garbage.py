"""Runs are checked at both doors, and deleted only when no retained version names them."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from tests.support.states import JOIN, A, batch, empty_manifest, rows_of, written

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import RunId
from watersmeet.state import garbage, runs
from watersmeet.state.changes import AddRun, MergeRuns
from watersmeet.state.garbage import Collector
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import Bounds, RunFile
from watersmeet.state.rows import SortedRows, bytes_by_group
from watersmeet.state.runs import RunName, missing_runs, open_run, run_name, write_run
from watersmeet.state.stored import from_json, to_json
from watersmeet.state.versions import VersionStore
from watersmeet.storage.faulty import Fault, FaultyStorage
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

GROUPS = 8


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path), durable=False)


def run_of(storage, epoch, seed=0, count=20):
    return written(storage, run_name(epoch, 0, f"r{seed}"), rows_of(count, seed), GROUPS)


def test_a_run_is_read_as_it_was_written(storage):
    run = run_of(storage, 0)
    found = open_run(storage, run)
    assert found.rows.equals(rows_of(20).rows)
    assert found.hashes.tolist() == rows_of(20).hashes.tolist()
    assert run.rows == 20


def test_a_runs_entry_tells_the_rows_and_bytes_of_its_groups_and_nobody_has_to_look_into_the_file(storage):
    rows = rows_of(20)
    run = from_json(to_json(run_of(storage, 0)), RunFile)
    storage.delete([run.path])
    own = group_of(rows.hashes, GROUPS)
    assert set(run.groups) == set(own.tolist())
    assert run.group_rows.array.tolist() == [int((own == group).sum()) for group in run.groups]
    assert run.group_bytes.array.tolist() == [int(size) for size in bytes_by_group(rows, GROUPS)[1] if size]


def test_a_run_tells_least_and_most_of_its_bounded_columns_also_of_times(storage):
    at = pa.array([dt.datetime(2024, 1, n, tzinfo=dt.UTC) for n in (2, 1, 3)], pa.timestamp("us", "UTC"))
    columns = {"A.x": pa.array([3, None, 1]), "A.t": at, "A.n": pa.nulls(3, pa.int64()), "A.d": at.cast(pa.date32())}
    rows = SortedRows(np.arange(3, dtype=np.uint64), pa.record_batch(columns))
    run = write_run(storage, RunName(RunId("0-0-x"), JOIN, A, ("A.x", "A.t", "A.n", "A.d")), rows, GROUPS)
    day = 24 * 60 * 60 * 10**6
    first = 19723
    assert from_json(to_json(run), RunFile).bounds == {
        "A.x": Bounds(1, 3),
        "A.t": Bounds(first * day, (first + 2) * day),
        "A.n": Bounds(None, None),
        "A.d": Bounds(first, first + 2),
    }


def test_rows_without_columns_are_still_counted(storage):
    bare = SortedRows(np.array([1, 2, 3], np.uint64), pa.RecordBatch.from_arrays([], names=[]))
    run = written(storage, run_name(0, 0, "bare"), bare)
    assert len(open_run(storage, run)) == 3


def test_unsorted_rows_are_not_written(storage):
    with pytest.raises(CheckpointCorruptError, match="not sorted"):
        written(storage, "x", SortedRows(rows_of(9).hashes[::-1], rows_of(9).rows))
    assert storage.list("runs") == []


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data[:99] + b"!" + data[100:], lambda _: b""],
    ids=["cut", "changed", "empty"],
)
def test_a_damaged_run_is_refused_by_name(storage, damage):
    run = run_of(storage, 0)
    storage.create(run.path, damage(storage.read(run.path)))
    with pytest.raises(CheckpointCorruptError, match=run.id):
        open_run(storage, run)
    told = missing_runs(storage, [run])
    assert len(told) == (len(storage.read(run.path)) != run.bytes), "a size tells without the file being read"
    assert all(run.path in each for each in told)


def test_a_missing_run_is_refused_by_name(storage):
    run, other = run_of(storage, 0), run_of(storage, 1)
    storage.delete([run.path])
    with pytest.raises(CheckpointCorruptError, match=run.id):
        open_run(storage, run)
    assert missing_runs(storage, [run, other]) == [f"{run.path} is missing"]


def test_whether_runs_are_there_is_told_without_reading_or_copying_any(tmp_path):
    storage = FsspecStorage(f"file://{tmp_path}/state", cache=str(tmp_path / "copies"))
    run = run_of(storage, 0)
    storage.forget([run.path])
    assert missing_runs(FaultyStorage(storage, plan=(Fault("read"),)), [run]) == []
    assert not storage.copied("runs")


def test_a_process_keeps_no_more_runs_mapped_than_the_limit(storage, monkeypatch):
    monkeypatch.setattr(runs, "MAPPED_LIMIT", 2)
    for seed in range(4):
        open_run(storage, run_of(storage, 0, seed))
    assert len(runs._mapped) == 2  # noqa: SLF001


def test_bytes_by_group_add_up_to_the_bytes_of_the_rows():
    piece = rows_of(200)
    counts, sizes = bytes_by_group(piece, GROUPS)
    assert sum(counts) == 200
    assert piece.bytes <= sum(sizes) <= piece.bytes * 1.2


def begun(storage, retained=2):
    store = VersionStore(storage)
    first = empty_manifest(groups=GROUPS, sites=1)
    store.begin(first)
    collector = Collector(store, retained)
    collector.start()
    return store, first, collector


def test_what_a_retained_version_names_stays_and_the_rest_goes(storage):
    store, manifest, collector = begun(storage)
    made = [run_of(storage, epoch, seed=epoch) for epoch in range(3)]
    orphan = run_of(storage, 0, seed=99)
    merge = MergeRuns((made[0].id, made[1].id), GroupSet.all(GROUPS), made[2])
    named = []
    for number, each in enumerate([[AddRun(made[0])], [AddRun(made[1])], [merge], [], []]):
        manifest = store.commit(manifest, batch(number, *each))
        collector.committed(manifest)
        named.append([run.path in storage.list("runs") for run in made])
    assert named[2] == [True, True, True], "the version before the merge is retained"
    assert named[3] == [False, False, True]
    assert orphan.path in storage.list("runs"), "orphans are found by listing, at a start or now and then"
    Collector(store, retained=2).start()
    assert storage.list("runs") == [made[2].path]


def test_orphans_are_found_now_and_then_but_not_those_of_an_epoch_that_may_still_be_committed(storage, monkeypatch):
    monkeypatch.setattr(garbage, "LISTING_INTERVAL", 2)
    store, manifest, collector = begun(storage)
    old, late = run_of(storage, 0, seed=1), run_of(storage, 2, seed=2)
    found = []
    for number in range(4):
        manifest = store.commit(manifest, batch(number))
        collector.committed(manifest)
        found.append(storage.list("runs"))
    assert found == [[old.path, late.path], [late.path], [late.path], []]


def test_garbage_that_cannot_be_deleted_is_found_later(storage, monkeypatch, caplog):
    monkeypatch.setattr(garbage, "LISTING_INTERVAL", 4)
    store, manifest, _ = begun(storage)
    faulty = VersionStore(FaultyStorage(storage, plan=(Fault("delete", path="runs/*"),)))
    collector = Collector(faulty, retained=1)
    collector.start()
    runs_ = [run_of(storage, epoch, seed=epoch) for epoch in range(2)]
    merge = MergeRuns((runs_[0].id,), GroupSet.all(GROUPS), runs_[1])
    for number, each in enumerate([[AddRun(runs_[0])], [merge], [], []]):
        manifest = store.commit(manifest, batch(number, *each))
        collector.committed(manifest)
    assert "garbage of version 2 stays for now" in caplog.text
    assert storage.list("runs") == [runs_[1].path]
