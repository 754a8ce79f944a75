"""The policy `auto`: when it moves, when it waits, and what it leaves alone."""

import numpy as np
import pytest
from tests.support.moving_world import World
from tests.support.states import JOIN

from watersmeet.adapt.moving.auto import WATCHED_LEAST, AutoPolicy
from watersmeet.adapt.moving.judging import SLACK, Ledger, Trial
from watersmeet.adapt.moving.pieces import Pieces
from watersmeet.adapt.moving.watching import Epoch
from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.model.ids import SiteId
from watersmeet.state.applying import apply_all
from watersmeet.state.changes import ChangePatience, FinishAdaptation, MoveGroups, SpillGroups
from watersmeet.state.groups import GroupSet


def run(world, policy, epochs=20):
    return [change for _ in range(epochs) for change in world.epoch(policy)]


def moves_of(changes):
    return [each for each in changes if isinstance(each, MoveGroups)]


def skewed(groups=40, **options):
    return World([1000.0] * groups, [0] * groups, [10.0] * groups, ms_per_tuple=[1.0, 1.0], **options)


def hot(world, first, times=10.0):
    """Ten of the groups have ten times as many tuples as the others."""
    world.tuples = [10.0 * times if first <= g < first + 10 else 10.0 for g in range(len(world.bytes))]


def test_auto_levels_all_that_was_on_one_site_at_once_as_counts_tell_enough():
    world, policy = skewed(), AutoPolicy()
    assert run(world, policy, 1) == [], "the first epoch warms everything up"
    [change] = run(world, policy, 1)
    assert (len(change.groups), change.before, change.after) == (20, 0, 1)
    assert change.reason == "the slowest sites take 400 ms of an epoch, levelled 200 ms; watched for 1 epoch"
    assert run(world, policy, 50) == [], "it is level"


def test_auto_watches_a_site_that_is_slow_by_the_clock_for_longer():
    world = World([9.0] * 60, [g % 2 for g in range(60)], [10.0] * 60, ms_per_tuple=[3.0, 1.0])
    policy = AutoPolicy()
    assert run(world, policy, WATCHED_LEAST) == []
    assert run(world, policy, 1)


