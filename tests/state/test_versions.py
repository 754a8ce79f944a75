"""Versions are changes, created once, by one driver; whichever is read is what all changes up to it make."""

import random
import tempfile
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.examples import examples
from tests.support.histories import History
from tests.support.states import JOIN, batch, empty_manifest, run_file

from watersmeet.model.errors import CheckpointCorruptError, CheckpointInUseError, CheckpointMismatchError, StorageError
from watersmeet.state import stored, versions
from watersmeet.state.applying import apply_all
from watersmeet.state.changes import AddRun, FinishAdaptation, KeepStatistics, MergeRuns
from watersmeet.state.garbage import Collector
from watersmeet.state.manifest import FORMAT
from watersmeet.state.stored import seal, unseal
from watersmeet.state.vectors import Vector
from watersmeet.state.versions import SNAPSHOT_LEAST, SNAPSHOT_MOST, VersionFile, VersionStore, path_of
from watersmeet.storage.faulty import Fault, FaultyStorage
from watersmeet.storage.local import LocalStorage

FIRST = empty_manifest()


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path), durable=False)


def begun(storage, first=FIRST):
    store = VersionStore(storage)
    store.begin(first)
    return store


def stored_file(storage, version):
    return unseal(storage.read(path_of(version)), VersionFile, "")


def grown(store, manifest, count, *, bulk=0):
    """So many more versions, each with a run, and with statistics that weigh."""
    for _ in range(count):
        extra = [KeepStatistics(JOIN, {"x": Vector.of(range(manifest.version, manifest.version + bulk))})] * bool(bulk)
        manifest = store.commit(manifest, batch(manifest.version, AddRun(run_file(f"r{manifest.version}", 0)), *extra))
    return manifest


def snapshots(storage, last):
    return [version for version in range(last + 1) if stored_file(storage, version).snapshot is not None]


def test_the_last_version_is_read_back_as_it_was(storage):
    assert VersionStore(storage).latest() is None
    store = begun(storage)
    last = grown(store, FIRST, 12)
    assert VersionStore(storage).latest() == store.latest() == last
    assert store.versions() == list(range(13))


def test_a_version_is_its_changes(storage):
    changes = batch(0, AddRun(run_file("x", 0, 3)))
    begun(storage).commit(FIRST, changes)
    assert stored_file(storage, 0) == VersionFile(0, (), FIRST)
    assert stored_file(storage, 1) == VersionFile(1, tuple(changes))


def test_changes_that_do_not_make_the_next_version_are_refused(storage):
    store = begun(storage)
    for changes in ([AddRun(run_file("x", 0))], [FinishAdaptation(), FinishAdaptation()]):
        with pytest.raises(ValueError, match="changes lead from version 0 to"):
            store.commit(FIRST, changes)
    assert store.versions() == [0]


def test_a_small_change_of_a_large_state_takes_few_bytes(storage):
    large = apply_all(FIRST, batch(0, *(AddRun(run_file(f"old{number}", 0)) for number in range(2000))))
    store = begun(storage, large)
    last = grown(store, large, SNAPSHOT_MOST)
    sizes = [len(storage.read(path_of(version))) for version in store.versions()]
    assert sizes[0] > 500_000
    assert max(sizes[1:-1]) < 2_000
    assert [v for v in store.versions() if stored_file(storage, v).snapshot is not None] == [1, last.version]


def test_snapshots_come_when_changes_weigh_as_much_as_the_last_one(storage):
    last = grown(begun(storage), FIRST, 40, bulk=300)
    found = snapshots(storage, last.version)
    assert found[:2] == [0, SNAPSHOT_LEAST]
    sizes = [len(storage.read(path_of(version))) for version in range(last.version + 1)]
    for before, after in pairwise(found[1:]):
        assert SNAPSHOT_LEAST <= after - before <= SNAPSHOT_MOST
        due = after - before == SNAPSHOT_LEAST or sum(sizes[before + 1 : after - 1]) < sizes[before]
        assert due, "it was due earlier"
        assert sum(sizes[before + 1 : after]) >= sizes[before]


