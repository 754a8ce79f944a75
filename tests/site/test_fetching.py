"""What is coming to a site is fetched in the background, once, and what fails is left to the task that needs it."""

import threading
import time

import pytest
from tests.state.test_parts import GROUPS, numbers, written

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.site import fetching
from watersmeet.site.fetching import fetch, fetch_ahead, fetch_together, missing_bytes
from watersmeet.state import parts
from watersmeet.state.groups import GroupSet
from watersmeet.state.parts import Wanted, part_bytes, part_path
from watersmeet.state.runs import open_groups, release_run
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

SOME = Wanted(GroupSet.of([3, 4]), GROUPS)
MOST = Wanted(GroupSet.of(range(1, GROUPS)), GROUPS)


class Slow(FsspecStorage):
    """Fetches when it is allowed to, and counts."""

    gate = threading.Event()
    tries: list[str] = []  # noqa: RUF012 -- of all

    def _read_ranges(self, path, ranges):
        self.tries.append(path)
        assert self.gate.wait(30)
        return super()._read_ranges(path, ranges)


@pytest.fixture
def storage(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "SAVED_LEAST", 0)
    Slow.gate.clear()
    Slow.tries.clear()
    yield Slow(f"file://{tmp_path}/state", str(tmp_path / "cache"))
    Slow.gate.set()


def wait_until(is_so):
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_task_does_not_wait_for_what_is_coming_and_tells_how_much_is_left(storage):
    run = written(storage, numbers())
    fetch_ahead(storage, [(run, SOME)])
    assert missing_bytes(storage, [(run, SOME)]) == part_bytes(run, SOME) > 0
    wait_until(lambda: storage.tries)
    for _ in range(3):
        fetch_ahead(storage, [(run, SOME)])  # tasks of the next steps
    storage.gate.set()
    wait_until(lambda: missing_bytes(storage, [(run, SOME)]) == 0)
    wait_until(lambda: not fetching._asked)  # noqa: SLF001
    fetched = len(storage.tries)
    assert storage.copied("") == [part_path(run, SOME)]
    open_groups(storage, run, SOME.groups, GROUPS)
    assert len(storage.tries) == fetched, "the task that takes over has all"


def test_most_of_a_run_comes_as_a_whole(storage):
    storage.gate.set()
    run = written(storage, numbers())
    fetch_ahead(storage, [(run, MOST)])
    wait_until(lambda: missing_bytes(storage, [(run, MOST)]) == 0)
    assert storage.copied("") == [run.path]


def test_what_a_task_needs_at_once_is_fetched_several_runs_at_a_time_and_once(storage):
    needed = [(written(storage, numbers(seed=number), number), SOME) for number in range(3)]
    together = threading.Thread(target=fetch_together, args=(storage, needed), daemon=True)
    together.start()
    wait_until(lambda: len(storage.tries) == 3)
    storage.gate.set()
    together.join(30)
    assert missing_bytes(storage, needed) == 0
    tried = len(storage.tries)
    fetch_together(storage, needed)
    for run, _ in needed:
        release_run(storage, run)
    fetch_together(storage, needed)
    assert len(storage.tries) == tried


def test_a_task_is_told_what_is_wrong_with_what_it_needs(storage):
    storage.gate.set()
    needed = [(written(storage, numbers(seed=number), number), SOME) for number in range(2)]
    storage.delete([run.path for run, _ in needed])
    fetch_together(storage, needed)
    with pytest.raises(CheckpointCorruptError, match="it is missing"):
        open_groups(storage, needed[0][0], SOME.groups, GROUPS)


def test_what_cannot_be_fetched_ahead_hinders_nothing(storage):
    storage.gate.set()
    lost, kept = written(storage, numbers()), written(storage, numbers(seed=2), 1)
    storage.delete([lost.path])
    fetch_ahead(storage, [(lost, SOME), (kept, SOME)])
    wait_until(lambda: missing_bytes(storage, [(kept, SOME)]) == 0)
    assert missing_bytes(storage, [(lost, SOME)]) > 0


def test_of_a_run_that_this_host_has_nothing_is_left(storage):
    run = written(storage, numbers())
    storage.local(run.path)
    assert missing_bytes(storage, [(run, SOME)]) == 0


def test_of_a_run_that_this_host_has_a_part_of_the_rest_is_left_and_fetched(storage):
    storage.gate.set()
    run, more = written(storage, numbers()), Wanted(GroupSet.of([4, 5]), GROUPS)
    open_groups(storage, run, SOME.groups, GROUPS)
    assert missing_bytes(storage, [(run, more)]) == part_bytes(run, more.only(GroupSet.of([5])))
    fetch_ahead(storage, [(run, more)])
    wait_until(lambda: missing_bytes(storage, [(run, more)]) == 0)
    tried = len(storage.tries)
    open_groups(storage, run, GroupSet.of([3, 4, 5]), GROUPS)
    assert len(storage.tries) == tried, "what is asked for before and after is in one part"


def test_what_lies_within_a_part_that_this_host_has_is_not_fetched(storage):
    storage.gate.set()
    run, fewer = written(storage, numbers()), Wanted(GroupSet.of([4]), GROUPS)
    open_groups(storage, run, SOME.groups, GROUPS)
    tried = len(storage.tries)
    assert missing_bytes(storage, [(run, fewer)]) == 0
    fetch_ahead(storage, [(run, fewer)])
    assert not fetching._asked  # noqa: SLF001
    release_run(storage, run)
    fetch(storage, (run, fewer))
    assert len(storage.tries) == tried


def test_only_remote_storage_has_anything_to_fetch(storage, tmp_path):
    assert storage.is_remote
    assert not LocalStorage(str(tmp_path)).is_remote
