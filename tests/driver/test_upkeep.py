"""Cleanup beside the epochs, and a query that is stopped meanwhile; the loop is a stand-in."""

import threading
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from tests.support.states import empty_manifest

from watersmeet.driver.upkeep import Upkeep
from watersmeet.model.errors import StoppedError
from watersmeet.model.ids import Version


@dataclass
class Checkpoint:
    has_all_batches: bool = True


@dataclass
class Stepper:
    checkpoint: Checkpoint


class Loop:
    """Has some groups to clean, one at a step; may be stopped while a step waits for its turn."""

    def __init__(self, missing, stopped_at=None, *, has_all_batches=True):
        self.missing, self.stopped_at = missing, stopped_at
        self.stopping = threading.Event()
        self.revived = False
        self.asked = []
        self.last_end_s, self.last_was_cleanup = 0.0, True
        self.stepper = Stepper(Checkpoint(has_all_batches))

    manifest = replace(empty_manifest(), version=Version(7))

    def may_clean(self):
        return True

    def missing_groups(self):
        return self.missing

    def clean(self, moment, operators=(), closed_by=None):
        self.asked.append((moment, operators, closed_by))
        if self.missing == self.stopped_at:
            self.stopping.set()
        if self.stopping.is_set() or not self.missing:
            return False
        self.missing -= 1
        return True

    def revive(self):
        self.revived = True


def upkeep(loop, *, rests=True):
    return Upkeep(loop, lambda: rests, threading.Event())


def test_all_that_is_missing_is_cleaned_when_asked_for():
    loop = Loop(missing=3)
    upkeep(loop).on_demand()
    assert (loop.missing, loop.revived) == (0, True)
    assert set(loop.asked) == {("asked", ("join1",), 7)}, "what is spilled meanwhile is not waited for"


def test_at_the_end_all_that_is_missing_is_cleaned_in_large_steps():
    loop = Loop(missing=3)
    upkeep(loop).at_end()
    assert (loop.missing, loop.revived) == (0, True)
    assert set(loop.asked) == {("end", ("join1",), None), ("final", (), None)}


def test_a_query_that_was_told_to_stop_before_all_input_was_joined_is_not_cleaned_at_its_end():
    loop = Loop(missing=3, has_all_batches=False)
    upkeep(loop).at_end()
    assert (loop.missing, loop.revived) == (3, False)


@pytest.mark.parametrize(("rests", "left"), [(True, 0), (False, 3)])
def test_when_input_rests_all_that_is_missing_is_cleaned_and_not_while_it_comes(rests, left):
    loop = Loop(missing=3)
    kept = upkeep(loop, rests=rests)
    watch = threading.Thread(target=kept.when_idle, args=(pytest.fail,))
    watch.start()
    threading.Event().wait(0.7)
    kept.ended.set()
    watch.join(10)
    assert not watch.is_alive()
    assert loop.missing == left
    assert set(loop.asked) == ({("drain", (), None), ("idle", (), None)} if rests else set())


def test_who_waits_for_all_that_came_waits_for_parked_groups_and_for_nothing_else():
    loop = Loop(missing=3)
    upkeep(loop).drain()
    assert (loop.missing, set(loop.asked)) == (0, {("drain", (), None)})
    ended = upkeep(Loop(missing=3))
    ended.ended.set()
    ended.drain()
    assert ended.loop.missing == 3


@pytest.mark.parametrize("left", [3, 1])
def test_who_asked_is_told_that_results_are_missing_if_it_is_stopped_while_a_step_waits_for_its_turn(left):
    loop = Loop(missing=3, stopped_at=left)
    with pytest.raises(StoppedError, match="stopped before its cleanup was complete"):
        upkeep(loop).on_demand()
    assert loop.missing == left


def test_a_query_that_ends_while_cleanup_waits_for_its_turn_has_not_failed():
    loop, failures = Loop(missing=3), []

    def over(*_):
        raise StoppedError("this run of the query has ended", why="it was stopped", how="start it again")

    loop.clean = over
    upkeep(loop).when_idle(failures.append)
    assert failures == []


def test_a_step_that_fails_ends_the_query():
    loop, failures = Loop(missing=3), []

    def fail(*_):
        raise OSError("the disk is gone")

    loop.clean = fail
    upkeep(loop).when_idle(failures.append)
    assert [str(each) for each in failures] == ["the disk is gone"]
