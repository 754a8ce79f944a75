"""Copies of remote objects on a host: only what is mapped, for all processes, until nobody needs them."""

import os
import shutil
import signal
import time
import uuid
from pathlib import Path
from unittest.mock import Mock

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.support.processes import start

from watersmeet.model.errors import StorageFullError
from watersmeet.storage import copies
from watersmeet.storage.base import Part
from watersmeet.storage.copies import MARK, SWEEP_INTERVAL_S, UNUSED_S
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

RUN = "runs/join1/A/000000000001-0-a.arrow"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def storage(tmp_path, cache):
    return FsspecStorage(f"file://{tmp_path}/state", str(cache))


@pytest.fixture
def other(tmp_path, cache):
    """Another checkpoint, with a copy on this host."""
    other = FsspecStorage(f"file://{tmp_path}/other", str(cache))
    other.create(RUN, b"other")
    return other


def unused_for(storage: FsspecStorage, seconds: float) -> None:
    mark = storage.local(RUN).parents[3] / MARK
    os.utime(mark, (time.time() - seconds,) * 2)


def test_the_writer_keeps_a_copy_of_what_is_mapped_and_of_nothing_else(storage):
    for path in (RUN, "effects/d/000000000001-0-0-a.json", "events/000000000001.json", "probe"):
        storage.create(path, b"x")
    storage.create_new("manifest/000000000001.json", b"x")
    assert storage.copied("") == storage.copied("runs/join1") == [RUN]


def test_an_object_that_is_replaced_has_no_copy_of_what_it_was(storage):
    storage.create("x", b"first")
    assert storage.local("x").read_bytes() == b"first"
    storage.create("x", b"second")
    assert storage.local("x").read_bytes() == b"second"


COPY_AND_DIE = """
import os, signal, sys
from watersmeet.storage.remote import FsspecStorage
storage = FsspecStorage(*sys.argv[1:])
storage.create("runs/join1/A/written.arrow", b"x")
storage.local("runs/join1/A/read.arrow")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_copies_of_a_process_that_died_are_known_to_the_next_and_can_be_dropped(storage):
    storage.create("runs/join1/A/read.arrow", b"x")
    storage.forget(storage.copied(""))
    assert storage.copied("") == []
    dead = start(COPY_AND_DIE, storage.url, storage.cache)
    dead.communicate(timeout=60)
    assert dead.returncode == -signal.SIGKILL
    assert storage.copied("runs") == ["runs/join1/A/read.arrow", "runs/join1/A/written.arrow"]
    storage.forget(storage.copied("runs"))
    assert storage.copied("") == []
    assert len(storage.list("runs")) == 2


def test_copies_of_a_checkpoint_that_was_not_used_for_a_week_are_removed_by_who_adds_the_next(storage, other, cache):
    unused_for(other, UNUSED_S + 60)
    storage.create(RUN, b"mine")
    assert other.copied("") == []
    assert storage.copied("") == [RUN]
    assert len(list(cache.iterdir())) == 1
    assert other.local(RUN).read_bytes() == b"other"


def test_copies_that_were_used_within_a_week_stay(storage, other):
    unused_for(other, UNUSED_S - 60)
    storage.create(RUN, b"mine")
    storage.sweep(0)
    assert other.copied("") == [RUN]


@pytest.mark.parametrize(
    "use",
    [
        lambda storage: storage.copied("runs"),
        lambda storage: storage.create("y.arrow", b"y"),
        lambda storage: storage.forget([RUN]) or storage.local(RUN),
    ],
    ids=["looking", "writing", "downloading"],
)
def test_copies_are_in_use_when_they_are_looked_at_added_or_downloaded(storage, other, use):
    unused_for(other, UNUSED_S + 60)
    use(other)
    storage.sweep(3600)
    assert other.copied("")


def test_copies_of_a_checkpoint_that_is_gone_are_removed_by_a_sweep(storage, other, tmp_path):
    storage.create(RUN, b"mine")
    shutil.rmtree(tmp_path / "other")
    storage.sweep(3600)
    assert other.copied("") == []
    assert storage.copied("") == [RUN]


def test_a_checkpoint_on_another_file_system_is_not_looked_at(storage, cache):
    memory = FsspecStorage(f"memory://{uuid.uuid4().hex}", str(cache))
    memory.create(RUN, b"x")
    fsspec.filesystem("memory").rm(memory.url, recursive=True)
    storage.sweep(3600)
    assert memory.copied("") == [RUN]


def test_a_checkpoint_that_cannot_be_looked_at_is_not_taken_for_gone(cache, monkeypatch):
    mine, other = (FsspecStorage(f"memory://{uuid.uuid4().hex}", str(cache)) for _ in range(2))
    other.create(RUN, b"x")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(MemoryFileSystem, "info", refused)
    mine.sweep(3600)
    assert other.copied("") == [RUN]


def test_what_others_keep_in_the_same_place_is_not_touched(storage, cache):
    theirs = [cache / "photos/1.jpg", cache / ("0" * 16) / MARK, cache / ("1" * 16) / "file", cache / MARK]
    for file in theirs:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("file:///of/somebody/else")
        os.utime(file, (0, 0))
    storage.create(RUN, b"mine")
    storage.sweep(0)
    assert all(file.exists() for file in theirs)


def test_unfinished_copies_of_a_process_that_died_are_removed_by_who_adds_the_next(storage, monkeypatch):
    storage.create(RUN, b"x")
    left, fresh = (storage.local(RUN).with_name(f".y-{name}.tmp") for name in "12")
    for file in (left, fresh):
        file.touch()
    os.utime(left, (time.time() - SWEEP_INTERVAL_S - 60,) * 2)
    monkeypatch.setattr(copies, "_swept_at", {})  # as in a new process
    storage.create("y.arrow", b"y")
    assert not left.exists()
    assert fresh.exists()


def test_a_process_looks_for_leftovers_once_an_hour(storage, other, monkeypatch):
    storage.create(RUN, b"x")
    unused_for(other, UNUSED_S + 60)
    storage.create("y.arrow", b"y")
    assert other.copied("") == [RUN]
    unused_for(other, UNUSED_S + 60)
    later = time.monotonic() + SWEEP_INTERVAL_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    storage.create("z.arrow", b"z")
    assert other.copied("") == []


def test_a_copy_that_is_dropped_while_it_is_asked_for_can_be_asked_for_again(storage, monkeypatch):
    storage.create(RUN, b"x")
    replace = Path.replace

    def dropped(self, target):
        replace(self, target)
        Path(target).unlink()

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dropped)
        storage.forget([RUN])
        assert not storage.local(RUN).exists()
    assert storage.local(RUN).read_bytes() == b"x"


def test_a_part_that_is_dropped_as_soon_as_it_is_made_can_be_asked_for_again(storage, monkeypatch):
    part, replace = Part("runs/join1/A/000000000001-0-a~12.arrow", b"x"), Path.replace

    def dropped(self, target):
        replace(self, target)
        Path(target).unlink()

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dropped)
        with pytest.raises(FileNotFoundError, match="~12"):
            storage.part(RUN, lambda _: part)
    assert storage.part(RUN, lambda _: part).read_bytes() == b"x"


def test_a_part_that_cannot_be_kept_is_none(storage, monkeypatch):
    monkeypatch.setattr(LocalStorage, "create", Mock(side_effect=StorageFullError("no", why="room", how="make some")))
    assert storage.part(RUN, lambda _: Part("runs/join1/A/000000000001-0-a~12.arrow", b"x")) is None