@pytest.mark.parametrize("stay", [4, 8])
def test_auto_follows_a_hot_spot_that_rotates(stay):
    world, policy, behind = World([10.0] * 80, [g // 20 for g in range(80)], [10.0] * 80), AutoPolicy(), []
    for epoch in range(12 * stay):
        hot(world, epoch // stay % 4 * 20)
        behind.append(float(world.busy.max() / world.busy.mean()))
        world.epoch(policy)
    late = [behind[epoch] for epoch in range(stay, len(behind)) if epoch % stay]
    assert max(late) < 1.1, "from the second epoch at a place on"


def test_auto_follows_it_also_where_clocks_are_off_by_a_third_as_counts_are_not():
    rng, policy = np.random.default_rng(10), AutoPolicy()
    world, behind = World([10.0] * 80, [g // 20 for g in range(80)], [10.0] * 80), []
    for epoch in range(160):
        hot(world, epoch // 8 % 4 * 20)
        world.ms_per_tuple = rng.lognormal(0.0, 0.33, 4).tolist()
        loads = np.bincount(world.routing, world.tuples, 4)
        behind.append(float(loads.max() / loads.mean()))
        world.epoch(policy)
    assert np.mean(behind) < 1.35, "2.6 if nothing moves"


def test_auto_stays_where_it_is_if_the_hot_spot_is_never_twice_at_a_place():
    world, policy = World([10.0] * 80, [g // 20 for g in range(80)], [10.0] * 80), AutoPolicy()
    times = []
    for epoch in range(200):
        hot(world, epoch % 4 * 20)
        times += [epoch] * bool(moves_of(world.epoch(policy)))
    assert len(times) <= 6, times


def test_auto_sees_a_new_pattern_only_where_counts_explain_times():
    """Tuples are elsewhere, but the time goes with something else."""
    world, policy = World([10.0] * 80, [g // 20 for g in range(80)], [10.0] * 80), AutoPolicy()
    run(world, policy, 6)
    hot(world, 20)
    world.ms_per_tuple = [4.0, 0.2, 1.0, 1.0]
    assert run(world, policy, 1) == []


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
    policy = AutoPolicy(ledger=Ledger(ms_per_byte=1.0))
    assert run(world, policy, 60) == [], "20,000 ms for 200 ms an epoch"
    assert run(world, policy, 60), "after a hundred epochs it has lasted long enough to last"


def paid(ledger, moved_bytes, extra_ms):
    """What moves cost that made the first epoch so much longer."""
    world = skewed()
    world.tuples = [1000.0] * 40
    view = View("step", world.manifest, load=world.load)
    epoch = Epoch.of(view, Pieces.of(view), world.load)
    rate = np.ones((1, 2)) * (epoch.slowest_ms - extra_ms) / SLACK / epoch.slowest_ms
    ledger.pay(Trial(np.array([0]), np.array([0]), moved_bytes), epoch, rate)


def test_a_small_move_does_not_make_all_others_dear():
    ledger = Ledger()
    paid(ledger, 0.0, extra_ms=50.0)
    assert ledger.cost_ms(50e6) < 200, "the disk gives some hundred megabytes a second"
    dear = Ledger()
    paid(dear, 1e9, extra_ms=30_000.0)
    assert dear.cost_ms(50e6) > 400, "a price that was seen of much is believed"
    for _ in range(1_000):
        dear.rest()
    assert dear.cost_ms(50e6) < 100, "but not for ever"


def test_what_moves_within_an_executor_costs_nothing_to_open():
    world = World([1e6] * 80, [group // 20 for group in range(80)], executors=["a", "a", "b", "b"])
    world.tuples = [40.0 if group < 20 else 10.0 for group in range(80)]
    policy, found = AutoPolicy(), []
    while not found:
        found = moves_of(run(world, policy, 1))
    within = [each for each in found if world.executors[each.before] == world.executors[each.after]]
    apart = [each for each in found if each not in within]
    assert within, "sites of an executor are levelled, too"
    assert apart
    run(world, policy, 1)
    assert policy.trial is not None
    assert policy.trial.bytes == sum(each.bytes for each in apart)


def wandering(world, policy, epochs=400):
    """Whichever site has less to do becomes hot as soon as groups have moved: what was done is undone by the world."""
    times, others = [], []
    for epoch in range(epochs):
        for change in world.epoch(policy):
            if isinstance(change, MoveGroups):
                times.append(epoch)
                heavy = np.flatnonzero(np.array(world.routing) == change.after)[:20]
                world.tuples = [30.0 if g in set(heavy.tolist()) else 1.0 for g in range(len(world.bytes))]
            else:
                others.append(change)
    return sorted(set(times)), others


def test_auto_waits_twice_as_long_each_time_moves_do_not_pay_and_tells():
    world, policy = skewed(), AutoPolicy()
    times, told = wandering(world, policy)
    gaps = np.diff(times)
    assert len(times) < 16, times
    assert gaps[-1] >= 8 * gaps[0], times
    assert [(each.policy, each.before, each.after) for each in told[:2]] == [("auto", 3, 6), ("auto", 6, 12)]
    assert told[0].reason.startswith("the moves before got -")


def test_auto_counts_what_moves_got_even_if_the_load_has_gone_on():
    """Five epochs gained, one lost: by the time per tuple before and after, that would have been a loss."""
    world, policy = World([10.0] * 80, [g // 20 for g in range(80)], [10.0] * 80), AutoPolicy()
    found = []
    for epoch in range(40):
        hot(world, epoch // 5 % 4 * 20, times=10.0 + epoch)
        found += world.epoch(policy)
    assert not [each for each in found if isinstance(each, ChangePatience)]
    assert len({each.reason for each in moves_of(found)}) >= 7


def test_auto_watches_less_long_again_when_moves_pay():
    world, policy = skewed(), AutoPolicy(ledger=Ledger(patience=8))
    found = run(world, policy, 40)
    assert world.busy.max() == world.busy.min()
    assert policy.ledger.patience < 8
    assert (found[1].before, found[1].after) == (24, 12)
    assert found[1].reason.startswith("the moves before got ")


def test_auto_takes_only_moves_that_were_made_for_its_own():
    """The coordinator refuses what touches groups that are being cleaned, and then nothing is to be judged."""
    world, policy, refused = skewed(), AutoPolicy(), 0
    for _ in range(5):
        before = list(world.routing)
        refused += bool(world.epoch(policy))
        world.routing = before
        assert policy.trial is None
    assert refused == 4, "it is suggested again, as nothing was done"
    world.epoch(policy)
    assert run(world, policy, WATCHED_LEAST + 1) == []
    assert policy.ledger.patience == 1
    assert policy.ledger.got_ms > 0


def test_auto_leaves_groups_alone_that_are_being_cleaned():
    world, policy = skewed(), AutoPolicy()
    world.epoch(policy)
    busy = {JOIN: GroupSet.of(range(30))}
    found = policy.suggest(View("step", world.manifest, load=world.load, busy=busy))
    assert {group for each in found for group in each.what.groups} == set(range(30, 40))


def test_the_epoch_that_opens_what_has_moved_is_no_new_pattern():
    """What moves may be held up meanwhile, as in Flux: its tuples are missing in that epoch, and come later."""
    world, policy = World([10.0] * 80, [g // 20 for g in range(80)], [10.0] * 80), AutoPolicy()
    run(world, policy, 6)
    hot(world, 0)
    moved = {group for change in run(world, policy, 1) for group in change.groups}
    world.tuples = [0.0 if g in moved else each for g, each in enumerate(world.tuples)]
    assert moved
    assert run(world, policy, 1) == []
    hot(world, 0)
    assert run(world, policy, 20) == []
    assert policy.ledger.patience == 1


def test_auto_goes_on_while_groups_are_parked_and_takes_them_for_what_they_were():
    world, policy = World([10.0] * 80, [g // 20 for g in range(80)], [10.0] * 80), AutoPolicy()
    run(world, policy, 6)
    parked = [SpillGroups(SiteId(1), {JOIN: GroupSet.of([20, 21])}, epoch_ms=(2, 1)), FinishAdaptation()]
    world.tuples[20:22] = [0.0, 0.0]
    world.ms_per_tuple = [3.0, 1.0, 1.0, 1.0]
    found = []
    for _ in range(12):
        view = View("step", apply_all(world.manifest, parked), load=world.load)
        changes = [each.what for each in policy.suggest(view)]
        world.routing = list(apply_all(world.manifest, changes).operators[JOIN].routing)
        found += changes
    assert moves_of(found)
    assert not {20, 21} & {group for each in moves_of(found) for group in each.groups}
    assert world.busy.max() < 350


def test_auto_moves_instead_of_spilling_while_there_is_room_elsewhere():
    world = World([10.0] * 12, [0] * 11 + [1], output=[float(g) for g in range(12)])
    [change] = world.epoch(AutoPolicy(MemoryOptions(100)))
    assert (list(change.groups), change.before, change.after) == ([6, 7, 8, 9, 10], 0, 1)
    assert "no spill needed" in change.reason


def test_auto_leaves_it_to_spills_where_there_is_no_room():
    world = World([10.0] * 20, [0] * 11 + [1] * 9)
    assert run(world, AutoPolicy(MemoryOptions(100)), 20) == []


# distributions
