"""Bursts: when groups are parked, which, for how long they are held, and when they are drained."""

import dataclasses

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.bursts import Bursts
from tests.support.states import JOIN, PLAN, A

from watersmeet.adapt.cleaning.draining import WAIT_BYTES, WAIT_EPOCHS, Draining
from watersmeet.adapt.moving.auto import AutoPolicy
from watersmeet.adapt.moving.describe import placement
from watersmeet.adapt.moving.hot import HotGroupPolicy
from watersmeet.adapt.moving.parking import CALM_LEAST, LASTS
from watersmeet.adapt.moving.put_off import can_be_parked
from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.model.ids import SiteId
from watersmeet.model.query import History
from watersmeet.state.applying import apply, apply_all
from watersmeet.state.changes import ChangePatience, FinishBatch, MoveGroups, SpillGroups
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Split

HOT, SITE = 7, 1
"""A group, and the site it is at."""

CALM = CALM_LEAST + 2
"""After so many epochs it is known what is usual."""


def calm(**options):
    world = Bursts(**options)
    assert world.run(CALM) == []
    return world


def burst(world, times=8):
    world.rows[:, HOT] = times


def over(world):
    world.rows[:], world.ms_per_tuple[:] = 1.0, 0.1


def test_a_group_with_a_burst_of_rows_is_parked_after_one_epoch_and_the_reason_tells_why():
    world = calm()
    burst(world)
    [park] = world.epoch()
    assert park.site == SITE
    assert HOT in park.groups[JOIN]
    assert len(park.groups[JOIN]) == 1
    assert park.epoch_ms is not None
    assert park.epoch_ms[1] < park.epoch_ms[0] / 2
    assert "site 1 took" in park.reason
    assert "times the tuples of others, usually 1.0: what 1 groups hold is joined later" in park.reason
    assert world.parked == [HOT]
    assert any("1 groups of join1 are parked" in line for line in placement(world.manifest, "auto"))


def test_while_it_is_parked_the_site_is_hardly_slower_than_the_others_and_afterwards_it_is_drained():
    world = calm()
    burst(world)
    world.run(4)
    held_up, *parked = world.slowest_ms[-4:]
    assert max(parked) < held_up / 1.8, world.slowest_ms
    assert (world.parked, world.drained) == ([HOT], 0), "the burst goes on"
    over(world)
    world.run(3)
    assert (world.parked, world.drained) == ([], 1)
    assert not world.manifest.generations(JOIN), "it is live again"
    assert world.run(20) == []


def test_a_site_that_is_slow_by_the_clock_alone_has_to_be_so_twice():
    world = calm()
    world.ms_per_tuple[SITE] = 0.3
    assert world.epoch() == []
    [park] = world.epoch()
    assert park.site == SITE
    assert len(park.groups[JOIN]) > 1, "no group of it is special"
    assert ", as before: what" in park.reason
    assert world.run(3) == []
    assert max(world.slowest_ms[-3:]) < world.slowest_ms[CALM] / 1.8
    over(world)
    world.run(4)
    assert world.parked == []


def test_a_clock_that_is_off_for_an_epoch_now_and_then_parks_nothing():
    world, rng = calm(), np.random.default_rng(3)
    for epoch in range(60):
        world.ms_per_tuple = 0.1 * rng.uniform(0.7, 1.4, world.sites) * np.where(epoch % 5 == np.arange(4), 3.0, 1.0)
        assert world.epoch() == []


@pytest.mark.parametrize("seed", range(3))
def test_sites_that_are_level_but_for_chance_park_nothing(seed):
    world, rng = Bursts(), np.random.default_rng(seed)
    for _ in range(100):
        world.ms_per_tuple = 0.1 * rng.uniform(0.6, 1.6, world.sites)
        world.rows = rng.poisson(4.0, (2, world.groups)).astype(np.float64)
        assert world.epoch() == []


def test_what_was_so_from_the_start_is_no_burst():
    world = Bursts()
    burst(world)
    assert world.run(30) == []


def test_what_lasts_is_given_up_and_left_to_moves():
    world = calm()
    burst(world)
    assert len(world.run(LASTS)) == 1
    world.run(3)
    assert (world.parked, world.drained) == ([], 1)
    assert world.run(30) == [], "it never was calm since"


