"""File systems without exclusive creation: a writer that dies at any moment leaves no object, or a whole one."""

import os
import signal
import time
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from tests.support.file_systems import SCHEMES, Files, Renaming, hidden
from tests.support.processes import start

from watersmeet.model.errors import StorageError
from watersmeet.storage.exclusive import put_new
from watersmeet.storage.remote import FsspecStorage

HIDDEN = ["amid the hidden file", "after the hidden file"]
MOMENTS = {"renaming": HIDDEN, "moving": [*HIDDEN, "amid the object"], "plain": [*HIDDEN, "amid the object"]}
PATH, DATA = "manifest/1.json", b"0123456789" * 10

CREATE = """
import sys
from tests.support.file_systems import Files
from watersmeet.storage.remote import FsspecStorage
url, Files.deadly, path, data = sys.argv[1:]
FsspecStorage(url).create_new(path, data.encode())
"""


def killed(storage, moment, data=DATA):
    """A writer of the object is killed."""
    writer = start(CREATE, storage.url, moment, PATH, data.decode())
    writer.communicate(timeout=60)
    assert writer.returncode == -signal.SIGKILL


def storage_of(kind, folder):
    return FsspecStorage(f"{kind}://{folder}/root", str(folder / "cache"))


@pytest.fixture(params=SCHEMES)
def storage(request, tmp_path):
    return storage_of(request.param, tmp_path)


@pytest.fixture(params=["moving", "plain"])
def torn(request, tmp_path):
    """A storage with an object whose writer was killed in the middle of it."""
    storage = storage_of(request.param, tmp_path)
    killed(storage, "amid the object")
    assert (tmp_path / "root" / PATH).read_bytes() == DATA[:50]
    return storage


def is_absent(storage):
    for use in (storage.read, storage.local):
        with pytest.raises(FileNotFoundError):
            use(PATH)
    return storage.size(PATH) is None and storage.list("") == storage.list("manifest") == []


@pytest.mark.parametrize(("kind", "moment"), [(kind, moment) for kind in SCHEMES for moment in MOMENTS[kind]])
def test_what_a_killed_writer_has_not_finished_is_not_there_and_can_be_created(kind, moment, tmp_path):
    storage = storage_of(kind, tmp_path)
    killed(storage, moment)
    assert hidden(tmp_path)
    assert is_absent(storage)
    assert storage.create_new(PATH, b"other") is True
    assert storage.read(PATH) == storage.local(PATH).read_bytes() == b"other"
    assert storage.size(PATH) == 5
    assert storage.list("") == [PATH]
    assert storage.create_new(PATH, DATA) is False


@pytest.mark.parametrize(("kind", "moment"), [(kind, moment) for kind in SCHEMES for moment in MOMENTS[kind]])
def test_a_write_that_fails_is_told_and_can_be_repeated(kind, moment, tmp_path, monkeypatch):
    storage = storage_of(kind, tmp_path)
    monkeypatch.setattr(Files, "deadly", moment)
    monkeypatch.setattr(Files, "only_fails", True)
    with pytest.raises(StorageError, match="connection lost"):
        storage.create_new(PATH, DATA)
    monkeypatch.setattr(Files, "deadly", "never")
    assert is_absent(storage)
    assert storage.create_new(PATH, DATA) is True
    assert storage.read(PATH) == DATA
    assert hidden(tmp_path) == []


def test_a_part_of_an_object_is_cleared_away_by_who_creates_it_anew(torn, tmp_path):
    torn.create_new(PATH, b"other")
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("kind", ["moving", "plain"])
def test_an_object_that_is_whole_counts_though_its_writer_died_before_it_could_tidy_up(kind, tmp_path):
    storage = storage_of(kind, tmp_path)
    killed(storage, "after the object")
    assert hidden(tmp_path)
    assert storage.read(PATH) == storage.local(PATH).read_bytes() == DATA
    assert storage.size(PATH) == 100
    assert storage.list("") == [PATH]
    assert storage.create_new(PATH, b"other") is False
    storage.sweep(0)
    assert hidden(tmp_path) == []
    assert storage.read(PATH) == DATA


def test_a_sweep_removes_a_part_of_an_object_and_its_twin_or_neither(torn, tmp_path):
    torn.sweep(3600)
    assert hidden(tmp_path)
    assert is_absent(torn)
    torn.sweep(0)
    assert [path for path in (tmp_path / "root").rglob("*") if path.is_file()] == []


def test_a_part_of_an_object_is_as_old_as_its_twin(tmp_path):
    storage = storage_of("moving", tmp_path)
    killed(storage, "amid the object")
    (twin,) = hidden(tmp_path)
    os.utime(twin, (time.time() - 7200,) * 2)
    storage.sweep(3600)
    assert [path for path in (tmp_path / "root").rglob("*") if path.is_file()] == []