def test_a_driver_that_goes_on_takes_snapshots_as_the_first_would_have(storage):
    store, manifest = begun(storage), FIRST
    for _ in range(SNAPSHOT_LEAST):
        manifest = grown(store, manifest, 1, bulk=300)
        store = VersionStore(storage)
        assert store.latest() == manifest
    assert snapshots(storage, manifest.version) == [0, SNAPSHOT_LEAST]


def test_looking_at_an_older_version_does_not_put_off_the_next_snapshot(storage):
    store = begun(storage)
    manifest = grown(store, FIRST, SNAPSHOT_LEAST + 3, bulk=300)
    due = (store.snapshot, store.snapshot_bytes, store.changes_bytes)
    assert store.read(2).version == 2
    assert (store.snapshot, store.snapshot_bytes, store.changes_bytes) == due
    assert due[0] == SNAPSHOT_LEAST
    assert manifest == store.latest()


@given(
    seed=st.integers(0, 2**32),
    retained=st.integers(1, 6),
    least=st.integers(1, 4),
    more=st.integers(0, 5),
    length=st.integers(1, 30),
)
@settings(max_examples=examples(25), deadline=None)
def test_whatever_is_read_is_what_all_changes_make_and_what_it_needs_is_never_garbage(
    seed, retained, least, more, length
):
    chance, most = random.Random(seed), least + more
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        patch.setattr(versions, "SNAPSHOT_LEAST", least)
        patch.setattr(versions, "SNAPSHOT_MOST", most)
        storage, history = LocalStorage(folder, durable=False), History(seed)
        store, made = begun(storage), [FIRST]
        collector = started(store, retained)
        for _ in range(length):
            changes = history.changes(made[-1])
            for change in changes:
                if isinstance(change, AddRun | MergeRuns):
                    storage.create(change.run.path, b"")
            made.append(store.commit(made[-1], changes))
            collector.committed(made[-1])
            if chance.random() < 0.2:
                check_stored(storage, made, retained, most)
                store = VersionStore(storage)
                assert store.latest() == made[-1]
                collector = started(store, retained)
        check_stored(storage, made, retained, most)


def started(store, retained):
    collector = Collector(store, retained)
    collector.start()
    return collector


def check_stored(storage, made, retained, most):
    kept, store = made[-retained:], VersionStore(storage)
    assert store.latest() == made[-1]
    assert store.recent(retained)[1] == kept
    assert store.recent(retained)[0] <= kept[0].version
    assert [store.read(each.version) for each in kept] == kept
    named = {run.path for each in kept for run in each.runs.values()}
    found = set(storage.list("runs"))
    assert named <= found
    assert len(found) <= len(named) + 3 * retained
    assert len(storage.list("manifest")) <= 2 * (retained + most)


def test_versions_of_two_drivers_that_are_alike_are_told_apart(storage):
    first, second = VersionStore(storage, "a"), VersionStore(storage, "b")
    first.begin(FIRST)
    assert second.latest() == FIRST
    changes = batch(0)
    first.commit(FIRST, changes)
    with pytest.raises(CheckpointInUseError, match=r"version 1 of .* was committed by another driver"):
        second.commit(FIRST, changes)
    assert stored_file(storage, 1).writer == "a"


def test_a_version_of_another_driver_fences_this_one_off(storage):
    VersionStore(storage).begin(empty_manifest(query_id="first"))
    with pytest.raises(CheckpointInUseError, match="another driver"):
        VersionStore(storage).begin(empty_manifest(query_id="second"))
    assert VersionStore(storage).latest() == empty_manifest(query_id="first")


def test_a_commit_that_landed_but_was_reported_failed_is_a_commit(storage):
    faulty = FaultyStorage(storage, plan=(Fault("create_new", landed=True),))
    VersionStore(faulty).begin(FIRST)
    assert VersionStore(storage).latest() == FIRST


