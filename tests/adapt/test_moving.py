"""Policies that move groups: what they suggest for sizes and loads made by hand."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.support.states import JOIN, PLAN

from watersmeet.adapt.moving.active_disk import ActiveDiskPolicy
from watersmeet.adapt.moving.auto import WATCHED_LEAST, AutoPolicy
from watersmeet.adapt.moving.distribution import spread, weighted
from watersmeet.adapt.moving.flux import FluxPolicy
from watersmeet.adapt.moving.flux_hybrid import FluxHybridPolicy
from watersmeet.adapt.moving.flux_memory import FluxMemoryPolicy
from watersmeet.adapt.moving.lazy_disk import LazyDiskPolicy
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.memory import MemoryPolicy
from watersmeet.adapt.moving.policies import ADAPTATIONS, MEANINGS, NAMES
from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.adapt.statistics import Observation, Statistics
from watersmeet.model.ids import InputName, RunId, SiteId
from watersmeet.state.changes import MoveGroups, SpillGroups, apply
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, OperatorState, RowSet, RunFile, Slice
from watersmeet.state.vectors import Vector


@dataclass
class World:
    """One operator's groups: bytes and tuples of each, on sites of given speeds; moves that a policy makes are made."""

    bytes: list[float]
    routing: list[int]
    tuples: list[float] = field(default_factory=list)
    output: list[float] = field(default_factory=list)
    closed: tuple[int, ...] = ()
    ms_per_tuple: list[float] = field(default_factory=list)
    executors: list[str] | None = None
    overhead_ms: float = 20.0

    def __post_init__(self):
        self.sites = max(max(self.routing) + 1, len(self.ms_per_tuple))
        self.tuples = self.tuples or [0.0] * len(self.bytes)
        self.ms_per_tuple = self.ms_per_tuple or [1.0] * self.sites
        self.executors = self.executors or [f"executor {site}" for site in range(self.sites)]

    @property
    def manifest(self):
        groups = len(self.bytes)
        held = GroupSet.of(range(groups))
        ones, sizes = Vector.of([1] * groups), Vector.of([int(size) for size in self.bytes])
        total = int(sum(self.bytes))
        run = RunFile(RunId("x"), "x", JOIN, InputName("A"), held, groups, total, 0, ones, sizes)
        closed = GroupSet.of(self.closed)
        slices = [Slice(run.id, RowSet(held - closed)), Slice(run.id, RowSet(closed), 1, "disk")]
        output = Vector.of(self.output) if self.output else Vector()
        state = OperatorState(tuple(map(SiteId, self.routing)), tuple(s for s in slices if s.rows), output)
        return Manifest("q", PLAN, groups, self.sites, {JOIN: state}, {run.id: run}, version=5)

    @property
    def busy(self):
        work = np.bincount(self.routing, self.tuples, minlength=self.sites)
        return work * np.array(self.ms_per_tuple)

    @property
    def load(self):
        busy, places = self.busy, Counter(self.executors)
        duration = max(busy.max(), 1.0) + self.overhead_ms
        workers = dict.fromkeys(places, 1)
        results = {JOIN: np.array(self.output or [0.0] * len(self.bytes))}
        return EpochLoad(duration, busy[None, :], {JOIN: np.array(self.tuples)}, self.executors, workers, results)

    def epoch(self, policy):
        """An epoch goes by; gives what the policy suggests after it, and makes its moves."""
        sizes, output = np.array(self.bytes), np.array(self.output or [0.0] * len(self.bytes))
        known = Statistics.cold(len(sizes)).after(Observation(sizes, output, output, np.zeros(len(sizes))), 1)
        found = [each.what for each in policy.suggest(View("step", self.manifest, {JOIN: known}, load=self.load))]
        for change in found:
            if isinstance(change, MoveGroups):
                self.routing = list(apply(self.manifest, change).operators[JOIN].routing)
        return found


def moved(changes):
    return [(list(each.groups), each.before, each.after) for each in changes]


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
            world.routing = [0] * 9 + [1]
    assert times == [0, 4, 8]


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
