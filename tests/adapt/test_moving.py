"""Policies that move groups: what they suggest for sizes and loads made by hand."""

from collections import Counter

import numpy as np
import pytest
from tests.support.moving_world import World, moved
from tests.support.states import JOIN

from watersmeet.adapt.moving.active_disk import ActiveDiskPolicy
from watersmeet.adapt.moving.distribution import spread, weighted
from watersmeet.adapt.moving.flux import FluxPolicy
from watersmeet.adapt.moving.flux_hybrid import FluxHybridPolicy
from watersmeet.adapt.moving.flux_memory import FluxMemoryPolicy
from watersmeet.adapt.moving.lazy_disk import LazyDiskPolicy
from watersmeet.adapt.moving.memory import MemoryPolicy
from watersmeet.adapt.moving.policies import ADAPTATIONS, MEANINGS, NAMES
from watersmeet.adapt.moving.rounds import Rounds
from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.state.changes import SpillGroups
from watersmeet.state.groups import GroupSet


def test_every_policy_has_a_name_and_a_meaning():
    assert set(NAMES) == {"none", *ADAPTATIONS} == set(MEANINGS)
    assert all(policy(MemoryOptions()).name == name for name, policy in ADAPTATIONS.items())


@pytest.mark.parametrize("name", sorted(ADAPTATIONS))
def test_nothing_moves_where_there_is_one_site_or_no_epoch_or_nothing_at_all(name):
    policy, options = ADAPTATIONS[name], MemoryOptions(1000)
    lone = World([90.0, 10.0], [0, 0], [900.0, 100.0])
    assert [lone.epoch(policy(options)) for _ in range(5)] == [[]] * 5
    uneven, quiet = World([500.0, 1.0], [0, 1], [900.0, 1.0]), policy(options)
    assert [list(quiet.suggest(View("step", uneven.manifest))) for _ in range(9)] == [[]] * 9
    nothing = World([0.0, 0.0], [0, 1])
    assert [nothing.epoch(policy(options)) for _ in range(9)] == [[]] * 9


@pytest.mark.parametrize("name", sorted(ADAPTATIONS))
def test_whatever_a_policy_does_no_site_is_given_more_than_its_budget(name):
    rng = np.random.default_rng(3)
    for _ in range(60):
        groups, sites, budget = 12, int(rng.integers(2, 5)), int(rng.integers(50, 400))
        world = World(
            rng.integers(0, 60, groups).astype(float).tolist(),
            rng.integers(0, rng.integers(1, sites + 1), groups).tolist(),
            rng.integers(0, 200, groups).astype(float).tolist(),
            rng.integers(0, 50, groups).astype(float).tolist(),
            tuple(np.flatnonzero(rng.random(groups) < 0.2).tolist()),
            rng.uniform(0.5, 3.0, sites).tolist(),
        )
        policy = ADAPTATIONS[name](MemoryOptions(budget, "global-output"))
        live = np.array([0.0 if g in world.closed else size for g, size in enumerate(world.bytes)])
        for _ in range(12):
            before = np.bincount(world.routing, live, minlength=sites)
            changes = world.epoch(policy)
            after = np.bincount(world.routing, live, minlength=sites)
            assert np.all((after <= budget) | (after <= before)), changes
            assert all(each.reason for each in changes)


# memory balancing


def test_memory_moves_half_the_difference_of_productive_groups_to_the_emptiest_site():
    world = World([40.0, 40.0, 40.0, 40.0, 20.0], [0, 0, 0, 0, 1], output=[1.0, 9.0, 2.0, 3.0, 5.0])
    assert moved(world.epoch(MemoryPolicy())) == [([1], 0, 1)]
    assert world.epoch(MemoryPolicy()) == [], "60 of 120, and the half difference of 30 is less than any group"


def test_memory_leaves_sites_alone_that_are_closer_than_theta_d():
    assert World([50.0, 50.0, 81.0], [0, 0, 1]).epoch(MemoryPolicy()) == []
    assert World([9.0] * 9 + [50.0], [0] * 9 + [1]).epoch(MemoryPolicy(theta_d=0.9)) != []


def test_memory_lets_a_span_pass_between_two_moves():
    world, policy, times = World([10.0] * 10, [0] * 9 + [1]), MemoryPolicy(span=4), []
    for epoch in range(9):
        if world.epoch(policy):
            times.append(epoch)
            world.bytes = [
                30.0 * size if site == 0 else size for size, site in zip(world.bytes, world.routing, strict=True)
            ]
    assert times == [0, 4, 8]


def refusing(world, policy, epochs):
    """Whether each of some epochs brings a suggestion, if all are refused."""
    found = []
    for _ in range(epochs):
        routing, forced = world.routing, world.forced_bytes
        found.append(bool(world.epoch(policy)))
        world.routing, world.forced_bytes = routing, forced
    return found


def test_a_span_begins_with_a_move_and_not_with_one_that_was_refused():
    assert refusing(World([10.0] * 10, [0] * 9 + [1]), MemoryPolicy(span=4), 3) == [True] * 3


