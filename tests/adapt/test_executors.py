"""Executors that come and go: who is told of, when sites are spread anew, and how many there are."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.states import JOIN, empty_manifest

from watersmeet.adapt.moving.distribution import SETTLED, ResizePolicy, resized
from watersmeet.adapt.moving.executors import TRIES_MOST, ExecutorPolicy
from watersmeet.adapt.moving.load import EpochLoad, Executors
from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.driver.coordinator import Coordinator
from watersmeet.state.applying import apply_all
from watersmeet.state.manifest import Cleaning


def after_a_step(policy, names, of_sites, slots=None, manifest=None):
    """What a policy suggests after a step that some executors did."""
    executors = Executors(tuple(names), len(names) if slots is None else slots, tuple(of_sites))
    view = View("step", empty_manifest() if manifest is None else manifest, executors=executors)
    return [each.what for each in policy.suggest(view)]


class Later:
    """A policy that suggests nothing, and remembers what it was asked."""

    moments = frozenset({"step"})

    def __init__(self):
        self.asked = []

    def suggest(self, view):
        self.asked.append(view)
        return []


def test_nothing_is_told_of_the_executors_that_a_run_begins_with():
    assert after_a_step(ExecutorPolicy(), ["a", "b"], ["x", "y"]) == []


def test_an_executor_that_joins_gets_sites_if_another_has_several():
    policy = ExecutorPolicy()
    assert after_a_step(policy, ["a"], ["x", "x"]) == []
    [change] = after_a_step(policy, ["a", "b"], ["x", "x"])
    assert (change.before, change.after, change.joined, change.lost, change.spreads) == (1, 2, ("b",), (), True)
    assert "1 of 2 executors has none of 2 sites" in change.reason
    assert after_a_step(policy, ["a", "b"], ["x", "y"]) == [], "now it has"


def test_an_executor_that_joins_where_each_has_one_site_is_told_of_and_nothing_is_spread():
    policy = ExecutorPolicy()
    after_a_step(policy, ["a", "b"], ["x", "y"])
    [change] = after_a_step(policy, ["a", "b", "c"], ["x", "y"])
    assert (change.joined, change.spreads) == (("c",), False)


@pytest.mark.parametrize("where", [["x", "x", "x"], ["x", "x", "y"]])
def test_sites_of_an_executor_that_was_lost_are_spread_anew_only_if_one_of_those_left_has_none(where):
    policy = ExecutorPolicy()
    after_a_step(policy, ["a", "b", "c"], ["x", "y", "z"])
    [change] = after_a_step(policy, ["a", "b"], where)
    assert (change.before, change.after, change.lost) == (3, 2, ("c",))
    assert change.spreads == (len(set(where)) == 1)
    assert "lost" in change.reason


def test_an_executor_that_was_replaced_between_two_steps_is_seen():
    policy = ExecutorPolicy()
    after_a_step(policy, ["a", "b"], ["x", "y"])
    [change] = after_a_step(policy, ["a", "c"], ["x", "x"])
    assert (change.joined, change.lost, change.spreads) == (("c",), ("b",), True)


def test_sites_that_spark_has_dealt_out_unevenly_are_spread_anew():
    [change] = after_a_step(ExecutorPolicy(), ["a", "b"], ["x", "x", "y", "x"])
    assert (change.before, change.after, change.spreads) == (2, 2, True)
    assert "one of 2 executors has 3 for each of its processes, and another 1" in change.reason
    assert after_a_step(ExecutorPolicy(), ["a", "b"], ["x", "y", "y", "x"]) == []


def test_an_executor_with_more_processes_may_have_more_sites():
    executors = Executors(("a", "b"), 4, ("x", "x", "y", "x"), {"x": 3, "y": 1})
    assert not list(ExecutorPolicy().suggest(View("step", empty_manifest(), executors=executors)))


def test_sites_that_stay_uneven_are_not_spread_for_ever():
    policy = ExecutorPolicy()
    found = [after_a_step(policy, ["a", "b"], ["x", "x"]) for _ in range(TRIES_MOST + 3)]
    assert [len(changes) for changes in found] == [1] * TRIES_MOST + [0] * 3
    assert after_a_step(policy, ["a", "b", "c"], ["x", "x"]), "others may do better"


def test_every_spread_is_another_placement():
    policy, manifest = ExecutorPolicy(), empty_manifest()
    changes = after_a_step(policy, ["a", "b"], ["x", "x"]) + after_a_step(policy, ["a", "b", "c"], ["x", "y"])
    assert [change.spreads for change in changes] == [True, False]
    assert apply_all(manifest, changes).placement == 1


@given(
    routing=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    before=st.integers(6, 8),
    sites=st.integers(1, 12),
)
def test_as_few_groups_move_as_can_and_new_sites_get_their_share(routing, before, sites):
    after = resized(routing, before, sites)
    assert all(0 <= site < sites for site in after)
    held, moved = Counter(after), [group for group, site in enumerate(routing) if after[group] != site]
    assert all(held[site] == len(routing) // sites for site in range(before, sites))
    if sites <= before:
        assert moved == [group for group, site in enumerate(routing) if site >= sites]
    else:
        assert len(moved) == (sites - before) * (len(routing) // sites)


def test_there_are_as_many_sites_as_tasks_can_run_once_their_number_has_settled():
    policy, manifest = ResizePolicy(2, follows=True), empty_manifest(sites=2)
    found = [after_a_step(policy, "abcd", "xy", slots, manifest) for slots in (4, 3, *[4] * SETTLED)]
    assert [len(changes) for changes in found] == [0] * (SETTLED + 1) + [1]
    [change] = found[-1]
    assert (change.sites, change.sites_before) == (4, 2)
    assert Counter(change.routing[JOIN]) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert change.reason


def test_a_number_of_sites_that_was_given_stays():
    policy, manifest = ResizePolicy(2), empty_manifest(sites=2)
    assert not any(after_a_step(policy, "abcd", "xy", 4, manifest) for _ in range(SETTLED + 2))


def test_a_number_of_sites_that_is_followed_only_grows_at_the_start_as_executors_may_still_come():
    assert not list(ResizePolicy(2, follows=True).suggest(View("start", empty_manifest(sites=4))))
    [suggestion] = ResizePolicy(4, follows=True).suggest(View("start", empty_manifest(sites=2)))
    assert suggestion.what.sites == 4


def test_a_number_of_sites_that_could_not_be_taken_at_the_start_is_taken_in_a_step():
    coordinator, manifest = Coordinator.of(MemoryOptions(), 4, 1), empty_manifest(sites=2)
    cleaning = replace(manifest, cleaning=Cleaning(JOIN, (0,), 100))
    assert coordinator.decide(View("start", cleaning)) == []
    assert coordinator.decide(View("step", cleaning)) == []
    [change] = coordinator.decide(View("step", manifest))
    assert (change.sites, change.sites_before) == (4, 2)


def test_sites_follow_a_number_of_tasks_that_changes_all_the_time_less_and_less_often():
    policy, manifest, changed = ResizePolicy(2, follows=True), empty_manifest(sites=2), []
    for epoch in range(120):
        slots = 3 if epoch // 4 % 2 else 4
        found = after_a_step(policy, "abcd", "xy", slots, manifest)
        manifest = apply_all(manifest, found)
        changed += [epoch] if found else []
    assert len(changed) == 1, "then six epochs are asked for, and none are alike for so long"
    for _ in range(3 * SETTLED):
        manifest = apply_all(manifest, after_a_step(policy, "abc", "xy", 3, manifest))
    assert manifest.sites == 3, "it follows what stays"


def test_policies_after_another_number_of_sites_are_not_told_of_the_load_of_others():
    later = Later()
    coordinator = Coordinator.of(MemoryOptions(), 2, 1, movers=[later], sites_follow=True)
    load = EpochLoad(1.0, np.zeros((1, 2)), {}, ("x", "y"), {"x": 1, "y": 1})
    view = View("step", empty_manifest(sites=2), load=load, executors=Executors(("a", "b", "c"), 3, ("x", "y")))
    decided = [coordinator.decide(view) for _ in range(SETTLED)]
    assert [len(changes) for changes in decided] == [0] * (SETTLED - 1) + [1]
    assert later.asked[-1].manifest.sites == 3
    assert [each.load for each in later.asked] == [load] * (SETTLED - 1) + [None]
