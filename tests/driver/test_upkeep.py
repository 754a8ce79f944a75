"""Cleanup beside the epochs, and a query that is stopped meanwhile; the loop is a stand-in."""

import threading

import pytest

import watersmeet as wm
from watersmeet.driver.upkeep import Upkeep
from watersmeet.model.errors import StoppedError


class Loop:
    """Has some groups to clean, one at a step; may be stopped while a step waits for its turn."""

    def __init__(self, missing, stopped_at=None):
        self.missing, self.stopped_at = missing, stopped_at
        self.stopping = threading.Event()
        self.revived = False
        self.last_end_s, self.last_was_cleaning = 0.0, True

    manifest = type("Manifest", (), {"version": 7})()

    def may_clean(self):
        return True

    def missing_groups(self):
        return self.missing

    def clean(self, _, closed_by=None):
        assert closed_by in {None, 7}
        if self.missing == self.stopped_at:
            self.stopping.set()
        if self.stopping.is_set() or not self.missing:
            return False
        self.missing -= 1
        return True

    def revive(self):
        self.revived = True


class Paused:
    status = {"isTriggerActive": False, "isDataAvailable": False}  # noqa: RUF012


class OneLevel:
    levels = [["join"]]  # noqa: RUF012
    operators = ["join"]  # noqa: RUF012


def upkeep(loop):
    return Upkeep(OneLevel(), loop, Paused(), threading.Event())


def test_all_that_is_missing_is_cleaned_when_asked_for():
    loop = Loop(missing=3)
    upkeep(loop).on_demand()
    assert (loop.missing, loop.revived) == (0, True)


@pytest.mark.parametrize("left", [3, 1])
def test_who_asked_is_told_that_results_are_missing_if_it_is_stopped_while_a_step_waits_for_its_turn(left):
    loop = Loop(missing=3, stopped_at=left)
    with pytest.raises(wm.WatersmeetError, match="stopped before its cleanup was complete"):
        upkeep(loop).on_demand()
    assert loop.missing == left


def test_a_query_that_ends_while_cleanup_waits_for_its_turn_has_not_failed():
    loop, failures = Loop(missing=3), []

    def over(*_):
        raise StoppedError("this run of the query is over", why="it was stopped", how="start it again")

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
