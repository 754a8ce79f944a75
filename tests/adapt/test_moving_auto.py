"""The policy `auto`: when it moves, when it waits, and what it leaves alone."""

import numpy as np
from tests.support.moving_world import World

from watersmeet.adapt.moving.auto import WATCHED_LEAST, AutoPolicy
from watersmeet.adapt.policy import MemoryOptions


def run(world, policy, epochs=20):
    return [change for _ in range(epochs) for change in world.epoch(policy)]


def skewed(groups=40, **options):
    return World([1000.0] * groups, [0] * groups, [10.0] * groups, ms_per_tuple=[1.0, 1.0], **options)


def test_auto_levels_all_that_was_on_one_site_at_once_when_it_has_watched_for_a_while():
    world, policy = skewed(), AutoPolicy()
    assert run(world, policy, WATCHED_LEAST) == [], "the first epoch tells nothing, and some are watched"
    [change] = run(world, policy, 1)
    assert (len(change.groups), change.before, change.after) == (20, 0, 1)
    assert change.reason == "the slowest sites take 400 ms of an epoch, levelled 200 ms; watched for 3 epochs"
    assert run(world, policy, 50) == [], "it is level"


def test_auto_relieves_several_sites_that_have_equally_much_to_do():
    world = World([10.0] * 80, [g % 2 for g in range(80)], [10.0] * 80, ms_per_tuple=[1.0] * 4)
    assert len(run(world, AutoPolicy(), 5)) >= 2
    assert world.busy.tolist() == [200.0] * 4


def test_auto_relieves_an_executor_and_not_a_site_of_it():
    """Two sites on each of two executors, which have one process: what goes to the same executor gains nothing."""
    executors = ["one", "one", "other", "other"]
    world = World([10.0] * 40, [0] * 40, [10.0] * 40, ms_per_tuple=[1.0] * 4, executors=executors)
    run(world, AutoPolicy(), 9)
    assert world.busy[:2].sum() == world.busy[2:].sum() == 200.0
    world.routing = [g % 2 for g in range(20)] + [2] * 20
    assert run(world, AutoPolicy(), 9) == [], "the executors are level"


def test_auto_does_nothing_where_one_process_does_all():
    world = skewed(executors=["one", "one"])
    assert run(world, AutoPolicy(), 50) == []


def test_auto_takes_the_work_off_a_slow_site_by_its_measure():
    world = World([9.0] * 60, [g % 3 for g in range(60)], [10.0] * 60, ms_per_tuple=[3.0, 1.0, 1.0])
    assert run(world, AutoPolicy(), 40)
    assert world.busy.max() < 1.15 * world.busy.min(), world.busy


def test_auto_leaves_even_loads_alone_whatever_chance_does():
    rng, policy = np.random.default_rng(4), AutoPolicy()
    world = World([1000.0] * 300, [g % 4 for g in range(300)])
    for _ in range(200):
        world.tuples = rng.poisson(20, 300).astype(float).tolist()
        world.ms_per_tuple = rng.normal(1.0, 0.1, 4).tolist()
        assert world.epoch(policy) == []


def test_auto_does_not_move_a_lone_hot_group_back_and_forth():
    world = World([10.0] * 4, [0, 0, 1, 1], [1000.0, 1.0, 1.0, 1.0])
    assert run(world, AutoPolicy(), 60) == []


def test_auto_does_not_bother_with_gains_that_nobody_would_notice():
    assert run(skewed(overhead_ms=9000.0), AutoPolicy(), 60) == []


def test_auto_moves_nothing_that_costs_more_than_it_will_bring():
    world = skewed()
    policy = AutoPolicy(cost_ms_per_byte=1.0)
    assert run(world, policy, 60) == [], "20,000 ms for 200 ms an epoch"
    assert run(world, policy, 60), "after a hundred epochs it has lasted long enough to last"


def test_auto_waits_twice_as_long_each_time_moves_do_not_pay_and_tells():
    """Whichever site has most to do becomes slow: moves are undone by the world, as by a hot spot that wanders."""
    world, policy, times, reasons = skewed(), AutoPolicy(), [], []
    for epoch in range(400):
        changes = world.epoch(policy)
        if changes:
            times.append(epoch)
            reasons.append(changes[0].reason)
            world.routing, world.tuples = [1 - world.routing[0]] * 40, world.tuples
    gaps = np.diff(times)
    assert len(times) < 12, times
    assert gaps[-1] >= 8 * gaps[0], times
    assert "brought 0% of what was expected" in reasons[-1]


def test_auto_watches_less_long_again_when_moves_pay():
    world, policy = skewed(), AutoPolicy(wanted=32)
    run(world, policy, 80)
    assert world.busy.max() == world.busy.min()
    world.routing = [0] * 40
    run(world, policy, 80)
    assert policy.wanted < 32
    assert world.busy.max() == world.busy.min()


def test_auto_moves_instead_of_spilling_while_there_is_room_elsewhere():
    world = World([10.0] * 12, [0] * 11 + [1], output=[float(g) for g in range(12)])
    [change] = world.epoch(AutoPolicy(MemoryOptions(100)))
    assert (list(change.groups), change.before, change.after) == ([6, 7, 8, 9, 10], 0, 1)
    assert "no spill needed" in change.reason


def test_auto_leaves_it_to_spills_where_there_is_no_room():
    world = World([10.0] * 20, [0] * 11 + [1] * 9)
    assert run(world, AutoPolicy(MemoryOptions(100)), 20) == []


# distributions
