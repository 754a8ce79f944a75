"""A driver killed while it commits leaves the version before; what was committed and is damaged is refused."""

import signal

import pytest
from tests.support.file_systems import SCHEMES, hidden
from tests.support.processes import start

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import OperatorId, Version
from watersmeet.state.manifest import Manifest, OperatorState
from watersmeet.state.versions import VersionStore
from watersmeet.storage.remote import FsspecStorage

COMMIT = """
import sys
from tests.state.test_torn_commits import manifest
from tests.support.file_systems import Files
from watersmeet.state.versions import VersionStore
from watersmeet.storage.remote import FsspecStorage
url, Files.deadly, version = sys.argv[1:]
VersionStore(FsspecStorage(url)).commit(manifest(int(version)))
"""


def manifest(version):
    return Manifest("q", {}, 4, 1, {OperatorId("join1"): OperatorState((0,) * 4)}, version=Version(version))


def store_of(kind, folder):
    store = VersionStore(FsspecStorage(f"{kind}://{folder}/state", str(folder / "cache")))
    for version in range(3):
        store.commit(manifest(version))
    return store


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("renaming", "amid the hidden file"),
        ("renaming", "after the hidden file"),
        ("moving", "amid the object"),
        ("plain", "amid the object"),
    ],
)
def test_a_version_whose_driver_was_killed_while_it_committed_is_passed_over(kind, moment, tmp_path):
    store = store_of(kind, tmp_path)
    driver = start(COMMIT, store.storage.url, moment, 3)
    driver.communicate(timeout=60)
    assert driver.returncode == -signal.SIGKILL
    assert hidden(tmp_path)
    assert store.latest() == manifest(2)
    store.commit(manifest(3))
    assert store.latest() == manifest(3)
    store.commit(manifest(4))
    assert store.versions() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data.replace(b"join1", b"join2")], ids=["cut", "changed"]
)
def test_a_committed_version_that_is_damaged_is_refused(kind, damage, tmp_path):
    store = store_of(kind, tmp_path)
    last = max((tmp_path / "state/manifest").iterdir())
    last.write_bytes(damage(last.read_bytes()))
    with pytest.raises(CheckpointCorruptError, match=last.name):
        store.latest()