def test_nothing_is_parked_in_the_step_in_which_groups_move():
    world = calm()
    burst(world)
    move = MoveGroups(JOIN, GroupSet.of([9]), SiteId(SITE), SiteId(0))
    assert world.epoch(move) == []
    assert world.run(5) == [], "what is usual now is not known yet"


def test_groups_that_sites_share_are_not_parked():
    world = calm()
    burst(world)
    split = Split(HOT, A, (SiteId(SITE), SiteId(2)))
    state = replace(world.manifest.operators[JOIN], splits=(split,))
    world.manifest = replace(world.manifest, operators={JOIN: state})
    assert [each for each in world.run(3) if HOT in each.groups[JOIN]] == []


@pytest.mark.parametrize("options", [{"executors": ["one"] * 4}, {"sites": 1}], ids=["one process", "one site"])
def test_where_nothing_waits_for_a_site_nothing_is_parked(options):
    world = Bursts(**options)
    world.run(CALM)
    burst(world)
    assert world.run(5) == []


def test_nothing_is_parked_that_would_not_be_put_off():
    """All results are of new rows: closing what is stored saves nothing."""
    world = calm(stored=1)
    world.rows[:, HOT] = 200
    assert world.epoch() == []


def test_nothing_is_parked_that_costs_more_to_read_than_it_gains():
    world = calm(stored=100)
    burst(world)
    state = world.manifest.runs
    world.manifest = replace(
        world.manifest,
        runs={
            name: replace(run, group_bytes=type(run.group_bytes).of(run.group_bytes.array * 1_000_000))
            for name, run in state.items()
        },
    )
    assert world.run(2) == []


def test_if_it_did_not_help_nothing_is_held_and_the_next_time_is_later():
    world = calm()
    burst(world)
    assert world.epoch()
    world.ms_per_tuple[SITE] = 2.0  # the machine is slow as well, and far more
    world.epoch()
    assert world.parked == [], "drained at once"
    over(world)
    world.run(CALM_LEAST)
    burst(world)
    assert world.epoch() == []
    over(world)
    world.run(2 * CALM_LEAST)
    burst(world)
    assert world.epoch()