def test_a_round_in_which_moves_were_refused_is_followed_by_a_shorter_one():
    world = World([10.0] * 8, [0] * 8, [30.0] * 8, ms_per_tuple=[1.0, 1.0])
    policy = FluxPolicy(rounds=Rounds(delta_min_ms=100.0, delta_ms=1000.0))
    assert refusing(world, policy, 6) == [False, False, False, True, False, True]
    assert not policy.rounds.is_moving


def test_active_disk_counts_what_was_spilled_and_not_what_was_refused():
    world = World([30.0] * 8, [0, 0, 0, 1, 1, 1, 0, 1], output=[9.0, 9.0, 9.0, 3.0, 2.0, 1.0, 0.0, 0.0], closed=(6, 7))
    options = MemoryOptions(100, "global-output", fraction=0.3)
    assert refusing(world, ActiveDiskPolicy(options, sample=1), 3) == [True] * 3
    assert world.epoch(ActiveDiskPolicy(options, sample=1))
    assert world.epoch(ActiveDiskPolicy(options, sample=1)) == [], "another run of the query knows it too"


# lazy-disk and active-disk


def test_lazy_disk_does_not_move_what_was_spilled():
    world = World([40.0] * 4, [0, 0, 0, 1], output=[9.0, 5.0, 5.0, 1.0], closed=(0,))
    world.bytes[3] = 4.0
    assert moved(world.epoch(LazyDiskPolicy(MemoryOptions(1000)))) == []
    world.bytes[3] = 0.0
    assert moved(world.epoch(LazyDiskPolicy(MemoryOptions(1000)))) == [([1], 0, 1)]


def test_lazy_disk_moves_nothing_from_a_site_that_has_to_spill_even_so():
    world = World([40.0] * 8, [0] * 7 + [1])
    assert world.epoch(LazyDiskPolicy(MemoryOptions(170))) != []
    world.routing = [0] * 7 + [1]
    assert world.epoch(LazyDiskPolicy(MemoryOptions(120))) == []


def test_active_disk_forces_nothing_while_the_state_is_less_than_all_budgets():
    world = World([30.0] * 6, [0, 0, 0, 1, 1, 1], output=[9.0, 9.0, 9.0, 3.0, 2.0, 1.0])
    policy = ActiveDiskPolicy(MemoryOptions(100, "global-output"), sample=3)
    assert [world.epoch(policy) for _ in range(9)] == [[]] * 9


def test_active_disk_forces_no_more_than_the_state_has_above_all_budgets():
    world = World([30.0] * 8, [0, 0, 0, 1, 1, 1, 0, 1], output=[9.0, 9.0, 9.0, 3.0, 2.0, 1.0, 0.0, 0.0], closed=(6, 7))
    policy = ActiveDiskPolicy(MemoryOptions(100, "global-output", fraction=0.3), sample=3)
    assert world.epoch(policy) == world.epoch(policy) == []
    [change] = world.epoch(policy)
    assert isinstance(change, SpillGroups)
    assert (change.site, change.groups, change.spilled_bytes) == (1, {JOIN: GroupSet.of([5])}, 30)
    assert "site 1 yields 6.0 results for a group, site 0 27.0" in change.reason
    assert [world.epoch(policy) for _ in range(9)] == [[]] * 9, "40 bytes above all budgets, and 30 of them are out"


def test_active_disk_forces_nothing_where_output_is_even():
    world = World([30.0] * 8, [0, 0, 0, 1, 1, 1, 0, 1], output=[3.0] * 6 + [0.0] * 2, closed=(6, 7))
    policy = ActiveDiskPolicy(MemoryOptions(100, "global-output"), sample=1)
    assert [world.epoch(policy) for _ in range(5)] == [[]] * 5


# Flux


def flux(**options):
    policy = FluxPolicy(**options)
    policy.rounds.delta_min_ms = 1.0
    return policy


def test_flux_moves_the_first_group_that_levels_a_pair_as_in_figure_5():
    """Sites 0 to 3 by utilisation; one group for each pair, from the ends; the 70 of site 1 would be too many."""
    tuples = [50.0, 15.0, 15.0, 15.0, 70.0, 9.0, 6.0, 55.0, 30.0]
    world = World([1.0] * 9, [0, 0, 0, 0, 1, 1, 1, 2, 3], tuples)
    assert moved(world.epoch(flux())) == [([0], 0, 3), ([5], 1, 2)]


def test_flux_moves_at_most_one_group_of_each_pair_in_a_round():
    world = World([1.0] * 20, [0] * 20, [10.0] * 20, ms_per_tuple=[1.0, 1.0])
    changes = world.epoch(flux())
    assert [len(each.groups) for each in changes] == [1]
    assert "busy" in changes[0].reason


