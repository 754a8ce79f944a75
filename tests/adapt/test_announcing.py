"""Which moves are announced, and when announced groups move."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.moving_world import World
from tests.support.states import JOIN, empty_manifest, holding, part, run_file

from watersmeet.adapt.moving.announcing import WAIT_MOST, TakeOverPolicy, announced_first
from watersmeet.adapt.moving.auto import AutoPolicy
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.policy import MemoryOptions, Suggestion, View
from watersmeet.driver.coordinator import Coordinator
from watersmeet.model.ids import BatchId, SiteId
from watersmeet.state.applying import apply, apply_all
from watersmeet.state.changes import (
    AnnounceMove,
    ChangeRegistry,
    FinishAdaptation,
    FinishBatch,
    MoveGroups,
    ReplacePlan,
    Reroute,
    SpillGroups,
)
from watersmeet.state.groups import GroupSet

MOVE = MoveGroups(JOIN, GroupSet.of([0]), SiteId(0), SiteId(1), "mover", 70, "uneven")
TOLD = AnnounceMove(JOIN, GroupSet.of([0]), SiteId(0), SiteId(1), "mover", 70, "uneven")
HELD = holding(empty_manifest(), [run_file("x", 0, 1), run_file("y", 0, 1)], [part("x", 0, 1), part("y", 0, 1)])


class Mover:
    """A policy that always moves a group."""

    moments = frozenset({"step"})

    def __init__(self):
        self.asked = 0

    def suggest(self, view):
        del view
        self.asked += 1
        yield Suggestion(MOVE, {JOIN: MOVE.groups})


def decided(manifest, *, announces=True, hosts="ab", mover=None, to_fetch=None):
    coordinator = Coordinator.of(MemoryOptions(), 2, 1, movers=[mover or Mover()])
    coordinator.announces = announces
    executors = [f"{host}:1" for host in hosts]
    load = EpochLoad(1.0, np.zeros((1, 2)), {}, executors, dict.fromkeys(executors, 1))
    return coordinator.decide(View("step", manifest, load=load, to_fetch=to_fetch or {}))


def announced(epochs=0):
    """A manifest some epochs after that of an announcement."""
    return apply_all(HELD, [TOLD, *(FinishBatch(BatchId(number)) for number in range(epochs + 1))])


def test_a_move_to_another_host_is_announced_where_state_is_remote():
    assert decided(HELD) == [TOLD]
    assert decided(HELD, announces=False) == [MOVE]


def test_a_move_to_a_site_of_the_same_host_is_made_at_once():
    assert decided(HELD, hosts="aa") == [MOVE]


def test_what_its_site_would_have_to_spill_moves_at_once():
    load = EpochLoad(1.0, np.zeros((1, 2)), {}, ("a:1", "b:1"), {"a:1": 1, "b:1": 1})
    view, suggestion = View("step", HELD, load=load), Suggestion(MOVE, {JOIN: MOVE.groups})
    assert announced_first(suggestion, view, MemoryOptions(1)).what == MOVE
    assert announced_first(suggestion, view, MemoryOptions(1 << 30)).what == TOLD


def test_no_policy_moves_groups_while_others_are_announced():
    mover = Mover()
    assert decided(announced(), mover=mover, to_fetch={(0, SiteId(1)): 10}) == []
    assert mover.asked == 0


@pytest.mark.parametrize(("left", "waits"), [(0, 1), (10, WAIT_MOST)])
def test_groups_move_when_all_was_fetched_or_after_some_epochs(left, waits):
    epochs = next(n for n in range(WAIT_MOST + 1) if decided(announced(n), to_fetch={(0, SiteId(1)): left}))
    assert epochs + 1 == waits
    [move] = decided(announced(epochs), to_fetch={(0, SiteId(1)): left})
    assert (move.operator, move.groups, move.before, move.after, move.policy) == (JOIN, MOVE.groups, 0, 1, "mover")
    assert move.reason.startswith("uneven; announced ")
    after = apply(announced(epochs), move)
    assert after.announced == ()
    assert after.operators[JOIN].routing[0] == 1


def test_a_step_of_cleanup_at_other_levels_does_not_tell_that_all_was_fetched():
    above = apply(announced(), FinishAdaptation())
    assert decided(above, to_fetch={(1, SiteId(0)): 0, (1, SiteId(1)): 0}) == []
    [move] = decided(announced(WAIT_MOST), to_fetch={(1, SiteId(1)): 0})
    assert move.reason == "uneven; announced 6 epochs ago, and it is not known how much is still to be fetched"


def test_steps_of_cleanup_do_not_make_it_impatient():
    cleaned = apply_all(announced(), [FinishAdaptation()] * 3 * WAIT_MOST)
    assert decided(cleaned, to_fetch={(0, SiteId(1)): 10}) == []


def test_a_site_that_would_spill_is_relieved_while_others_are_announced():
    held = AnnounceMove(JOIN, GroupSet.of([1]), SiteId(0), SiteId(1), "auto", 9, "uneven")
    world = World([30.0] * 8, [0] * 7 + [1])
    policy = AutoPolicy(MemoryOptions(150))
    coordinator = Coordinator.of(MemoryOptions(150), 2, 1, movers=[policy, Mover()])
    view = View("step", apply_all(world.manifest, [held, FinishAdaptation()]), load=world.load)
    moves = [each for each in coordinator.decide(view) if isinstance(each, MoveGroups)]
    assert [(each.before, each.after, each.policy) for each in moves] == [(0, 1, "auto")]
    assert "no spill needed" in moves[0].reason
    assert 1 not in moves[0].groups, "it is announced"


def test_what_is_announced_to_a_site_leaves_it_less_room_for_others():
    coming = AnnounceMove(JOIN, GroupSet.of([1, 2]), SiteId(0), SiteId(1), "auto", 60, "uneven")
    world = World([30.0] * 8, [0] * 6 + [1] * 2)
    policy = AutoPolicy(MemoryOptions(150))

    def relieved(*changes):
        view = View("step", apply_all(world.manifest, [*changes, FinishAdaptation()]), load=world.load)
        return [each.what for each in policy.suggest(replace(view, under_way=bool(changes)))]

    assert [(each.before, each.after) for each in relieved()] == [(0, 1)]
    assert relieved(coming) == [], "60 bytes are there, 60 are coming, and 30 more would be all there is room for"


def test_what_would_be_spilled_at_the_limit_of_the_registry_is_not_announced():
    policy = AutoPolicy(MemoryOptions(300))
    coordinator = Coordinator.of(MemoryOptions(300), 2, 1, movers=[policy])
    coordinator.announces = True
    coordinator.change_registry(coordinator.registry.with_threshold("MemoryLimitReached", 0.5), "a test")
    world = World([30.0] * 8, [0] * 7 + [1], executors=["a:1", "b:1"])
    found = coordinator.decide(View("step", world.manifest, load=world.load))
    assert [type(each) for each in found if not isinstance(each, ChangeRegistry)] == [MoveGroups]


def test_what_is_announced_stays_at_its_site_until_it_moves():
    manifest = announced()
    assert manifest.operators[JOIN].routing == HELD.operators[JOIN].routing
    [told] = manifest.announced
    assert (told.groups, told.after, told.since) == (TOLD.groups, 1, manifest.version)


@pytest.mark.parametrize(
    "change",
    [
        Reroute({JOIN: (SiteId(0),) * 4}, 1),
        ReplacePlan(HELD.plan, {}),
        MoveGroups(JOIN, GroupSet.of([0, 1]), SiteId(0), SiteId(1)),
    ],
)
def test_other_sites_another_plan_and_another_move_call_it_off(change):
    assert apply(announced(), change).announced == ()


def test_a_spill_does_not_call_it_off():
    assert apply(announced(), SpillGroups(SiteId(0), {JOIN: GroupSet.of([0])})).announced


def test_nothing_is_taken_over_in_the_step_that_announces():
    assert list(TakeOverPolicy().suggest(View("step", apply(HELD, TOLD)))) == []
