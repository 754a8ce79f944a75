"""The number of sites that a ring is given."""

import numpy as np
import pyarrow as pa

from watersmeet.adapt.moving.distribution import even
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.policy import View
from watersmeet.adapt.ring.length import HOLD, LEARN, RingPolicy
from watersmeet.model.ids import InputName, OperatorId, RunId, SiteId
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.applying import apply_all
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, OperatorState, RowSet, RunFile, Slice
from watersmeet.state.vectors import Vector

RING, GROUPS, ROWS = OperatorId("join1"), 8, 100
STREAMS = tuple(StreamNode(name, pa.schema({"x": pa.int64(), "ts": pa.timestamp("us")}), "ts", 10) for name in "AB")
PLAN = plan(Query(JoinNode(STREAMS, "A.x < B.x")))


def manifest(routing, rows: int, sites: int = 4) -> Manifest:
    """A ring with so many rows of each input."""
    held, each = GroupSet.all(GROUPS), Vector.of([rows // GROUPS] * GROUPS)
    runs = [RunFile(RunId(n), n, RING, InputName(n), held, rows, rows, 0, each, each) for n in "AB"]
    state = OperatorState(tuple(map(SiteId, routing)), tuple(Slice(run.id, RowSet(held)) for run in runs))
    return Manifest("q", PLAN, GROUPS, sites, {RING: state}, {run.id: run for run in runs})


def epochs(goal, pair_s, send_s, hops_s, routing, count=LEARN + HOLD + 1, relocation="aggressive", *, policy=None):
    """The routing after some epochs of which pairs, rows and hops take so long."""
    policy, moves = policy or RingPolicy(goal, relocation), []
    for number in range(1, count + 1):
        now = manifest(routing, 1000 * number)
        sites = sorted(set(routing))
        busy = np.zeros((2, 4))
        busy[1, sites] = 1e3 * (2 * ROWS * 1000 * number * pair_s / len(sites) + 2 * ROWS * send_s)
        came = {(RING, InputName(name)): ROWS for name in "AB"}
        names = [f"host{site}" for site in range(4)]
        load = EpochLoad(busy.max() + 1e3 * hops_s, busy, {}, names, dict.fromkeys(names, 1), came=came)
        changes = [each.what for each in policy.suggest(View("step", now, load=load))]
        routing = apply_all(now, changes).operators[RING].routing
        moves += changes
    return set(routing), moves, "\n".join(policy.lines(now))


def test_costly_pairs_are_shared_out_to_all_sites():
    sites, moves, told = epochs("latency", 1e-5, 1e-6, 0.001, [0] * GROUPS)
    assert sites == {0, 1, 2, 3}
    assert all("4 sites are better for latency than 1" in each.reason for each in moves)
    assert "10000 ns a pair" in told
    assert "on 4 of 4 sites" in told


def test_cheap_pairs_stay_where_sending_costs_more():
    sites, moves, _ = epochs("latency", 1e-12, 1e-5, 0.2, [0, 0, 1, 1, 2, 2, 3, 3])
    assert sites == {0}
    assert moves[0].policy == "ring-latency"


def test_the_output_rate_only_grows_with_sites():
    sites, _, _ = epochs("output", 1e-5, 1e-6, 0.2, [0] * GROUPS)
    assert sites == {0, 1, 2, 3}


def test_a_single_process_has_nothing_to_gain():
    policy, now = RingPolicy("latency"), manifest([0] * GROUPS, 1000)
    load = EpochLoad(1.0, np.ones((2, 4)), {}, ["a"] * 4, {"a": 1}, came={(RING, InputName("A")): 10})
    assert not list(policy.suggest(View("step", now, load=load)))


def test_what_any_epoch_takes_is_not_taken_for_hops_once_another_length_was_seen():
    sites, moves, told = epochs("latency", 1e-7, 1e-8, 0.05, [0, 0, 1, 1, 2, 2, 3, 3], count=4 * HOLD)
    lengths = [each.reason[0] for each in moves]
    assert min(lengths) < "4" == lengths[-1]
    assert sites == {0, 1, 2, 3}
    assert "0 ms a site for hops, 50 ms for any epoch" in told


def test_the_first_epoch_of_a_run_teaches_nothing():
    policy, now = RingPolicy("latency"), manifest([0] * GROUPS, 1000)
    load = EpochLoad(1e4, np.ones((2, 4)), {}, list("abcd"), dict.fromkeys("abcd", 1), came={(RING, InputName("A")): 9})
    list(policy.suggest(View("step", now, load=load)))
    assert not policy.models
    list(policy.suggest(View("step", now, load=load)))
    assert policy.models


def test_groups_go_step_by_step_if_relocation_is_passive():
    sites, moves, _ = epochs("latency", 1e-5, 1e-6, 0.001, [0] * GROUPS, relocation="passive")
    assert sites == {0, 1, 2, 3}
    assert {len(each.groups) for each in moves} == {1}
    assert len(moves) == 6


def test_groups_do_not_go_on_to_a_site_that_is_gone():
    policy = RingPolicy("latency", "passive")
    _, moves, _ = epochs("latency", 1e-5, 1e-6, 0.001, [0] * GROUPS, count=LEARN + 2, policy=policy)
    assert moves, "some groups are on their way, others follow"
    load = EpochLoad(1.0, np.zeros((2, 2)), {}, ["a", "b"], {"a": 1, "b": 1})
    routing = [site if site < 2 else 0 for site in even(GROUPS, 4)]  # all that stays is where it goes
    found = policy.suggest(View("step", manifest(routing, 1000, sites=2), load=load))
    assert not list(found)


def test_sites_of_a_ring_are_made_level_by_the_rows_they_store():
    sites, moves, _ = epochs("output", 1e-5, 1e-6, 0.001, [0, 0, 0, 0, 0, 1, 2, 3])
    assert sites == {0, 1, 2, 3}
    assert moves[0].before == 0
    assert "as many rows" in moves[0].reason