@pytest.mark.parametrize("name", ["memory", "lazy-disk", "active-disk", "flux", "flux-memory", "flux-hybrid"])
def test_a_policy_finds_others_where_groups_are_anothers(name):
    """The largest groups of the loaded site are: they would be refused."""
    world = World([300.0] * 4 + [100.0] * 16, [0] * 16 + [1] * 4, [30.0] * 4 + [10.0] * 16)
    held, policy, found = {JOIN: GroupSet.of(range(4))}, ADAPTATIONS[name](MemoryOptions()), []
    for _ in range(20):
        view = View("step", world.manifest, load=world.load, held=held)
        found += [each.what for each in policy.suggest(view)]
    assert found
    assert not any(each.groups & held[JOIN] for each in found)


def test_flux_leaves_pairs_alone_that_fail_the_threshold_test():
    nearly = World([1.0] * 4, [0, 0, 0, 1], [55.0, 46.0, 4.0, 95.0])
    assert nearly.epoch(flux()) == []
    assert nearly.epoch(flux(th_imb=1.05)) != []
    busy = World([1.0] * 40, [0] * 21 + [1] * 19, [9.0] * 40, overhead_ms=0.5)
    assert busy.epoch(flux(th_imb=1.01)) == [], "the receiver is busy itself"


def test_flux_leaves_a_group_where_it_is_that_would_only_change_places():
    assert World([1.0, 1.0], [0, 1], [100.0, 1.0]).epoch(flux()) == []


def test_flux_collects_as_long_as_the_last_move_phase_lasted_and_half_as_long_after_none():
    world, policy = World([1.0] * 20, [0] * 20, [5.0] * 20, ms_per_tuple=[1.0, 1.0], overhead_ms=50.0), flux()
    assert world.epoch(policy), "delta_min is over after an epoch"
    assert world.epoch(policy) == [], "the move phase"
    assert policy.rounds.delta_ms == pytest.approx(world.busy.max() + 50.0)
    assert world.epoch(policy), "a shorter epoch would not do: it is as long as the move phase"
    for _ in range(100):
        world.epoch(policy)
    policy.rounds.delta_ms = 900.0
    before = policy.rounds.delta_ms
    for _ in range(9):
        assert world.epoch(policy) == [], "level"
    assert policy.rounds.delta_ms < before


def test_flux_levels_all_that_was_on_one_site_within_as_many_rounds_as_groups_have_to_move():
    world, policy = World([1.0] * 20, [0] * 20, [5.0] * 20, ms_per_tuple=[1.0, 1.0]), flux()
    for _ in range(40):
        world.epoch(policy)
    assert world.busy.max() <= 1.2 * world.busy.min()


def test_flux_takes_the_work_off_a_slow_site():
    world, policy = World([1.0] * 30, [g % 3 for g in range(30)], [5.0] * 30, ms_per_tuple=[3.0, 1.0, 1.0]), flux()
    before = world.busy.max()
    for _ in range(40):
        world.epoch(policy)
    assert world.busy.max() < 0.65 * before


def memory_flux(cls=FluxMemoryPolicy, **options):
    policy = cls(MemoryOptions(**options))
    policy.rounds.delta_min_ms = 1.0
    return policy


def test_flux_memory_moves_the_largest_group_that_levels_and_those_in_memory_first():
    world = World([90.0, 50.0, 20.0, 30.0], [0, 0, 0, 1], closed=(0, 1))
    assert moved(world.epoch(memory_flux())) == [([2], 0, 1)]
    assert moved(world.epoch(memory_flux())) == [([1], 0, 1)], "of 140 and 50; 90 would only change places"


def test_flux_memory_balances_what_is_on_disk_if_a_receiver_has_no_room():
    world = World([50.0, 40.0, 30.0, 30.0, 5.0], [0, 0, 0, 0, 1], closed=(1,))
    assert moved(world.epoch(memory_flux(budget_bytes=10))) == [([1], 0, 1)]


def test_flux_hybrid_minds_memory_once_anything_is_spilled_else_load():
    world = World([90.0, 10.0, 10.0, 5.0], [0, 1, 1, 1], [1.0, 80.0, 60.0, 10.0])
    assert moved(world.epoch(memory_flux(FluxHybridPolicy))) == [([1], 1, 0)]
    world = World([90.0, 10.0, 10.0, 40.0], [0, 1, 1, 0], [1.0, 80.0, 60.0, 10.0], closed=(1,))
    assert moved(world.epoch(memory_flux(FluxHybridPolicy))) == [([0], 0, 1)]


# auto


def test_weights_give_the_first_distribution_where_there_is_one_for_each_site():
    assert Counter(weighted(300, [9, 1])) == {0: 270, 1: 30}
    assert spread(4, 2, (1.0, 0.0)) == (0, 0, 0, 0)
    assert spread(4, 2, (1.0, 0.0, 3.0)) == (0, 0, 1, 1)


@pytest.mark.parametrize("weights", [[1.0], [0.0, 1.0], [1e-9, 1.0, 3.0], [1.0] * 7, [1e12, 1.0]])
def test_every_group_has_a_site_and_neighbours_are_together(weights):
    found = weighted(50, weights)
    assert len(found) == 50
    assert list(found) == sorted(found)
    assert all(weights[site] > 0 for site in found)
    share = np.array(weights) / sum(weights) * 50
    assert np.all(np.abs(np.bincount(found, minlength=len(weights)) - share) <= 1)
