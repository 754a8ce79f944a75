"""Of all drivers that open a checkpoint, the last one owns it, on every storage, and the others are told the truth."""

import os
import pickle
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.file_systems import SCHEMES
from tests.support.processes import start

from watersmeet.model.errors import CheckpointInUseError, StorageError
from watersmeet.state import owner
from watersmeet.state.owner import Owner, path_of, take
from watersmeet.storage.faulty import Fault, FaultyStorage
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage


def opened(kind, folder):
    if kind == "local":
        return LocalStorage(str(folder / "root"), durable=False)
    place = uuid.uuid4().hex if kind == "memory" else f"{folder}/root"
    return FsspecStorage(f"{kind}://{place}", str(folder / "cache"))


@pytest.fixture(params=["local", "file", "memory", *SCHEMES])
def storage(request, tmp_path):
    return opened(request.param, tmp_path)


@pytest.fixture(params=["local", "file", "memory"])
def exclusive_storage(request, tmp_path):
    return opened(request.param, tmp_path)


@pytest.fixture
def local(tmp_path):
    return opened("local", tmp_path)


def owns(ownership):
    try:
        ownership.check()
    except CheckpointInUseError:
        return False
    return True


def test_the_driver_that_came_last_owns_the_checkpoint(storage):
    taken = [take(storage, f"driver-{number}") for number in range(5)]
    assert [each.number for each in taken] == [1, 2, 3, 4, 5]
    assert [owns(each) for each in taken] == [False, False, False, False, True]


def test_of_drivers_that_race_each_has_a_number_of_its_own_and_only_the_last_one_owns(exclusive_storage):
    for _ in range(5):
        with ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(lambda me: take(exclusive_storage, f"driver-{me}"), range(8)))
        numbers = [each.number for each in taken]
        assert len(set(numbers)) == 8
        assert [each.number for each in taken if owns(each)] == [max(numbers)]


def test_of_drivers_that_race_on_storage_that_fails_each_has_a_number_of_its_own(local):
    """A try that failed and did nothing is repeated, as a driver that is started again would."""
    faulty = FaultyStorage(local, seed=5, rate=0.15, landed_rate=0.25)

    def insist(me):
        for _ in range(1000):
            try:
                return take(faulty, f"driver-{me}")
            except StorageError:
                pass
        raise AssertionError(me)

    with ThreadPoolExecutor(6) as pool:
        taken = list(pool.map(insist, range(30)))
    assert len({each.number for each in taken}) == 30
    sound = [owner.Ownership(local, each.number) for each in taken]
    assert sum(map(owns, sound)) <= 1


TAKE = """
import sys
from watersmeet.state.owner import take
from watersmeet.storage.local import LocalStorage
print(*(take(LocalStorage(sys.argv[1]), "d").number for _ in range(20)))
"""


def test_of_processes_that_race_each_has_numbers_of_its_own(tmp_path):
    racers = [start(TAKE, tmp_path) for _ in range(3)]
    numbers = [int(each) for racer in racers for each in racer.communicate(timeout=60)[0].split()]
    assert len(set(numbers)) == 60


def test_only_the_last_two_marks_are_kept(storage):
    for number in range(5):
        take(storage, f"driver-{number}")
    assert storage.list("") == [path_of(4), path_of(5)]


def test_a_number_that_was_deleted_is_not_had_again(local, monkeypatch):
    """Between a driver's listing and its mark, others come, and delete what it has looked for."""
    listed = owner._numbers  # noqa: SLF001

    def overtaken(storage):
        monkeypatch.setattr(owner, "_numbers", listed)
        before = listed(storage)
        earlier.extend(take(storage, "other") for _ in range(4))
        return before

    earlier = []
    monkeypatch.setattr(owner, "_numbers", overtaken)
    late = take(local, "late")
    assert [each.number for each in earlier] == [1, 2, 3, 4]
    assert late.number == 5
    assert owns(late)


def test_a_mark_that_landed_but_was_reported_failed_is_owned(local):
    faulty = FaultyStorage(local, plan=(Fault("create_new", landed=True),))
    taken = take(faulty, "me")
    assert taken.number == 1
    assert owns(taken)


def test_a_mark_that_did_not_land_is_an_error_and_nobody_is_fenced_off(local):
    before = take(local, "before")
    with pytest.raises(StorageError, match="create_new"):
        take(FaultyStorage(local, plan=(Fault("create_new"),)), "me")
    assert owns(before)


def test_a_failure_while_another_was_quicker_is_a_lost_race(local, monkeypatch):
    faulty = FaultyStorage(local, plan=(Fault("create_new"),))
    listed = owner._numbers  # noqa: SLF001

    def overtaken(storage):
        monkeypatch.setattr(owner, "_numbers", listed)
        before = listed(storage)
        take(local, "other")
        return before

    monkeypatch.setattr(owner, "_numbers", overtaken)
    assert take(faulty, "me").number == 2


def test_old_marks_that_cannot_be_deleted_do_no_harm(local):
    faulty = FaultyStorage(local, rate=1.0, operations=frozenset({"delete"}))
    taken = [take(faulty, f"driver-{number}") for number in range(4)]
    assert [owns(each) for each in taken] == [False, False, False, True]
    take(local, "next")
    assert local.list("") == [path_of(4), path_of(5)]


def test_the_message_says_who_took_over_and_claims_nothing_of_its_results(local):
    former = take(local, "a1")
    take(local, "b2")
    with pytest.raises(CheckpointInUseError) as caught:
        former.check()
    text = str(caught.value)
    assert f"driver b2 (process {os.getpid()} on {socket.gethostname()}) opened it later" in text
    assert "stopped before it gave more rows to the sink" in text
    assert "stop the other and start this one again" in text
    assert "complete" not in text


@pytest.mark.parametrize("operation", ["read", "cut"])
def test_a_successor_that_cannot_be_read_fences_off_as_well(local, operation):
    former = take(local, "a1")
    take(local, "b2")
    if operation == "cut":
        local.create(path_of(2), b"{")
    storage = FaultyStorage(local, plan=(Fault("read"),)) if operation == "read" else local
    with pytest.raises(CheckpointInUseError, match="another driver opened it later"):
        owner.Ownership(storage, former.number).check()


def test_a_driver_whose_mark_was_removed_does_not_own_the_checkpoint(local):
    first = take(local, "a1")
    local.delete([path_of(1)])
    with pytest.raises(CheckpointInUseError, match=r"its mark owners/000000000001\.json was removed"):
        first.check()


def test_a_check_that_cannot_be_made_is_an_error_of_storage(local):
    taken = take(local, "me")
    with pytest.raises(StorageError):
        owner.Ownership(FaultyStorage(local, plan=(Fault("list"),)), taken.number).check()


def test_a_check_is_one_listing(local):
    class Counted(FaultyStorage):
        def _try(self, operation, path, do):
            asked.append(operation)
            return super()._try(operation, path, do)

    asked = []
    taken = take(Counted(local), "me")
    asked.clear()
    taken.check()
    assert asked == ["list"]


def test_nobody_tries_for_ever(local, monkeypatch):
    monkeypatch.setattr(owner, "TRIES_MAX", 3)
    monkeypatch.setattr(owner, "_lands", lambda *_: False)
    with pytest.raises(CheckpointInUseError, match="3 tries"):
        take(local, "me")


def test_an_ownership_travels_and_other_files_do_not_matter(local):
    local.create("owners/notes.txt", b"")
    taken = pickle.loads(pickle.dumps(take(local, "me")))  # noqa: S301 - our own bytes
    taken.check()
    assert Owner.here("me") != Owner.here("me")
