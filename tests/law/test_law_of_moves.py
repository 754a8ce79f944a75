"""The law with groups that move, by every policy and by force, in all kinds of queries, with spills and crashes."""

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.law import test_law_of_aggregates as aggregates
from tests.law import test_law_of_outer_joins as outer
from tests.law import test_law_of_time as times
from tests.law.test_law_in_process import results_of, results_within_a_budget
from tests.law.test_law_of_aggregates import grouped_cases
from tests.support import in_process
from tests.support.draws import cases, outer_cases, timed_cases
from tests.support.in_process import InProcess, Moving
from tests.support.law_runs import LAW, merged_early
from tests.support.oracle import difference, joined
from tests.support.states import two_way_plan

from watersmeet.adapt.moving import auto, distribution, exchanging, hot, judging, splitting
from watersmeet.adapt.moving.announcing import WAIT_MOST
from watersmeet.adapt.moving.policies import ADAPTATIONS
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.site import task
from watersmeet.site.fetching import Coming, fetch
from watersmeet.state import parts
from watersmeet.state.events import AnnounceEvent, ExecutorsEvent, MoveEvent, RerouteEvent, SpillEvent
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest
from watersmeet.storage.base import Storage

SOME = settings(LAW, max_examples=min(LAW.max_examples, 60))
POLICIES = st.sampled_from(sorted(ADAPTATIONS))
EACH_POLICY = [each if each == "auto" else pytest.param(each, marks=pytest.mark.long) for each in sorted(ADAPTATIONS)]
SEEDS = st.integers(0, 2**32)


@contextmanager
def moved_by(adaptation: str, *, come_and_go: bool = False) -> Iterator[None]:
    """Queries of this block have sites in processes of their own, and a policy that moves as often as it can."""
    with merged_early() as patch:
        times = 1e4 if adaptation == "auto" else 1.0  # so much that it is worth moving
        patch.setattr(in_process, "moving", Moving(adaptation, True, True, times, come_and_go))  # noqa: FBT003
        patch.setattr(distribution, "SETTLED", 1)
        patch.setattr(distribution, "SETTLED_MOST", 1)
        for name in ("WATCHED_LEAST", "NOTICEABLE", "SURE"):
            patch.setattr(auto, name, 0)
        patch.setattr(judging, "FIRST_COST_MS", 0)
        patch.setattr(exchanging, "CLEARLY", 0)
        for name in ("NOTICEABLE", "COST_MS"):
            patch.setattr(hot, name, 0)
        for name, value in {"HOT": 0.3, "COOL": 0.2, "WORTH_A_SITE": 1.0}.items():
            patch.setattr(splitting, name, value)
        yield


def check(kind: str, case, seed: int, *, budget: bool) -> None:
    if kind == "joins":
        got = results_within_a_budget(case, seed) if budget else results_of(case, seed, disturb=True)
        expected = joined(case.streams, case.conditions)
        assert got == expected, difference(got, expected)
    else:
        {"windows": times, "outer": outer, "aggregates": aggregates}[kind].check(case, seed, budget=budget)


@given(case=cases(), seed=SEEDS, policy=POLICIES, budget=st.booleans())
@SOME
def test_no_policy_changes_a_join(case, seed, policy, budget) -> None:
    with moved_by(policy):
        check("joins", case, seed, budget=budget)


@given(case=timed_cases(), seed=SEEDS, policy=POLICIES, budget=st.booleans())
@SOME
def test_no_policy_changes_a_window(case, seed, policy, budget) -> None:
    with moved_by(policy):
        check("windows", case, seed, budget=budget)


@given(case=outer_cases(), seed=SEEDS, policy=POLICIES, budget=st.booleans())
@SOME
def test_no_policy_changes_an_outer_join(case, seed, policy, budget) -> None:
    with moved_by(policy):
        check("outer", case, seed, budget=budget)


@given(case=grouped_cases(), seed=SEEDS, policy=POLICIES, budget=st.booleans())
@SOME
def test_no_policy_changes_an_aggregate(case, seed, policy, budget) -> None:
    with moved_by(policy):
        check("aggregates", case, seed, budget=budget)


@given(case=cases(), seed=SEEDS, policy=POLICIES, budget=st.booleans())
@SOME
def test_executors_that_come_and_go_change_no_join(case, seed, policy, budget) -> None:
    with moved_by(policy, come_and_go=True):
        check("joins", case, seed, budget=budget)


