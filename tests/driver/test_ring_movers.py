"""A policy that gives rings their length and those that move all other groups work side by side."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.adapt.moving.pieces import Pieces
from watersmeet.adapt.policy import MemoryOptions, Suggestion, View
from watersmeet.adapt.ring.length import RingPolicy
from watersmeet.api.options import Options, refuse_without_ring
from watersmeet.driver.checkpoint import Expectation
from watersmeet.driver.coordinator import Coordinator
from watersmeet.driver.start import DriverOptions, _movers
from watersmeet.model.errors import OptionError
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.changes import MoveGroups
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, OperatorState

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
A, B, C = (StreamNode(name, SCHEMA, "ts", 10_000_000, 0) for name in "ABC")
EQUAL = JoinNode((A, B), "A.k = B.k")
MIXED = plan(Query(JoinNode((EQUAL, C), "A.x < C.x")))
PLAIN = plan(Query(EQUAL))
KEYED, RING = (OperatorId(name) for name in ("join1", "join2"))
GROUPS = 4


def options_for(made, **options):
    return DriverOptions("d", Expectation("q", made, GROUPS, GROUPS, 2, ()), MemoryOptions(), **options)


def names_of(movers):
    return [type(each).__name__ for each in movers]


def test_a_goal_for_rings_leaves_the_other_movers_as_they_are():
    assert [operator.kind for operator in MIXED.operators] == ["join", "ring"]
    auto = names_of(_movers(options_for(PLAIN)))
    assert names_of(_movers(options_for(MIXED, ring_goal="latency"))) == ["RingPolicy", *auto]
    assert names_of(_movers(options_for(MIXED, ring_goal="latency", adaptation="flux"))) == [
        "RingPolicy", "FluxPolicy", "ParkPolicy",
    ]  # fmt: skip
    assert names_of(_movers(options_for(MIXED, ring_goal="latency", adaptation="none"))) == ["RingPolicy"]
    assert names_of(_movers(options_for(PLAIN, ring_goal="latency"))) == auto


@dataclass
class Moves:
    """Wants to move a group of each operator; remembers what it was told to leave alone."""

    seen: list[View] = field(default_factory=list)
    moments: frozenset[str] = frozenset({"step"})

    def suggest(self, view):
        self.seen.append(view)
        for operator in (KEYED, RING):
            move = MoveGroups(operator, GroupSet.of([1]), SiteId(0), SiteId(1), "all", reason="why not")
            yield Suggestion(move, {operator: move.groups})


@pytest.mark.parametrize(("goal", "moved"), [("latency", [KEYED]), (None, [KEYED, RING])])
def test_groups_of_a_ring_are_moved_by_the_policy_that_gives_it_its_length(goal, moved):
    other, ring = Moves(), [] if goal is None else [RingPolicy(goal)]
    coordinator = Coordinator.of(MemoryOptions(), 2, 1 << 30, movers=[*ring, other])
    operators = {name: OperatorState((SiteId(0), SiteId(0), SiteId(1), SiteId(1))) for name in (KEYED, RING)}
    found = coordinator.decide(View("step", Manifest("q", MIXED, GROUPS, 2, operators)))
    assert [each.operator for each in found if isinstance(each, MoveGroups)] == moved
    pieces = Pieces.of(other.seen[0])
    assert pieces.is_whole.tolist() == [True] * GROUPS + [goal is None] * GROUPS
    left, at_site = pieces.told_apart(np.ones(2 * GROUPS), np.arange(2 * GROUPS))
    assert at_site.tolist() == ([0, 0] if goal is None else [2, 2])
    assert left.sum() + at_site.sum() == 2 * GROUPS


def test_options_of_rings_are_refused_where_there_is_none():
    for options in (Options(ring_scheme="psp"), Options(ring_goal="output"), Options(ring_goal="latency")):
        refuse_without_ring(options, MIXED)
        with pytest.raises(OptionError, match="is set, and the query has no ring"):
            refuse_without_ring(options, PLAIN)
    refuse_without_ring(Options(), PLAIN)
