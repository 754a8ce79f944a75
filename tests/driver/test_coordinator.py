"""The coordinator: a group changes in one way at a time, inner policies come first, and every change has a reason."""

from collections import Counter
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.support.in_process import InProcess
from tests.support.states import JOIN, empty_manifest, holding, part, run_file, two_way_plan

from watersmeet.adapt.cleaning.policy import CleanPolicy, DuePolicy, RevivePolicy
from watersmeet.adapt.expiring.passing import PassPolicy
from watersmeet.adapt.expiring.policy import ExpirePolicy
from watersmeet.adapt.merging import choice as merging
from watersmeet.adapt.merging.policy import MergePolicy
from watersmeet.adapt.moving.announcing import TakeOverPolicy
from watersmeet.adapt.moving.distribution import SETTLED, ResizePolicy
from watersmeet.adapt.moving.executors import ExecutorPolicy
from watersmeet.adapt.moving.hot import UnsplitPolicy
from watersmeet.adapt.moving.load import EpochLoad, Executors
from watersmeet.adapt.moving.memory import MemoryPolicy
from watersmeet.adapt.policy import MemoryOptions, Merge, Moment, Suggestion, View
from watersmeet.adapt.spilling.policy import SpillPolicy
from watersmeet.adapt.statistics import Observation, Statistics
from watersmeet.driver.coordinator import Coordinator
from watersmeet.model.ids import InputName, OperatorId, RunId, SiteId, Version
from watersmeet.state.changes import BeginCleaning, MoveGroups, Reroute, ReviveGroups, SpillGroups, UniteGenerations
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import LIVE, Cleaning

OTHER = OperatorId("join2")
EMPTY = empty_manifest()


def spill(*groups, operator=JOIN):
    chosen = {operator: GroupSet.of(groups)}
    return Suggestion(SpillGroups(SiteId(0), chosen, reason=f"{operator} {groups}"), chosen)


@dataclass
class Fixed:
    """Suggests what it was given, at some moments."""

    suggestions: list[Suggestion]
    moments: frozenset[Moment] = frozenset({"step"})
    asked: list[View] = field(default_factory=list)

    def suggest(self, view):
        self.asked.append(view)
        return iter(self.suggestions)


def decided(*policies, manifest=EMPTY, moment="step"):
    coordinator = Coordinator(policies, CleanPolicy(MemoryOptions()))
    return [change.reason for change in coordinator.decide(View(moment, manifest))]


def test_what_touches_a_group_that_was_touched_before_is_not_taken():
    inner, outer = Fixed([spill(0, 1), spill(1, 2)]), Fixed([spill(0), spill(2, 3), spill(1, operator=OTHER)])
    assert decided(inner, outer) == ["join1 (0, 1)", "join1 (2, 3)", "join2 (1,)"]


def test_a_suggestion_that_was_not_taken_stands_in_nobodys_way():
    assert decided(Fixed([spill(0), spill(0, 1), spill(1)])) == ["join1 (0,)", "join1 (1,)"]


def test_what_touches_a_group_that_is_being_cleaned_is_not_taken():
    busy = replace(EMPTY, cleaning=Cleaning(JOIN, (1, 2), 100))
    some = Fixed([spill(0, 1), spill(2), spill(3), spill(2, operator=OTHER)])
    assert decided(some, manifest=busy) == ["join1 (3,)", "join2 (2,)"]


def test_only_policies_that_a_moment_concerns_are_asked():
    now, later = Fixed([spill(0)]), Fixed([spill(1)], frozenset({"idle", "end"}))
    assert decided(now, later) == ["join1 (0,)"]
    assert decided(now, later, moment="idle") == ["join1 (1,)"]
    assert (len(now.asked), len(later.asked)) == (1, 1)


def test_merges_and_changes_are_asked_for_apart():
    merge = Merge(SiteId(0), JOIN, InputName("A"), (RunId("x"),), GroupSet.of([0]), reason="many")
    coordinator = Coordinator([Fixed([Suggestion(merge), spill(0)])], CleanPolicy(MemoryOptions()))
    assert coordinator.merges(View("step", EMPTY)) == [merge]
    assert [type(each) for each in coordinator.decide(View("step", EMPTY))] == [SpillGroups]