def test_a_commit_that_failed_is_none_and_can_be_made_again(storage):
    begun(storage)
    store = VersionStore(FaultyStorage(storage, plan=(Fault("create_new"),)))
    assert store.latest() == FIRST
    with pytest.raises(StorageError):
        store.commit(FIRST, batch(0))
    assert VersionStore(storage).latest() == FIRST
    assert store.commit(FIRST, batch(0)) == VersionStore(storage).latest()


DAMAGES = {
    "cut": lambda data: data[:-9],
    "changed": lambda data: data.replace(b"join1", b"join2").replace(b"r5", b"r6"),
    "empty": lambda _: b"",
    "reversed": lambda data: data[::-1],
    "without its envelope": lambda _: b"{}",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("version", [0, 1, 5, 7])
def test_damage_in_what_the_last_version_is_made_of_is_refused_by_name(storage, damage, version):
    grown(begun(storage), FIRST, 7)
    storage.create(path_of(version), damage(storage.read(path_of(version))))
    refused = CheckpointMismatchError if damage(b"") == b"{}" else CheckpointCorruptError
    with pytest.raises(refused, match=f"{version:012d}.json"):
        VersionStore(storage).latest()


@pytest.mark.parametrize("version", [0, 3, 6])
def test_a_version_that_is_missing_in_what_the_last_one_is_made_of_is_refused(storage, version):
    grown(begun(storage), FIRST, 7)
    storage.delete([path_of(version)])
    with pytest.raises(CheckpointCorruptError, match=rf"{version:012d}\.json is damaged: it is missing"):
        VersionStore(storage).latest()


def test_versions_without_any_snapshot_are_refused(storage):
    storage.create(path_of(0), seal(VersionFile(0, tuple(batch(0)))))
    with pytest.raises(CheckpointCorruptError, match="no snapshot"):
        VersionStore(storage).latest()


@pytest.mark.parametrize("gone", [True, False], ids=["missing", "damaged"])
@pytest.mark.parametrize("version", [0, 5, SNAPSHOT_LEAST - 1])
def test_what_lies_before_the_last_snapshot_may_be_damaged(storage, gone, version):
    store = begun(storage)
    last = grown(store, FIRST, SNAPSHOT_LEAST + 2, bulk=300)
    assert store.snapshot == SNAPSHOT_LEAST
    storage.delete([path_of(version)]) if gone else storage.create(path_of(version), b"x")
    again = VersionStore(storage)
    assert again.latest() == last
    first, recent = again.recent(6)
    assert recent[-1] == last
    assert [each.version for each in recent] == list(range(recent[0].version, last.version + 1))
    assert recent[0].version > version or first > version
    Collector(again, retained=6).start()
    assert VersionStore(storage).latest() == last


def test_a_store_that_has_read_nothing_yet_tells_which_versions_the_last_one_needs(storage):
    last = grown(begun(storage), FIRST, SNAPSHOT_LEAST, bulk=300)
    storage.delete([path_of(SNAPSHOT_LEAST - 1)])
    assert VersionStore(storage).recent(4) == (SNAPSHOT_LEAST, [last])


def test_another_format_is_refused_with_what_to_do(storage, monkeypatch):
    monkeypatch.setattr(stored, "FORMAT", FORMAT + 1)
    begun(storage)
    monkeypatch.undo()
    with pytest.raises(CheckpointMismatchError, match="use the version that wrote it, or a newer one"):
        VersionStore(storage).latest()
    monkeypatch.setattr(stored, "FORMAT", 1)
    storage.create(path_of(0), seal(VersionFile(0, snapshot=replace(FIRST))))
    monkeypatch.undo()
    with pytest.raises(CheckpointMismatchError, match=r"format 1.*finish the query with the version that wrote it"):
        VersionStore(storage).latest()