@pytest.mark.parametrize("sites", [2, 4])
def test_a_site_that_is_spared_makes_no_other_site_look_slow(sites):
    world = calm(sites=sites)
    burst(world, 16)
    parks = world.run(4)
    assert [park.site for park in parks] == [HOT * sites // world.groups]
    over(world)
    assert world.run(20) == []
    assert world.parked == []


IT_DID_NOT_HELP = "site 1 took 261 ms of an epoch, without parked groups 458 ms, when 106 ms were expected"


def test_a_site_parks_once_a_burst():
    world = calm()
    burst(world)
    world.epoch()
    burst(world, 60)
    assert world.run(3) == [ChangePatience("park", CALM_LEAST, 2 * CALM_LEAST, IT_DID_NOT_HELP)]


def test_a_group_for_which_nothing_came_is_live_again_without_cleanup():
    world = calm()
    burst(world)
    world.epoch()
    world.rows[:] = 1.0
    world.rows[:, HOT] = 0.0
    world.run(2)
    assert (world.parked, world.drained) == ([], 0)
    assert not world.manifest.generations(JOIN)


def test_a_site_without_room_parks_again_after_a_burst_for_which_nothing_came():
    world = calm(options=MemoryOptions(13_000))
    burst(world)
    assert len(world.epoch()) == 1
    world.rows[:] = 1.0
    world.rows[:, HOT] = 0.0
    world.run(2)
    assert (world.parked, world.drained) == ([], 0)
    assert world.manifest.generations(JOIN), "it is closed, as if it had been spilled"
    world.run(CALM)
    world.rows[:, HOT + 1] = 8.0
    assert [change.site for change in world.run(2)] == [SITE]


def parked(*groups):
    world = Bursts()
    change = SpillGroups(SiteId(SITE), {JOIN: GroupSet.of(groups)}, epoch_ms=(2, 1))
    world.end(apply(world.manifest, change))
    return world


def test_who_is_not_held_is_due_and_nobody_is_held_for_ever():
    world = parked(HOT, 8)
    held = Draining({JOIN: GroupSet.of([HOT])})
    assert list(Draining().due(world.manifest, JOIN)) == [HOT, 8]
    assert list(held.due(world.manifest, JOIN)) == [8]
    later = [FinishBatch(world.manifest.batch + number) for number in range(1, WAIT_EPOCHS + 1)]
    assert list(held.due(apply_all(world.manifest, later[:-2]), JOIN)) == [8]
    assert list(held.due(apply_all(world.manifest, later), JOIN)) == [HOT, 8]


def test_parked_groups_are_due_when_much_has_come_for_them():
    world = parked(HOT, 15)
    held = Draining({JOIN: GroupSet.of([HOT, 15])})
    rows = np.zeros((2, world.groups))
    rows[:, HOT] = WAIT_BYTES // 20 + 1
    assert list(held.due(world.came(rows), JOIN)) == [HOT], "the other one is at another site"


def with_auto(world, auto, epochs):
    """For each of some epochs: whether groups moved, and what was parked."""
    found = []
    for _ in range(epochs):
        view = View("step", world.came(world.rows), load=world.load())
        moves = [each.what for each in auto.suggest(view) if isinstance(each.what, MoveGroups)]
        parked = [each for each in world.epoch(*moves) if isinstance(each, SpillGroups)]
        found.append((bool(moves), bool(parked)))
    return found


def onset(world, site, times=8.0):
    """All groups that a site has at first get more rows."""
    of_each = world.groups // world.sites
    world.rows[:] = 1.0
    world.rows[:, site * of_each : (site + 1) * of_each] = times


def test_what_begins_and_lasts_is_levelled_by_moves_at_once_and_not_parked_first():
    world, auto = Bursts(), AutoPolicy()
    assert with_auto(world, auto, CALM) == [(False, False)] * CALM
    onset(world, SITE)
    assert with_auto(world, auto, 1) == [(True, False)]
    assert not any(parked for _, parked in with_auto(world, auto, 10))


def test_bursts_take_no_longer_with_moves_than_if_they_are_parked_alone():
    """What is parked is joined later, by all sites: that has to be counted."""
    took = []
    for parks, moves in ((False, False), (True, False), (True, True)):
        world, auto = Bursts(groups=80, options=MemoryOptions(generations_max=64 if parks else 0)), AutoPolicy()
        for turn in range(8):
            for times in (1.0, 8.0):
                onset(world, turn % 4, times)
                _ = with_auto(world, auto, 3) if moves else world.run(3)
        took.append(sum(world.slowest_ms))
    still, parked, moved = took
    assert parked < moved < parked + (still - parked) / 4


def test_movers_take_parked_groups_for_what_they_were():
    """Else their site would be given more, as it has less to do meanwhile."""
    world, policies = Bursts(), (AutoPolicy(), HotGroupPolicy())
    whole, held = world.load(), parked(HOT).manifest
    spared = whole.tuples[JOIN] - np.where(np.arange(world.groups) == HOT, 0.9 * whole.tuples[JOIN], 0.0)
    busy_ms = np.bincount(held.operators[JOIN].routing, spared, world.sites) * world.ms_per_tuple
    shorter = dataclasses.replace(whole, tuples={JOIN: spared}, busy_ms=busy_ms[None, :])
    for view in [*[View("step", world.manifest, load=whole)] * 4, *[View("step", held, load=shorter)] * 8]:
        assert [list(policy.suggest(view)) for policy in policies] == [[], []]


def test_only_results_that_may_come_later_are_put_off():
    [join] = PLAN.operators
    assert [each.id for each in can_be_parked(PLAN)] == [JOIN]
    for mode, history, parkable in (("append", None, 1), ("first", None, 1), ("update", None, 0), ("append", 3, 0)):
        above = replace(join, kind="aggregate", mode=mode, history=History(rows=history) if history else None)
        assert len(can_be_parked(replace(PLAN, operators=(join, above)))) == parkable
    assert can_be_parked(replace(PLAN, operators=(replace(join, kind="ring"),))) == []


def test_an_operator_with_many_generations_parks_nothing():
    world = calm(options=MemoryOptions(generations_max=0))
    burst(world)
    assert world.run(2) == []