@given(case=outer_cases(), seed=SEEDS, policy=POLICIES, budget=st.booleans())
@SOME
def test_executors_that_come_and_go_change_no_outer_join(case, seed, policy, budget) -> None:
    with moved_by(policy, come_and_go=True):
        check("outer", case, seed, budget=budget)


KINDS = {"joins": cases, "windows": timed_cases, "outer": outer_cases, "aggregates": grouped_cases}


@contextmanager
def remote(adaptation: str) -> Iterator[None]:
    """The same on remote state: whatever is needed of a run is fetched without the rest, and moves are announced.

    What is coming is fetched at once, or never.
    """
    chance = random.Random(7)

    def fetch_some(storage: Storage, coming: Sequence[Coming]) -> None:
        for each in coming if chance.random() < 0.7 else ():
            fetch(storage, each)

    folder, patched = tempfile.TemporaryDirectory(dir="/dev/shm"), pytest.MonkeyPatch.context()
    with folder as copies, moved_by(adaptation), patched as patch:
        patch.setattr(in_process, "moving", replace(in_process.moving, copies=copies))
        patch.setattr(parts, "WORTH", 1.0)
        patch.setattr(parts, "SAVED_LEAST", 0)
        patch.setattr(task, "fetch_ahead", fetch_some)
        yield


@given(kind=st.sampled_from(sorted(KINDS)), data=st.data(), seed=SEEDS, policy=POLICIES, budget=st.booleans())
@SOME
def test_nothing_changes_if_only_what_a_site_needs_of_a_run_is_fetched(kind, data, seed, policy, budget) -> None:
    with remote(policy):
        check(kind, data.draw(KINDS[kind]()), seed, budget=budget)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_law_of_moves_holds_thousands_of_times(kind) -> None:
    @given(case=KINDS[kind](), seed=SEEDS, policy=POLICIES, budget=st.booleans(), come_and_go=st.booleans())
    @settings(LAW, max_examples=1500)
    def law(case, seed, policy, budget, come_and_go) -> None:
        with moved_by(policy, come_and_go=come_and_go):
            check(kind, case, seed, budget=budget)

    law()


ROWS, EPOCHS = 60, 12


def streams(seed: int) -> list[dict[str, pa.Table]]:
    rng = np.random.default_rng(seed)
    keys = [rng.zipf(1.5, ROWS) % 40 for _ in range(2 * EPOCHS)]
    return [{name: pa.table({"k": keys.pop(), "v": np.arange(ROWS)}) for name in "AB"} for _ in range(EPOCHS)]


def run(query: InProcess, seed: int, disturbed: random.Random | None = None) -> Counter[str]:
    got, chance = Counter(), random.Random(seed)
    for tables in streams(seed):
        if chance.random() < 0.2:
            query.attempt(tables)
        got += rows_of(query.epoch(tables, disturbed))
    while query.is_missing:
        got += rows_of(query.clean("end", None))
    return got


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.flatten().to_pylist()))


@pytest.mark.parametrize("policy", EACH_POLICY)
@pytest.mark.parametrize("budget", [None, 6_000])
def test_every_policy_moves_groups_off_a_site_that_has_them_all_and_the_results_stay(policy, budget) -> None:
    options = MemoryOptions(budget, fraction=0.3, strategy="global-output")
    with moved_by(policy), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = InProcess(two_way_plan(), folder, groups=32, sites=3, options=options, weights=(1.0, 0.0, 0.0))
        assert set(query.manifest.operators[query.plan.root.id].routing) == {0}
        got = run(query, 1)
        events = query.loop.stepper.checkpoint.events()
    moves = [event for event in events if isinstance(event, MoveEvent)]
    assert moves, "nothing moved"
    assert {event.policy for event in moves} == {policy}
    assert all(event.reason and event.groups and event.before != event.after for event in moves)
    assert any(isinstance(event, SpillEvent) for event in events) == (budget is not None)
    with moved_by("none"), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert run(InProcess(two_way_plan(), folder, groups=32, sites=1), 1) == got


def test_better_groups_take_the_place_of_poor_ones_and_the_results_stay() -> None:
    """What `auto` does follows the clock, too, so some runs have no exchange."""
    options, exchanged = MemoryOptions(6_000, fraction=0.3, strategy="global-output"), set()
    for seed in range(1, 20):
        with moved_by("auto"), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            query = InProcess(two_way_plan(), folder, groups=32, sites=2, options=options)
            got = run(query, seed, random.Random(2))
            told = query.loop.stepper.checkpoint.events()
        with moved_by("none"), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            assert run(InProcess(two_way_plan(), folder, groups=32, sites=1), seed) == got
        exchanged |= {type(event) for event in told if "of the groups of all sites" in event.reason}
        if exchanged >= {SpillEvent, MoveEvent}:
            return
    pytest.fail(f"of exchanges, there were {exchanged}")