def test_a_part_of_an_object_stays_unfinished_when_a_sweep_is_killed_or_fails(torn, tmp_path, monkeypatch):
    removed = []

    def fail_second(_, path):
        if removed:
            raise OSError("gone away")
        removed.append(path)
        os.remove(path)  # noqa: PTH107

    monkeypatch.setattr(Files, "rm_file", fail_second)
    with pytest.raises(StorageError):
        torn.sweep(0)
    assert removed == [f"{tmp_path}/root/{PATH}"]
    assert is_absent(torn)


def test_what_another_writer_left_behind_does_not_make_an_object_unfinished(storage, tmp_path):
    storage.create_new(PATH, DATA)
    for left in (b"a longer one" * 20, b"", b"short", DATA[:50]):
        (tmp_path / f"root/manifest/.1.json-{'0' * 32}.tmp").write_bytes(left)
        assert storage.read(PATH) == DATA
        assert storage.list("") == [PATH]
        assert storage.size(PATH) == 100
        assert storage.create_new(PATH, b"other") is False


def test_a_writer_that_comes_second_leaves_nothing(storage, tmp_path):
    storage.create_new(PATH, DATA)
    storage.create_new(PATH, b"other")
    assert hidden(tmp_path) == []


def test_a_committed_object_that_is_damaged_counts(storage, tmp_path):
    storage.create_new(PATH, DATA)
    (tmp_path / "root" / PATH).write_bytes(DATA[:7])
    assert storage.read(PATH) == DATA[:7]
    assert storage.list("") == [PATH]


def test_an_object_that_is_finished_while_it_is_read_is_read_again(torn, tmp_path, monkeypatch):
    read = Files.cat_file

    def finished_after(fs, path, **options):
        data = read(fs, path, **options)
        monkeypatch.setattr(Files, "cat_file", read)
        (tmp_path / "root" / PATH).write_bytes(DATA)
        hidden(tmp_path)[0].unlink()
        return data

    monkeypatch.setattr(Files, "cat_file", finished_after)
    assert torn.read(PATH) == DATA


@pytest.mark.parametrize("other", [DATA, None], ids=["finished", "cleared away"])
def test_a_twin_that_vanishes_while_it_is_looked_at_was_finished_or_cleared_away(torn, other, tmp_path, monkeypatch):
    (twin,) = hidden(tmp_path)
    target, look = tmp_path / "root" / PATH, Files.find

    def found(fs, path, **options):
        files = look(fs, path, **options)
        target.write_bytes(other) if other else target.unlink()
        twin.unlink()
        return files

    monkeypatch.setattr(Files, "find", found)
    assert torn.list("") == ([PATH] if other else [])


# --- renames ---


class Answering(Renaming):
    """Refuses to rename over a file in its answer only, as webhdfs does."""

    def mv(self, path1, path2, **_):
        if not self.exists(path2):
            os.rename(path1, path2)  # noqa: PTH104


class Refusing(Renaming):
    """Refuses with the system's number alone, as smb does."""

    def mv(self, path1, path2, **_):
        raise OSError(17, f"{path1} {path2}") from None


@pytest.mark.parametrize("kind", [Answering, Refusing])
def test_a_rename_that_was_refused_is_a_lost_race(kind, tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"first")
    monkeypatch.setattr(kind, "exists", late := Late())
    assert put_new(kind(), f"{tmp_path}/x", b"second") is False
    assert late.asked > 0
    assert (tmp_path / "x").read_bytes() == b"first"
    assert hidden(tmp_path) == []


class Late:
    """Tells of a file only when it is asked a second time: it has just come."""

    asked = 0

    def __get__(self, fs, _):
        def exists(path, **_):
            self.asked += 1
            return self.asked > 1 and os.path.exists(path)  # noqa: PTH110

        return exists


# --- cost ---


class Counting(Files):
    """A conditional put, as of s3, and a record of all requests."""

    protocol = ("counting", "s3")
    requests: ClassVar[list[str]] = []

    def pipe_file(self, path, value, mode="overwrite", **_):
        self.requests.append("put")
        with open(path, "xb" if mode == "create" else "wb") as file:  # noqa: PTH123
            file.write(value)

    def cat_file(self, path, **_):
        self.requests.append("get")
        return super().cat_file(path)

    def info(self, path, **_):
        self.requests.append("head")
        return super().info(path)

    def find(self, path, **_):
        self.requests.append("list")
        return [str(file) for file in Path(path).rglob("*") if file.is_file()]


def test_where_objects_are_put_whole_nothing_takes_one_request_more(tmp_path):
    fsspec.register_implementation("counting", Counting, clobber=True)
    storage = storage_of("counting", tmp_path)
    (tmp_path / "root/manifest").mkdir(parents=True)
    Counting.requests.clear()
    assert storage.create_new(PATH, DATA)
    assert storage.read(PATH) == DATA
    assert storage.size(PATH) == 100
    assert storage.list("") == [PATH]
    assert Counting.requests == ["put", "get", "head", "list"]
