"""What remote storages add: copies on this host, and what an exclusive create is worth where."""

import errno
import logging
import os
import stat
import tempfile
import uuid
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from watersmeet.model.errors import StorageError, StorageFullError
from watersmeet.storage.exclusive import Exclusion, exclusion, put_new
from watersmeet.storage.remote import FsspecStorage


@pytest.fixture
def storage(tmp_path):
    return FsspecStorage(f"memory://{uuid.uuid4().hex}/root", str(tmp_path / "cache"))


def fail(*_: object, **__: object) -> None:
    raise AssertionError("called")


def test_the_writers_host_needs_no_download(storage, monkeypatch):
    storage.create("runs/x.arrow", b"content")
    monkeypatch.setattr(MemoryFileSystem, "get_file", fail)
    assert storage.local("runs/x.arrow").read_bytes() == b"content"


def test_another_host_downloads_once(storage, tmp_path, monkeypatch):
    storage.create("runs/x", b"content")
    elsewhere = FsspecStorage(storage.url, str(tmp_path / "elsewhere"))
    copy = elsewhere.local("runs/x")
    assert copy.read_bytes() == b"content"
    assert copy.is_relative_to(tmp_path / "elsewhere")
    monkeypatch.setattr(MemoryFileSystem, "get_file", fail)
    monkeypatch.setattr(MemoryFileSystem, "info", fail)
    assert elsewhere.local("runs/x") == copy


def test_a_download_that_was_cut_off_is_not_kept(storage, monkeypatch):
    storage.create("runs/x", b"content")
    storage.forget(["runs/x"])
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "get_file", lambda _fs, _path, file: Path(file).write_bytes(b"con"))
        with pytest.raises(StorageError, match="has 3 bytes of 7: the download was cut off"):
            storage.local("runs/x")
    assert storage.local("runs/x").read_bytes() == b"content"


def test_storages_of_different_urls_share_a_cache_but_no_copies(storage):
    other = FsspecStorage(storage.url + "-other", storage.cache)
    storage.create("x", b"one")
    other.create("x", b"other")
    assert [storage.local("x").read_bytes(), other.local("x").read_bytes()] == [b"one", b"other"]


def test_without_a_cache_copies_go_to_a_folder_of_the_user_alone(storage, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    storage = FsspecStorage(storage.url)
    storage.create("x", b"x")
    folder = tmp_path / f"watersmeet-{os.getuid()}"
    assert storage.local("x").is_relative_to(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_cache_that_belongs_to_another_user_is_refused(storage, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "watersmeet-1234").mkdir()
    owner = (tmp_path / "watersmeet-1234").stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    with pytest.raises(StorageError, match=f"belongs to user {owner}"):
        FsspecStorage(storage.url).local("x")


def test_temporary_files_of_writers_that_died_are_swept(tmp_path):
    storage = FsspecStorage(f"file://{tmp_path}/root", str(tmp_path / "cache"))
    storage.create("runs/x", b"x")
    left = tmp_path / "root/runs/.y-1.tmp"
    left.touch()
    assert storage.list("") == ["runs/x"]
    storage.sweep(3600)
    assert left.exists()
    storage.sweep(0)
    assert not left.exists()


def test_a_failed_write_leaves_nothing_and_is_told_with_its_url(tmp_path, monkeypatch):
    storage = FsspecStorage(f"file://{tmp_path}/root", str(tmp_path / "cache"))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LocalFileSystem, "mv", full)
    with pytest.raises(StorageFullError, match=rf"could not write file://{tmp_path}/root/x: No space left"):
        storage.create("x", b"x")
    assert list((tmp_path / "root").iterdir()) == []


def test_what_a_library_raises_is_told_as_a_storage_error(storage, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("connection reset.\nmore")

    monkeypatch.setattr(MemoryFileSystem, "cat_file", broken)
    with pytest.raises(StorageError, match=r"could not read .*/x: RuntimeError, connection reset\. To fix it"):
        storage.read("x")


def test_a_root_with_the_letters_of_a_pattern_deletes_only_what_is_meant(tmp_path):
    storage = FsspecStorage(f"file://{tmp_path}/r[ab]", str(tmp_path / "cache"))
    (tmp_path / "ra").mkdir()
    (tmp_path / "ra/x").touch()
    storage.create("x", b"x")
    storage.delete(["x"])
    assert (tmp_path / "ra/x").exists()
    assert storage.list("") == []


# --- exclusive create ---


class Service(MemoryFileSystem):
    """A store of its own, under a name that is known to put conditionally."""

    protocol = "s3"
    cachable = False
    store: dict[str, object] = {}  # noqa: RUF012 - as the base class has it


class Refusal(Exception):  # noqa: N818 - as a service's library raises
    response = {"Error": {"Code": "PreconditionFailed"}}  # noqa: RUF012


class Refusing(Service):
    def pipe_file(self, path, value, mode="overwrite", **_):  # noqa: ARG002
        raise OSError(errno.EINVAL, "precondition") from Refusal()


class Old(Service):
    """Takes ``mode`` among other options and overwrites, as versions before 2025 do."""

    def pipe_file(self, path, value, **_):
        super().pipe_file(path, value)


class Modeless(Service):
    protocol = "other"

    def _open(self, path, mode="rb", **kwargs):
        if "x" in mode:
            raise ValueError(mode)
        return super()._open(path, mode, **kwargs)


@pytest.fixture(autouse=True)
def _empty_service():
    Service.store.clear()


@pytest.mark.parametrize(
    ("fs", "promise"),
    [
        (fsspec.filesystem("file"), Exclusion.WHOLE),
        (fsspec.filesystem("memory"), Exclusion.WHOLE),
        (Service(), Exclusion.WHOLE),
        (Old(), Exclusion.CHECKED),
        (Modeless(), Exclusion.CHECKED),
    ],
    ids=["file", "memory", "service", "old", "modeless"],
)
def test_the_promise_is_as_strong_as_the_file_system(fs, promise):
    assert exclusion(fs) is promise


@pytest.mark.parametrize("kind", [Service, Old, Modeless])
def test_no_way_of_creating_overwrites_what_is_there(kind):
    assert put_new(kind(), "/b/x", b"first") is True
    assert put_new(kind(), "/b/x", b"second") is False
    assert kind().cat_file("/b/x") == b"first"


def test_a_refused_condition_deep_in_an_error_is_a_lost_race():
    assert put_new(Refusing(), "/b/x", b"x") is False


def test_any_other_error_of_a_conditional_put_is_raised(monkeypatch):
    monkeypatch.setattr(Refusal, "response", {"Error": {"Code": "SlowDown"}})
    with pytest.raises(OSError, match="precondition"):
        put_new(Refusing(), "/b/x", b"x")


def test_a_file_system_without_exclusive_create_is_warned_of_once(caplog, tmp_path):
    fsspec.register_implementation("modeless", Modeless, clobber=True)
    storage = FsspecStorage(f"modeless://{uuid.uuid4().hex}", str(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert [storage.create_new("x", b"1"), storage.create_new("x", b"2")] == [True, False]
    assert storage.exclusion is Exclusion.CHECKED
    assert [record.getMessage() for record in caplog.records] == [
        f"{storage.url} has no exclusive create: run only one driver at a time on this checkpoint"
    ]