@pytest.mark.parametrize("budget", [None, 6_000])
@pytest.mark.parametrize("policy", EACH_POLICY)
def test_moves_between_hosts_are_announced_and_the_results_stay(policy, budget) -> None:
    options = MemoryOptions(budget, fraction=0.3, strategy="global-output")
    with remote(policy), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = InProcess(two_way_plan(), folder, groups=32, sites=3, options=options, weights=(1.0, 0.0, 0.0))
        got, events = run(query, 1, random.Random(2)), query.loop.stepper.checkpoint.events()
    told = [event for event in events if isinstance(event, AnnounceEvent)]
    assert told or budget is not None, "what a site would have to spill moves at once"
    moves = [event for event in events if isinstance(event, MoveEvent)]
    for event in [each for each in told if each.epoch + WAIT_MOST < EPOCHS]:  # later ones, the end may forestall
        taken = [each for each in moves if (each.groups, each.after) == (event.groups, event.after)]
        assert any(0 < each.epoch - event.epoch <= WAIT_MOST for each in taken), event
        assert all(each.policy == policy for each in taken)
    with moved_by("none"), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert run(InProcess(two_way_plan(), folder, groups=32, sites=1), 1) == got


def test_a_site_that_was_not_told_of_all_its_groups_would_be_found(monkeypatch) -> None:
    """Of a part, rows of other groups are missing: the runs above must be able to tell."""
    all_of = Manifest.groups_probed
    with remote("auto"), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.setattr(Manifest, "groups_probed", lambda *one: all_of(*one) - GroupSet.of([1]))
        got = run(InProcess(two_way_plan(), folder, groups=4, sites=2), 1, random.Random(2))
        monkeypatch.undo()
    with moved_by("none"), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert run(InProcess(two_way_plan(), folder, groups=4, sites=1), 1) != got


@pytest.mark.parametrize("budget", [None, 6_000])
def test_the_number_of_sites_follows_the_executors_while_the_query_runs_and_the_results_stay(budget) -> None:
    options = MemoryOptions(budget, fraction=0.3, strategy="global-output")
    with moved_by("auto", come_and_go=True), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = InProcess(two_way_plan(), folder, groups=32, sites=3, options=options)
        got, events = run(query, 1, random.Random(2)), query.loop.stepper.checkpoint.events()
    numbers = [event.after.sites for event in events if isinstance(event, RerouteEvent)]
    assert len(numbers) >= 3
    assert len(set(numbers)) >= 2
    told = [event for event in events if isinstance(event, ExecutorsEvent)]
    assert any(event.joined for event in told)
    assert any(event.lost for event in told)
    assert all(event.reason for event in told)
    with moved_by("none"), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert run(InProcess(two_way_plan(), folder, groups=32, sites=1), 1) == got


def test_a_move_that_was_announced_is_made_by_another_driver_after_a_crash() -> None:
    with remote("none"), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query, tables = InProcess(two_way_plan(), folder, groups=4, sites=2), streams(3)
        query.epoch(tables[0])
        query.move([0, 1], 0, 1)
        query.epoch(tables[1])
        assert query.manifest.operators[query.plan.root.id].routing == (0, 0, 1, 1), "its old site goes on with it"
        assert [list(each.groups) for each in query.manifest.announced] == [[0, 1]]
        query.attempt(tables[2])
        query.recover()
        assert query.manifest.announced
        for each in tables[2 : 2 + WAIT_MOST]:
            query.epoch(each)
        assert query.manifest.operators[query.plan.root.id].routing == (1, 1, 1, 1)
        assert not query.manifest.announced


def test_a_move_that_was_committed_outlives_a_crash_and_a_restart() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query, tables = InProcess(two_way_plan(), folder, groups=4, sites=2), streams(3)
        query.epoch(tables[0])
        query.move([0, 1], 0, 1)
        query.attempt(tables[1])
        assert query.manifest.operators[query.plan.root.id].routing == (0, 0, 1, 1), "it was killed before the commit"
        query.move([0], 0, 1)
        query.epoch(tables[1])
        query.recover()
        assert query.manifest.operators[query.plan.root.id].routing == (1, 0, 1, 1)
        query.epoch(tables[2])
        assert query.manifest.operators[query.plan.root.id].routing == (1, 0, 1, 1)
