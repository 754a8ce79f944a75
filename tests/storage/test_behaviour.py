"""What every back end must do: the promises of ``watersmeet.storage.base``."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.storage.base import Part
from watersmeet.storage.open import open_storage

BIG = bytes(range(256)) * 12_000


@pytest.mark.parametrize("data", [b"", b"x", BIG, memoryview(b"abc")[1:]], ids=["empty", "a byte", "big", "a view"])
def test_an_object_is_read_back_whole(storage, data):
    storage.create("runs/join1/x.arrow", data)
    assert storage.read("runs/join1/x.arrow") == bytes(data)
    assert storage.size("runs/join1/x.arrow") == len(data)
    assert storage.local("runs/join1/x.arrow").read_bytes() == bytes(data)


def test_creating_an_object_again_replaces_it(storage):
    storage.create("x", b"a longer first one")
    storage.create("x", b"second")
    assert storage.read("x") == storage.local("x").read_bytes() == b"second"


def test_only_the_first_create_new_of_a_path_puts_the_object(storage):
    assert storage.create_new("manifest/1.json", b"first") is True
    assert storage.create_new("manifest/1.json", b"second") is False
    assert storage.read("manifest/1.json") == b"first"
    assert storage.list("") == ["manifest/1.json"]


def test_create_new_yields_to_an_object_made_by_create(storage):
    storage.create("x", b"first")
    assert storage.create_new("x", b"second") is False
    assert storage.read("x") == b"first"


def test_a_deleted_object_can_be_created_new(storage):
    storage.create_new("x", b"first")
    storage.delete(["x"])
    assert storage.create_new("x", b"second") is True
    assert storage.read("x") == b"second"


def test_of_many_threads_that_create_an_object_new_one_wins(exclusive_storage):
    storage = exclusive_storage
    for number in range(20):
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda me, path=f"m/{number}": storage.create_new(path, b"%d" % me), range(8)))
        assert won.count(True) == 1
        assert storage.read(f"m/{number}") == b"%d" % won.index(True)


def test_reading_what_is_not_there_says_so(storage):
    with pytest.raises(FileNotFoundError):
        storage.read("runs/none")
    with pytest.raises(FileNotFoundError):
        storage.local("runs/none")
    assert storage.size("runs/none") is None


def test_a_folder_is_not_an_object(storage):
    storage.create("runs/x", b"x")
    assert storage.size("runs") is None
    with pytest.raises(FileNotFoundError):
        storage.local("runs")


def test_nothing_lies_below_an_object(storage):
    storage.create("runs/x", b"x")
    assert storage.size("runs/x/y") is None


def test_a_list_names_all_objects_below_a_folder_sorted(storage):
    for path in ["runs/b/2", "runs/a/1", "runs/b/1", "runs/c", "runner/d", "manifest/1"]:
        storage.create(path, b"x")
    assert storage.list("runs") == storage.list("runs/") == ["runs/a/1", "runs/b/1", "runs/b/2", "runs/c"]
    assert storage.list("run") == []
    assert storage.list("") == ["manifest/1", "runner/d", "runs/a/1", "runs/b/1", "runs/b/2", "runs/c"]


def test_a_list_of_a_storage_that_does_not_exist_yet_is_empty(storage):
    assert storage.list("") == []
    assert storage.list("runs/join1") == []


def test_deleting_passes_over_what_is_not_there(storage):
    for path in ["a", "b/1", "b/2", "c"]:
        storage.create(path, b"x")
    storage.delete(["none", "a", "b/none", "b/2"])
    storage.delete(path for path in ["a", "none"])
    storage.delete([])
    assert storage.list("") == ["b/1", "c"]


def test_a_deleted_object_has_no_local_file_either(storage):
    storage.create("x", b"x")
    storage.local("x")
    storage.delete(["x"])
    with pytest.raises(FileNotFoundError):
        storage.local("x")


def test_a_mapped_object_stays_readable_after_it_was_deleted(storage):
    storage.create("x", BIG)
    mapped = pa.memory_map(str(storage.local("x")))
    storage.delete(["x"])
    assert mapped.read() == BIG


def test_a_forgotten_object_is_still_there(storage):
    storage.create("x", b"x")
    storage.local("x")
    storage.forget(["x", "none"])
    assert storage.read("x") == storage.local("x").read_bytes() == b"x"


def test_only_remote_storage_has_copies_and_all_of_them_can_be_forgotten(storage):
    for path in ("runs/a/1.arrow", "runs/b/1.arrow", "effects/1.json"):
        storage.create(path, b"x")
    for path in storage.list("effects"):
        storage.local(path)
    is_local = storage.local("runs/a/1.arrow").is_relative_to(storage.url.partition("://")[2])
    assert storage.copied("runs/a") == ([] if is_local else ["runs/a/1.arrow"])
    assert storage.copied("") == ([] if is_local else storage.list(""))
    storage.forget(storage.copied(""))
    assert storage.copied("") == storage.copied("none") == []
    assert len(storage.list("")) == 3


def test_a_local_file_does_not_move(storage):
    storage.create("runs/x", b"x")
    assert storage.local("runs/x") == storage.local("runs/x")
    assert isinstance(storage.local("runs/x"), Path)


def test_a_storage_travels_to_another_process(storage):
    storage.create("x", b"x")
    copy = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own bytes
    assert copy == storage
    assert copy.read("x") == b"x"
    assert len(pickle.dumps(storage)) < 1_000


def test_a_url_opens_the_same_place(storage):
    storage.create("runs/x", b"x")
    assert open_storage(storage.url).read("runs/x") == b"x"


def test_a_sweep_leaves_all_objects(storage):
    storage.create("runs/x", b"x")
    storage.sweep(0)
    assert storage.read("runs/x") == b"x"


BAD_PATHS = [
    "",
    "/x",
    "../x",
    "a/../x",
    "a//x",
    "a/",
    ".hidden",
    "a/.hidden",
    "a*",
    "a[1]",
    "a{b}",
    "a b",
    "a\\b",
    "a\n",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_back_ends_treat_differently_is_refused(storage, path):
    for use in [storage.read, storage.size, storage.local, lambda path: storage.create(path, b"x")]:
        with pytest.raises(ValueError, match="no path of an object"):
            use(path)


def test_a_part_is_made_of_ranges_of_an_object_that_is_not_at_hand(storage):
    path, name = "runs/join1/x.arrow", "runs/join1/x~1.arrow"
    storage.create(path, BIG)
    storage.forget([path])

    def make(read):
        return Part(name, b"".join(read([(1, 4), (1000, 1001), (len(BIG) - 2, len(BIG))])))

    file = storage.part(path, make)
    if not storage.is_remote:
        assert file is None, "the object is"
        return
    assert file.read_bytes() == BIG[1:4] + BIG[1000:1001] + BIG[-2:]
    assert storage.copied("") == [name]
    assert storage.list("") == [path], "a part is a copy, and no object"
    assert storage.part(path, lambda _: Part(name)) == file, "it was made before"
    storage.local(path)
    assert storage.part(path, lambda _: pytest.fail("the object is at hand")) is None
    storage.forget([name])
    assert storage.copied("") == [path]


def test_a_part_that_cannot_be_made_is_none(storage):
    storage.create("x.arrow", b"abc")
    storage.forget(["x.arrow"])
    assert storage.part("x.arrow", lambda _: None) is None
    assert storage.copied("") == []


def test_a_part_that_was_dropped_before_it_is_shown_is_told_from_one_that_cannot_be_made(storage):
    storage.create("x.arrow", b"abc")
    storage.forget(["x.arrow"])
    if storage.is_remote:
        with pytest.raises(FileNotFoundError, match="x~1"):
            storage.part("x.arrow", lambda _: Part("x~1.arrow"))
