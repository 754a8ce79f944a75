"""What has to go is chosen among all sites, and better groups take its place."""

import numpy as np
from tests.support.moving_world import World

from watersmeet.adapt.moving.exchanging import ExchangePolicy
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.state.changes import MoveGroups, SpillGroups

GOOD, POOR = 90.0, 1.0


def two_sites(first, second, **options):
    """Groups of ten bytes on two sites, with so many results each."""
    output = [*first, *second]
    routing = [0] * len(first) + [1] * len(second)
    return World([10.0] * len(output), routing, output=output, **options)


def decided(world, budget=100):
    return world.epoch(ExchangePolicy(MemoryOptions(budget, "local-output")))


def test_poor_groups_of_a_site_with_room_go_instead_of_good_ones_of_a_full_one():
    world = two_sites([GOOD] * 11, [POOR] * 9)
    spill, move = decided(world)
    assert isinstance(spill, SpillGroups)
    assert isinstance(move, MoveGroups)
    assert (spill.site, spill.spilled_bytes) == (1, 40), "at least 30 % of the 110 bytes at site 0"
    assert (move.before, move.after, move.bytes) == (0, 1, 30)
    assert "those that go had 4 results; by each site alone, 360" in spill.reason


def test_productive_groups_are_those_that_move():
    output = [GOOD + number for number in range(11)]
    _, move = decided(two_sites(output, [POOR] * 9))
    assert move.groups.numbers.tolist() == [8, 9, 10]


def test_it_is_left_to_spills_where_groups_are_alike():
    assert decided(two_sites([5.0] * 11, [5.0] * 9)) == []


def test_it_is_left_to_spills_where_the_full_site_has_the_poor_groups():
    assert decided(two_sites([POOR] * 11, [GOOD] * 9)) == []


def test_nothing_goes_while_no_site_is_above_its_limit():
    assert decided(two_sites([GOOD] * 10, [POOR] * 9)) == []


def test_the_limit_is_a_share_of_the_budget_if_the_registry_says_so():
    world = two_sites([GOOD] * 10, [POOR] * 8)
    assert world.epoch(ExchangePolicy(MemoryOptions(100, "local-output", share=0.9)))


def test_no_site_ends_above_its_limit_nor_is_a_spilled_group_moved():
    world = two_sites([GOOD] * 14, [POOR] * 10, closed=(13,))
    changes = decided(world)
    moved = [number for each in changes if isinstance(each, MoveGroups) for number in each.groups]
    gone = [
        number for each in changes if isinstance(each, SpillGroups) for part in each.groups.values() for number in part
    ]
    live = np.array(world.bytes)
    live[[13, *gone]] = 0
    assert changes
    assert 13 not in moved
    assert np.bincount(world.routing, live).max() <= 100


def test_one_process_that_does_all_exchanges_nothing():
    assert decided(two_sites([GOOD] * 11, [POOR] * 9, executors=["one", "one"])) == []
