"""What files add: one winner among processes, whole files whoever dies, and full disks."""

import os
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from tests.support.processes import start

from watersmeet.model.errors import StorageError, StorageFullError
from watersmeet.storage.failures import reported
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

RACE = """
import pathlib, sys, time
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage
kind, root, me, paths = sys.argv[1:]
storage = LocalStorage(root + "/s") if kind == "local" else FsspecStorage(f"file://{root}/s", root + "/cache")
pathlib.Path(root, "ready-" + me).touch()
while not pathlib.Path(root, "go").exists():
    time.sleep(0.001)
print(*(n for n in range(int(paths)) if storage.create_new(f"manifest/{n}", me.encode() * 50_000)))
"""


@pytest.mark.parametrize("kind", ["local", "fsspec"])
def test_of_many_processes_that_create_an_object_new_one_wins(kind, tmp_path):
    racers, paths = 6, 60
    processes = [start(RACE, kind, tmp_path, me, paths) for me in range(racers)]
    while len(list(tmp_path.glob("ready-*"))) < racers:
        time.sleep(0.01)
    (tmp_path / "go").touch()
    won = {me: process.communicate(timeout=60)[0].split() for me, process in enumerate(processes)}
    storage = LocalStorage(str(tmp_path / "s"))
    assert sorted(int(path) for wins in won.values() for path in wins) == list(range(paths))
    assert all(storage.read(f"manifest/{path}") == b"%d" % me * 50_000 for me, wins in won.items() for path in wins)
    assert storage.list("") == sorted(f"manifest/{path}" for path in range(paths))


WRITE_FOR_EVER = """
import itertools, sys
from watersmeet.storage.local import LocalStorage
storage, data = LocalStorage(sys.argv[1]), b"x" * int(sys.argv[2])
for number in itertools.count():
    getattr(storage, ("create", "create_new")[number % 2])(f"runs/{sys.argv[3]}-{number}", data)
"""


def test_a_writer_killed_at_any_moment_shows_no_part_of_its_file(tmp_path):
    storage, size = LocalStorage(str(tmp_path)), 24_000_000
    for attempt in range(8):
        writer = start(WRITE_FOR_EVER, tmp_path, size, attempt)
        try:
            watch(writer, storage, size, seconds=0.015 * attempt)
        finally:
            writer.kill()
            writer.communicate(timeout=60)
        assert all(len(storage.read(path)) == size for path in storage.list(""))
        storage.delete(storage.list(""))
    left_behind = temporaries(tmp_path)
    assert left_behind, "no writer was caught in the middle"
    storage.sweep(3600)
    assert temporaries(tmp_path) == left_behind
    storage.sweep(0)
    assert temporaries(tmp_path) == []


def watch(writer: subprocess.Popen[str], storage: LocalStorage, size: int, seconds: float) -> None:
    """Look on while it writes, for some time from its first temporary file on: all that shows is whole."""
    before, end = set(temporaries(Path(storage.root))), None
    while end is None or time.monotonic() < end:
        assert writer.poll() is None, "the writer ended by itself"
        assert all(storage.size(path) == size for path in storage.list(""))
        if end is None and set(temporaries(Path(storage.root))) - before:
            end = time.monotonic() + seconds
        time.sleep(0.0005)


def temporaries(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".*.tmp"))


WRITE_TOO_MUCH = """
import resource, sys
from watersmeet.model.errors import StorageFullError
from watersmeet.storage.local import LocalStorage
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
storage = LocalStorage(sys.argv[1])
for write in (storage.create, storage.create_new):
    try:
        write("runs/" + write.__name__, b"y" * 2_000_000)
    except StorageFullError as error:
        print(error)
storage.create("runs/small", b"z")
"""


def test_a_write_that_finds_no_room_leaves_everything_as_it_was(tmp_path):
    storage = LocalStorage(str(tmp_path))
    storage.create("runs/create", b"old")
    errors = start(WRITE_TOO_MUCH, tmp_path).communicate(timeout=60)[0].splitlines()
    assert [error.split(":")[0] for error in errors] == [
        f"[StorageFullError] could not write {tmp_path}/runs/create",
        f"[StorageFullError] could not write {tmp_path}/runs/create_new",
    ]
    assert storage.list("") == ["runs/create", "runs/small"]
    assert storage.read("runs/create") == b"old"
    assert temporaries(tmp_path) == []


def test_a_device_without_space_is_reported_as_full(tmp_path, monkeypatch):
    """The temporary file's name is known beforehand and leads to a device that is always full."""
    name = uuid.UUID(int=7)
    monkeypatch.setattr(uuid, "uuid4", lambda: name)
    (tmp_path / f".x-{name.hex}.tmp").symlink_to("/dev/full")
    storage = LocalStorage(str(tmp_path))
    with pytest.raises(StorageFullError, match=r"No space left on device\. To fix it, free some space"):
        storage.create("x", b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_cache_without_space_does_not_fail_a_remote_write(tmp_path):
    (tmp_path / "cache").write_bytes(b"a file where the cache should be")
    storage = FsspecStorage(f"memory://{tmp_path.name}-{uuid.uuid4().hex}", str(tmp_path / "cache"))
    storage.create("x", b"x")
    assert storage.read("x") == b"x"


def test_a_place_that_cannot_be_written_is_reported_with_its_path(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=rf"could not write {tmp_path}/file/runs/x: Not a directory"):
        LocalStorage(str(tmp_path / "file")).create("runs/x", b"x")


def test_a_folder_that_cannot_be_read_is_reported(tmp_path, monkeypatch):
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StorageError, match=rf"could not list {tmp_path}/runs: Permission denied"):
        LocalStorage(str(tmp_path)).list("runs")


def test_a_relative_root_stays_the_same_place_when_the_process_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage = LocalStorage("ck")
    storage.create("x", b"x")
    monkeypatch.chdir("/")
    assert storage.read("x") == b"x"


def test_errors_of_ours_and_those_let_pass_are_not_wrapped():
    for error in [StorageFullError("mine"), FileNotFoundError("let pass")]:
        with pytest.raises(type(error)) as raised, reported("read", "x", passing=(FileNotFoundError,)):
            raise error
        assert raised.value is error
