"""The law with groups that are parked at random, without a budget, beside moves, splits, promises and crashes."""

import random
import tempfile
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.law import test_law_in_process as joins
from tests.law import test_law_of_promises as promises
from tests.law import test_law_of_rings as rings
from tests.law import test_law_of_time as times
from tests.law.test_law_of_aggregates import grouped_cases
from tests.law.test_law_of_moves import SEEDS, check, moved_by, rows_of
from tests.support import law_runs
from tests.support.draws import cases, outer_cases, promised_cases, timed_cases
from tests.support.in_process import InProcess
from tests.support.law_runs import LAW
from tests.support.ring_draws import ring_cases
from tests.support.states import JOIN, two_way_plan

from watersmeet.adapt.cleaning import draining
from watersmeet.state import applying
from watersmeet.state.changes import SpillGroups
from watersmeet.state.events import CleanupEvent, ParkEvent

SOME = settings(LAW, max_examples=min(LAW.max_examples, 40))
EPOCHS, ROWS = 8, 40


def check_parked(kind: str, case, seed: int, *, budget: bool = False) -> None:
    """Groups are parked before most epochs, some are held, and now and then they move, are split, or it crashes.

    What waits for them is bounded, sometimes so tightly that the buffer is full at once.
    """
    with moved_by("none"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(draining, "WAIT_EPOCHS", random.Random(seed).choice([0, 2, 16]))
        patch.setattr(draining, "WAIT_BYTES", random.Random(seed + 1).choice([0, 200, 1000, draining.WAIT_BYTES]))
        for module in (law_runs, joins, times, rings):
            patch.setattr(module, "disturbance", _mostly_parks)
        if kind == "promises":
            promises.check_inner(case, seed, budget=budget)
        elif kind == "promised outer joins":
            promises.check_outer(case, seed, budget=budget)
        elif kind == "rings":
            rings.check(case, seed)
        else:
            check(kind, case, seed, budget=budget)


def _mostly_parks(query: InProcess, tables: dict[str, pa.Table], chance: random.Random) -> None:
    if chance.random() < 0.2:
        law_runs.move(query, chance)
    if chance.random() < 0.2:
        query.split(chance)
    if chance.random() < 0.8:
        query.park(chance)
    if chance.random() < 0.2:
        query.attempt(tables, chance)


DRAWN = {
    "joins": cases(),
    "windows": timed_cases(),
    "outer": outer_cases(),
    "aggregates": grouped_cases(),
    "rings": ring_cases(),
    "promises": promised_cases(outer=False),
    "promised outer joins": promised_cases(outer=True),
}


@given(case=DRAWN["joins"], seed=SEEDS, budget=st.booleans())
@SOME
def test_nothing_that_is_parked_changes_a_join(case, seed, budget) -> None:
    check_parked("joins", case, seed, budget=budget)


@given(case=DRAWN["windows"], seed=SEEDS, budget=st.booleans())
@SOME
def test_nothing_expires_that_parked_rows_still_need(case, seed, budget) -> None:
    check_parked("windows", case, seed, budget=budget)


@given(case=DRAWN["outer"], seed=SEEDS, budget=st.booleans())
@SOME
def test_no_row_comes_out_alone_that_has_a_parked_match(case, seed, budget) -> None:
    check_parked("outer", case, seed, budget=budget)


@given(case=DRAWN["aggregates"], seed=SEEDS, budget=st.booleans())
@SOME
def test_no_group_is_final_of_which_rows_are_parked(case, seed, budget) -> None:
    check_parked("aggregates", case, seed, budget=budget)


@given(case=DRAWN["rings"], seed=SEEDS)
@SOME
def test_nothing_that_is_parked_changes_a_ring(case, seed) -> None:
    check_parked("rings", case, seed)


@given(case=DRAWN["promises"], seed=SEEDS, budget=st.booleans())
@SOME
def test_promises_hold_back_for_what_is_parked(case, seed, budget) -> None:
    check_parked("promises", case, seed, budget=budget)


@given(case=DRAWN["promised outer joins"], seed=SEEDS, budget=st.booleans())
@SOME
def test_promises_of_outer_joins_hold_back_for_what_is_parked(case, seed, budget) -> None:
    check_parked("promised outer joins", case, seed, budget=budget)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", sorted(DRAWN))
def test_the_law_of_parking_holds_thousands_of_times(kind) -> None:
    @given(case=DRAWN[kind], seed=SEEDS, budget=st.booleans())
    @settings(LAW, max_examples=1500)
    def law(case, seed, budget) -> None:
        check_parked(kind, case, seed, budget=budget)

    law()


def streams() -> list[dict[str, pa.Table]]:
    rng = np.random.default_rng(3)
    keys = [rng.integers(0, 40, ROWS) for _ in range(2 * EPOCHS)]
    return [{name: pa.table({"k": keys.pop(), "v": np.arange(ROWS)}) for name in "AB"} for _ in range(EPOCHS)]


def run(query: InProcess, *, parks: bool) -> Counter[str]:
    """Groups are parked in the first half, and drained as input goes on."""
    got, chance = Counter(), random.Random(5)
    for number, tables in enumerate(streams()):
        if parks and number < EPOCHS // 2:
            query.park(chance)
        got += rows_of(query.epoch(tables))
    return got


def finished(query: InProcess) -> tuple[Counter[str], int]:
    """What comes while somebody waits for parked groups, and in how many steps."""
    got, steps = Counter(), 0
    while query.manifest.parked(JOIN) & query.manifest.spilled(JOIN):
        got += rows_of(query.clean("drain", None))
        steps += 1
    return got, steps


def test_parked_groups_are_drained_between_epochs_and_are_live_again_without_a_budget() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = InProcess(two_way_plan(), folder, groups=4, sites=3)
        got = run(query, parks=True)
        got += finished(query)[0]
        events = query.loop.stepper.checkpoint.events()
        assert not query.is_missing
        query.epoch(streams()[0])
        query.epoch(streams()[0])
        assert not query.manifest.operators[JOIN].parked
        assert not query.manifest.generations(JOIN), "all is live"
    parks = [event for event in events if isinstance(event, ParkEvent)]
    drains = [event for event in events if isinstance(event, CleanupEvent)]
    assert parks
    assert all((event.before.epoch_ms, event.after.epoch_ms) == (2, 1) for event in parks)
    assert drains
    assert all("of them were parked" in event.reason for event in drains)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert run(InProcess(two_way_plan(), folder, groups=4, sites=1), parks=False) == got


@pytest.mark.parametrize("wait_bytes", [0, 500, 1 << 20])
def test_held_groups_are_drained_once_the_buffer_of_their_site_is_full(wait_bytes, monkeypatch) -> None:
    monkeypatch.setattr(draining, "WAIT_BYTES", wait_bytes)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query, tables, every = InProcess(two_way_plan(), folder, groups=4, sites=2), streams(), range(4)
        got = rows_of(query.epoch(tables[0]))
        query.parking.groups = {JOIN: list(every)}
        query.loop.stepper.coordinator.cleaning.draining = draining.Draining({JOIN: applying.GroupSet.of(every)})
        waits = []
        for each in tables[1:]:
            got += rows_of(query.epoch(each))
            waits.append(len(query.manifest.parked(JOIN)))
        got += finished(query)[0]
    assert (waits[-1] == 4) == (wait_bytes == 1 << 20), "they are held, and nothing but the bound lets them go"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert run(InProcess(two_way_plan(), folder, groups=4, sites=1), parks=False) == got


def test_rows_that_were_parked_and_forgotten_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the note in the manifest nobody waits for them."""
    monkeypatch.setattr(applying, "_park", lambda manifest, *_: manifest)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = InProcess(two_way_plan(), folder, groups=4, sites=3)
        got = run(query, parks=True) + finished(query)[0]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert run(InProcess(two_way_plan(), folder, groups=4, sites=1), parks=False) != got


def test_what_was_parked_is_known_after_a_crash_and_a_restart() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query, tables = InProcess(two_way_plan(), folder, groups=4, sites=2), streams()
        query.epoch(tables[0])
        query.loop.stepper.adapt([SpillGroups(0, {JOIN: applying.GroupSet.of([1, 2])}, epoch_ms=(2, 1))])
        query.loop.stepper.coordinator.cleaning.draining.held = {JOIN: applying.GroupSet.of([1, 2])}
        query.attempt(tables[1])
        assert not query.manifest.parked(JOIN), "it was killed before the commit"
        query.loop.stepper.adapt([SpillGroups(0, {JOIN: applying.GroupSet.of([1, 2])}, epoch_ms=(2, 1))])
        policy = query.loop.stepper.coordinator.cleaning
        policy.draining = draining.Draining({JOIN: applying.GroupSet.of([1, 2])})
        query.epoch(tables[1])
        assert list(query.manifest.parked(JOIN)) == [1, 2]
        query.recover()
        assert list(query.manifest.parked(JOIN)) == [1, 2]
        query.epoch(tables[2])
        assert not query.manifest.parked(JOIN), "nobody holds them any more"
