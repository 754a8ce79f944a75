"""A driver killed while it commits leaves the version before; what was committed and is damaged is refused."""

import signal

import pytest
from tests.support.file_systems import SCHEMES, hidden
from tests.support.processes import start
from tests.support.states import batch, empty_manifest, run_file

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.state.changes import AddRun
from watersmeet.state.versions import VersionStore
from watersmeet.storage.remote import FsspecStorage

COMMIT = """
import sys
from tests.state.test_torn_commits import grown
from tests.support.file_systems import Files
from watersmeet.state.versions import VersionStore
from watersmeet.storage.remote import FsspecStorage
url, Files.deadly = sys.argv[1:]
store = VersionStore(FsspecStorage(url))
grown(store, store.latest())
"""


def grown(store, manifest):
    """One version more."""
    return store.commit(manifest, batch(manifest.version, AddRun(run_file(f"r{manifest.version}", 0))))


def store_of(kind, folder):
    store = VersionStore(FsspecStorage(f"{kind}://{folder}/state", str(folder / "cache")))
    store.begin(empty_manifest())
    return store, grown(store, grown(store, empty_manifest()))


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
    store, last = store_of(kind, tmp_path)
    driver = start(COMMIT, store.storage.url, moment)
    driver.communicate(timeout=60)
    assert driver.returncode == -signal.SIGKILL
    assert hidden(tmp_path)
    assert store.latest() == last
    last = grown(store, last)
    assert store.latest() == last
    grown(store, last)
    assert store.versions() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data.replace(b"join1", b"join2")], ids=["cut", "changed"]
)
def test_a_committed_version_that_is_damaged_is_refused(kind, damage, tmp_path):
    store, _ = store_of(kind, tmp_path)
    last = max((tmp_path / "state/manifest").iterdir())
    last.write_bytes(damage(last.read_bytes()))
    with pytest.raises(CheckpointCorruptError, match=last.name):
        store.latest()
