"""Groups too hot for one site: when they are split, over which sites and by which input, and when they are whole."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.moving_world import World
from tests.support.states import JOIN, A

from watersmeet.adapt.moving.auto import AutoPolicy
from watersmeet.adapt.moving.hot import WATCHED_LEAST, HotGroupPolicy
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.policies import policies_of
from watersmeet.adapt.moving.splitting import Asked, by_site
from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.driver.coordinator import Coordinator
from watersmeet.model.ids import InputName
from watersmeet.state.applying import apply
from watersmeet.state.changes import MoveGroups, SplitGroup
from watersmeet.state.manifest import Cleaning

B = InputName("B")


class HotWorld(World):
    """A world in which rows of two inputs come to groups; splits that a policy makes are made."""

    splits = ()

    def rows_are(self, of_a, of_b):
        self.rows = np.array([of_a, of_b], dtype=np.float64)
        self.tuples = self.rows.sum(axis=0).tolist()
        return self

    @property
    def manifest(self):
        manifest = super().manifest
        return replace(manifest, operators={JOIN: replace(manifest.operators[JOIN], splits=self.splits)})

    @property
    def busy(self):
        manifest = self.manifest
        asked = Asked(self.rows, np.zeros(len(self.bytes)))
        return by_site(manifest, manifest.plan.root, asked) * np.array(self.ms_per_tuple)

    @property
    def load(self):
        load = super().load
        return EpochLoad(
            load.duration_ms, load.busy_ms, load.tuples, load.executors, load.workers, load.results, {JOIN: self.rows}
        )

    def epoch(self, policy):
        found = [each.what for each in policy.suggest(View("step", self.manifest, load=self.load))]
        for change in found:
            after = apply(self.manifest, change).operators[JOIN]
            self.splits, self.routing = after.splits, list(after.routing)
        return found


def run(world, policy, epochs=20):
    return [change for _ in range(epochs) for change in world.epoch(policy)]


def one_hot(sites=2, hot=400.0, groups=20, **options):
    """One group has most rows, all of them of B but for ten."""
    routing = [group % sites for group in range(groups)]
    world = HotWorld([100.0] * groups, routing, ms_per_tuple=[1.0] * sites, **options)
    return world.rows_are([10.0] * groups, [hot] + [0.0] * (groups - 1))


def test_a_hot_group_is_split_over_two_sites_once_it_was_watched_and_stays_so():
    world, policy = one_hot(), HotGroupPolicy()
    assert run(world, policy, WATCHED_LEAST) == [], "the first epoch tells nothing, and some are watched"
    [change] = run(world, policy, 1)
    assert (change.group, change.input, change.before, change.after) == (0, B, (0,), (0, 1))
    assert change.reason == (
        "group 0 alone takes 410 ms of an epoch, levelled sites 300 ms: "
        "rows of B go to one of 2 sites, all others to each"
    )
    assert (change.policy, change.tuples) == ("auto", 410)
    assert world.busy.tolist() == [300.0, 310.0], "rows of A are read by both"
    assert run(world, policy, 50) == []


@pytest.mark.parametrize("hot", [0.0, 100.0, 200.0])
def test_a_group_that_moves_can_level_is_not_split(hot):
    assert run(one_hot(hot=hot), HotGroupPolicy(), 50) == []


def test_as_many_sites_share_a_group_as_make_the_slowest_noticeably_quicker():
    world = one_hot(sites=8, hot=4000.0, groups=80)
    [change] = run(world, HotGroupPolicy(), 10)
    assert len(change.after) == 8
    assert world.busy.max() < 4000 / 5
    world = one_hot(sites=8, hot=230.0, groups=80)
    [change] = run(world, HotGroupPolicy(), 10)
    assert 2 <= len(change.after) <= 5


def test_sites_of_one_process_share_nothing():
    assert run(one_hot(executors=["one", "one"]), HotGroupPolicy(), 50) == []
    world = one_hot(sites=4, executors=["one", "one", "other", "other"], hot=1000.0)
    [change] = run(world, HotGroupPolicy(), 10)
    assert change.after in {(0, 2), (0, 3)}, "another site of the same process would gain nothing"


def test_a_group_is_whole_again_when_it_has_cooled_and_waits_longer_the_next_time():
    world, policy = one_hot(), HotGroupPolicy()
    assert run(world, policy, 10)
    world.rows_are([10.0] * 20, [10.0] + [0.0] * 19)
    [change] = run(world, policy, 20)
    assert (change.before, change.after) == ((0, 1), (0,))
    assert "takes" in change.reason
    assert world.splits == ()
    world.rows_are([10.0] * 20, [400.0] + [0.0] * 19)
    split, told, relaxed = run(world, policy, 20)
    assert len(split.after) > 1
    assert (told.policy, told.before, told.after) == ("auto", WATCHED_LEAST, 2 * WATCHED_LEAST)
    assert told.reason == "group 0 had to be split again"
    assert (relaxed.before, relaxed.after) == (2 * WATCHED_LEAST, WATCHED_LEAST)
    assert relaxed.reason == "nothing has changed for 12 epochs"


def test_a_split_that_was_refused_does_not_count_as_one():
    world, policy = one_hot(), HotGroupPolicy()
    for _ in range(8):
        run(world, policy, 1)
        world.splits = ()
    assert policy.wanted == WATCHED_LEAST
    assert len(run(world, policy, 1)) == 1, "it is suggested again at once"


def test_a_site_without_room_takes_no_part_and_one_that_runs_short_gives_its_part_back():
    options = MemoryOptions(budget_bytes=1200)
    world = one_hot()
    assert run(world, HotGroupPolicy(options), 10)
    world.bytes = [150.0] * 20
    [change] = run(world, HotGroupPolicy(options), 1)
    assert change.after == (0,)
    assert change.reason == "a site that shares group 0 exceeds memoryBudget 1200"
    assert run(world, HotGroupPolicy(options), 20) == [], "no site has room"


def test_a_site_that_runs_short_gives_its_part_back_though_one_process_does_all():
    world = one_hot()
    assert run(world, HotGroupPolicy(), 10)
    world.bytes, world.executors = [150.0] * 20, ["one"] * 2
    [change] = run(world, HotGroupPolicy(MemoryOptions(budget_bytes=1200)), 1)
    assert change.after == (0,)


@pytest.mark.parametrize(("adaptation", "whole"), [("none", True), ("memory", True), ("auto", False)])
def test_a_run_that_splits_no_groups_begins_with_whole_ones(adaptation, whole):
    world, options = one_hot(), MemoryOptions()
    assert run(world, HotGroupPolicy(), 10)
    coordinator = Coordinator.of(options, world.sites, 1, movers=policies_of(adaptation, options))
    changes = coordinator.decide(View("start", replace(world.manifest, cleaning=Cleaning(JOIN, (0,), 100))))
    assert [change.after for change in changes] == ([(0,)] if whole else [])
    assert all(change.reason for change in changes)


def test_several_hot_groups_are_split_one_after_the_other():
    world = HotWorld([1.0] * 40, [group % 4 for group in range(40)], ms_per_tuple=[1.0] * 4)
    world.rows_are([500.0, 500.0] + [2.0] * 38, [1.0] * 40)
    changes = run(world, HotGroupPolicy(), 40)
    assert sorted(change.group for change in changes) == [0, 1]
    assert {change.input for change in changes} == {A}
    assert world.busy.max() < 350


def test_auto_moves_other_groups_around_those_that_are_split():
    world = one_hot(hot=2000.0)
    world.routing = [0] * 20
    hot, auto = HotGroupPolicy(), AutoPolicy()
    changes = [change for _ in range(30) for change in [*world.epoch(hot), *world.epoch(auto)]]
    assert [type(change) for change in changes].count(SplitGroup) == 1
    moves = [change for change in changes if isinstance(change, MoveGroups)]
    assert moves
    assert not any(0 in change.groups for change in moves)
    assert world.busy.max() < 1.1 * world.busy.min(), world.busy