def test_policies_see_groups_where_those_before_have_put_them():
    change = MoveGroups(JOIN, GroupSet.of([0, 1]), SiteId(0), SiteId(1), reason="uneven")
    mover, later = Fixed([Suggestion(change, {JOIN: change.groups})]), Fixed([spill(2), spill(1)])
    assert decided(mover, later) == ["uneven", "join1 (2,)"], "a group that moves is not spilled in the same breath"
    assert later.asked[0].manifest.operators[JOIN].routing == (1, 1, 1, 1)


def test_a_site_that_has_given_groups_away_need_not_spill():
    manifest = holding(empty_manifest(), [run_file("x", 0, 1), run_file("y", 0, 1)], [part("x", 0, 1), part("y", 0, 1)])
    options, load = MemoryOptions(300), EpochLoad(1.0, np.zeros((1, 2)), {}, ("a", "b"), {"a": 1, "b": 1})
    view = View("step", manifest, {JOIN: Statistics.cold(4)}, load=load)
    found = [Coordinator.of(options, 2, 1, movers=movers).decide(view) for movers in ([], [MemoryPolicy(options)])]
    assert [[type(each) for each in changes] for changes in found] == [[SpillGroups], [MoveGroups]]


def test_a_site_that_groups_have_just_moved_to_spills_others_if_it_has_to():
    """A group that moves is not spilled in the same step; that must not keep others from going in its stead."""
    manifest = holding(empty_manifest(), [run_file("x", 0, 1, 2, 3)], [part("x", 0, 1, 2, 3)])
    moved = {JOIN: GroupSet.of([2])}
    move = Suggestion(MoveGroups(JOIN, moved[JOIN], SiteId(1), SiteId(0)), moved)
    for seed in range(5):
        coordinator = Coordinator.of(MemoryOptions(150, fraction=0.1, seed=seed), 2, 1, movers=[Fixed([move])])
        first, spill = coordinator.decide(View("step", manifest, {JOIN: Statistics.cold(4)}))
        assert (first, type(spill), spill.site) == (move.what, SpillGroups, 0)
        assert spill.live_bytes == 300
        assert not spill.groups[JOIN] - GroupSet.of([0, 1])


def test_fewer_sites_spill_what_is_too_much_for_them_at_once():
    manifest = holding(empty_manifest(), [run_file("x", 0, 1, 2, 3)], [part("x", 0, 1, 2, 3)])
    coordinator = Coordinator.of(MemoryOptions(250, fraction=0.1), 2, 1, sites_follow=True)
    view = View("step", manifest, {JOIN: Statistics.cold(4)}, executors=Executors(("a",), 1, ("a", "a")))
    for _ in range(SETTLED - 1):
        assert coordinator.decide(view) == []
    reroute, spill = coordinator.decide(view)
    assert (reroute.sites, spill.live_bytes, spill.spilled_bytes) == (1, 400, 200)


def test_the_policies_there_are_go_from_the_inner_to_the_outer():
    """From what concerns files of one input to what concerns all sites."""
    found = [type(each) for each in Coordinator.of(MemoryOptions(), 2, 1).policies]
    placing = [ExecutorPolicy, ResizePolicy, TakeOverPolicy, UnsplitPolicy]
    inner, outer = [MergePolicy, PassPolicy, ExpirePolicy], [SpillPolicy, CleanPolicy, DuePolicy, RevivePolicy]
    assert found == [*inner, *placing, *outer]
    found = [type(each) for each in Coordinator.of(MemoryOptions(), 2, 1, movers=[MemoryPolicy()]).policies]
    assert found[3:9] == [*placing, MemoryPolicy, SpillPolicy], "moves come first: what moves need not be spilled"


