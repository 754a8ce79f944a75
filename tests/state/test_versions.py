"""Versions are created once, by one driver, and read back as they were."""

import pytest

from watersmeet.model.errors import CheckpointCorruptError, CheckpointInUseError, CheckpointMismatchError, StorageError
from watersmeet.model.ids import OperatorId, Version
from watersmeet.state import versions
from watersmeet.state.manifest import Manifest, OperatorState
from watersmeet.state.versions import VersionStore
from watersmeet.storage.faulty import Fault, FaultyStorage
from watersmeet.storage.local import LocalStorage


def manifest(version=0, sites=2, query="q"):
    return Manifest(
        query, {"a": 1}, 4, sites, {OperatorId("join1"): OperatorState((0, 0, 1, 1))}, version=Version(version)
    )


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path))


def test_the_last_version_is_read_back_as_it_was(storage):
    store = VersionStore(storage)
    assert store.latest() is None
    for version in range(12):
        store.commit(manifest(version))
    assert store.latest() == manifest(11)
    assert store.versions() == list(range(12))


def test_a_version_of_another_driver_fences_this_one_off(storage):
    VersionStore(storage).commit(manifest(query="first"))
    with pytest.raises(CheckpointInUseError, match="another driver"):
        VersionStore(storage).commit(manifest(query="second"))
    assert VersionStore(storage).latest() == manifest(query="first")


def test_a_commit_that_landed_but_was_reported_failed_is_a_commit(storage):
    faulty = FaultyStorage(storage, plan=(Fault("create_new", landed=True),))
    VersionStore(faulty).commit(manifest())
    assert VersionStore(storage).latest() == manifest()


def test_a_commit_that_failed_is_none(storage):
    faulty = FaultyStorage(storage, plan=(Fault("create_new"),))
    with pytest.raises(StorageError):
        VersionStore(faulty).commit(manifest())
    assert VersionStore(storage).latest() is None


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-9], lambda data: data.replace(b"join1", b"join2"), lambda _: b"", lambda data: data[::-1]],
    ids=["cut", "changed", "empty", "reversed"],
)
def test_a_damaged_manifest_is_refused(storage, damage):
    storage.create(versions.path_of(0), damage(versions.encode(manifest())))
    with pytest.raises(CheckpointCorruptError, match=r"000000000000\.json"):
        VersionStore(storage).latest()


def test_a_newer_format_is_refused(storage):
    newer = Manifest("q", {}, 1, 1, {}, format=versions.FORMAT + 1)
    storage.create(versions.path_of(0), versions.encode(newer))
    with pytest.raises(CheckpointMismatchError, match="newer"):
        VersionStore(storage).latest()