def test_a_step_of_cleanup_spills_what_is_too_much_and_leaves_the_groups_it_cleans_alone():
    """Those it cleans would be the first to go; that must not keep the others from going."""
    runs = [run_file("x", 0, 1, 2, 3), run_file("y", 0)]
    parts = [part("x", 0, 1, 2, 3), part("y", 0, generation=3)]
    manifest = replace(holding(empty_manifest(sites=1), runs, parts), version=Version(5))
    manifest = replace(manifest, cleaning=Cleaning(JOIN, (0,), 100))
    options = MemoryOptions(budget_bytes=150, strategy="local-output", fraction=0.1)
    nothing = np.zeros(4)
    known = {JOIN: Statistics.cold(4).after(Observation(np.full(4, 100.0), np.arange(4.0), nothing, nothing), 1)}
    [change] = Coordinator.of(options, 1, 1).decide(View("step", manifest, known))
    assert isinstance(change, SpillGroups)
    assert change.groups == {JOIN: GroupSet.of([1, 2])}
    assert (change.live_bytes, change.spilled_bytes) == (300, 200)


@pytest.fixture
def spilled_query(tmp_path, monkeypatch):
    """Groups with many generations, with several runs in each, of which none was merged; a few were cleaned."""
    monkeypatch.setattr(merging, "FAN_IN", 10**6)
    monkeypatch.setattr(merging, "CLOSED_FAN_IN", 10**6)
    options = MemoryOptions(8_000, strategy="random", fraction=0.2, seed=1, generations_max=10**6)
    query = InProcess(two_way_plan(), str(tmp_path), sites=2, options=options)
    rng = np.random.default_rng(1)
    for _ in range(30):
        query.epoch({name: pa.table({"k": rng.integers(0, 50, 30), "v": np.arange(30)}) for name in "AB"})
    for _ in range(3):
        vars(query.loop.stepper.coordinator.cleaning).update(options=MemoryOptions(budget_bytes=1), slice_bytes=1)
        query.clean("idle", None)
    monkeypatch.setattr(merging, "FAN_IN", 2)
    monkeypatch.setattr(merging, "CLOSED_FAN_IN", 2)
    return query


def reason_of(change):
    return change.cleaning.reason if isinstance(change, BeginCleaning) else change.reason


def taken(query, budget_bytes, moments):
    """All that is suggested and taken at all moments, by a coordinator with another budget and more sites."""
    coordinator = Coordinator.of(MemoryOptions(budget_bytes, fraction=0.2, generations_max=3), 3, 1 << 30)
    for moment in moments:
        view = View(moment, query.manifest, query.loop.stepper.observer.statistics)
        yield from ((moment, each) for each in (*coordinator.decide(view), *coordinator.merges(view)))


def test_every_change_of_every_policy_at_every_moment_says_why_it_is_made(spilled_query):
    found = list(taken(spilled_query, budget_bytes=1, moments=get_args(Moment)))
    while spilled_query.is_missing:
        spilled_query.clean("end", None)
    found += taken(spilled_query, budget_bytes=1 << 30, moments=["over"])
    kinds = Counter((moment, type(each)) for moment, each in found)
    assert set(kinds) == {
        ("start", Reroute),
        ("tasks", Merge),
        ("step", Reroute),
        ("step", SpillGroups),
        ("step", UniteGenerations),
        ("between", BeginCleaning),
        ("idle", BeginCleaning),
        ("asked", BeginCleaning),
        ("end", BeginCleaning),
        ("over", ReviveGroups),
    }
    merges = [each for _, each in found if isinstance(each, Merge)]
    assert {each.generation == LIVE for each in merges} == {True, False}, "of what is live and of what is closed"
    assert all(reason_of(each) for _, each in found)
    assert len({reason_of(each) for _, each in found}) >= len(kinds) - 3


def test_reasons_reach_the_version_that_is_committed(spilled_query):
    changes = [
        change
        for each in spilled_query.loop.stepper.checkpoint.store.files(
            spilled_query.loop.stepper.checkpoint.store.versions()
        )
        for change in each.file.changes
    ]
    reasoned = [each for each in changes if hasattr(each, "reason")]
    assert reasoned
    assert all(each.reason for each in reasoned)
