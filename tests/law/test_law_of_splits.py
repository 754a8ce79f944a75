"""The law with groups that several sites share: split and whole again at random, in all kinds of queries."""

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
from tests.law import test_law_of_time as times
from tests.law.test_law_of_moves import SEEDS, check, moved_by, rows_of
from tests.support import law_runs
from tests.support.draws import cases, outer_cases, promised_cases, timed_cases
from tests.support.in_process import InProcess
from tests.support.law_runs import LAW
from tests.support.states import JOIN, two_way_plan

from watersmeet.adapt.moving.describe import placement
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.site.spec import LevelSpec
from watersmeet.state.events import SplitEvent
from watersmeet.state.groups import GroupSet

SOME = settings(LAW, max_examples=min(LAW.max_examples, 40))
EPOCHS, ROWS, HOT = 6, 30, 7


def check_split(kind: str, case, seed: int, *, budget: bool) -> None:
    """Nothing but splits, before every epoch, on three sites."""
    with moved_by("none"), pytest.MonkeyPatch.context() as patch:
        for module in (law_runs, joins, times):
            patch.setattr(module, "disturbance", _only_splits)
        if kind == "promises":
            promises.check_inner(case, seed, budget=budget)
        elif kind == "promised outer joins":
            promises.check_outer(case, seed, budget=budget)
        else:
            check(kind, case, seed, budget=budget)


def _only_splits(query: InProcess, tables: dict[str, pa.Table], chance: random.Random) -> None:
    if query.sites < 3:
        query.reroute([chance.randrange(3) for _ in range(query.groups)], 3)
    if chance.random() < 0.8:
        query.split(chance)
    if chance.random() < 0.2:
        query.attempt(tables, chance)


@given(case=cases(), seed=SEEDS, budget=st.booleans())
@SOME
def test_no_split_changes_a_join(case, seed, budget) -> None:
    check_split("joins", case, seed, budget=budget)


@pytest.mark.long
@given(case=timed_cases(), seed=SEEDS, budget=st.booleans())
@SOME
def test_no_split_changes_a_window(case, seed, budget) -> None:
    check_split("windows", case, seed, budget=budget)


@given(case=outer_cases(), seed=SEEDS, budget=st.booleans())
@SOME
def test_no_split_changes_an_outer_join(case, seed, budget) -> None:
    check_split("outer", case, seed, budget=budget)


@given(case=promised_cases(outer=False), seed=SEEDS, budget=st.booleans())
@SOME
def test_no_split_changes_what_is_promised(case, seed, budget) -> None:
    check_split("promises", case, seed, budget=budget)


@pytest.mark.long
@given(case=promised_cases(outer=True), seed=SEEDS, budget=st.booleans())
@SOME
def test_no_split_changes_an_outer_join_with_promises(case, seed, budget) -> None:
    check_split("promised outer joins", case, seed, budget=budget)


DRAWN = {
    "joins": cases(),
    "windows": timed_cases(),
    "outer": outer_cases(),
    "promises": promised_cases(outer=False),
    "promised outer joins": promised_cases(outer=True),
}


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", sorted(DRAWN))
def test_the_law_of_splits_holds_thousands_of_times(kind) -> None:
    @given(case=DRAWN[kind], seed=SEEDS, budget=st.booleans())
    @settings(LAW, max_examples=1500)
    def law(case, seed, budget) -> None:
        check_split(kind, case, seed, budget=budget)

    law()


def hot_streams() -> list[dict[str, pa.Table]]:
    """Most rows have one key."""
    rng = np.random.default_rng(3)
    keys = [np.where(rng.random(ROWS) < 0.7, HOT, rng.integers(0, 40, ROWS)) for _ in range(2 * EPOCHS)]
    return [{name: pa.table({"k": keys.pop(), "v": np.arange(ROWS)}) for name in "AB"} for _ in range(EPOCHS)]


def run(query: InProcess, *, splits: bool) -> Counter[str]:
    got, chance = Counter(), random.Random(5)
    for tables in hot_streams():
        if splits:
            query.split(chance)
        got += rows_of(query.epoch(tables))
    while query.is_missing:
        got += rows_of(query.clean("end", None))
    return got


def split_run(options: MemoryOptions | None = None) -> tuple[Counter[str], InProcess]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = InProcess(two_way_plan(), folder, groups=4, sites=3, options=options or MemoryOptions(), round_bytes=1)
        return run(query, splits=True), query


def expected() -> Counter[str]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        return run(InProcess(two_way_plan(), folder, groups=4, sites=1), splits=False)


@pytest.mark.parametrize("budget", [None, 3_000])
def test_a_hot_key_is_joined_at_several_sites_and_the_results_stay(budget) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        options = MemoryOptions(budget, fraction=0.3, strategy="global-output")
        query = InProcess(two_way_plan(), folder, groups=4, sites=3, options=options)
        got = run(query, splits=True)
        events = [each for each in query.loop.stepper.checkpoint.events() if isinstance(each, SplitEvent)]
    assert got == expected()
    assert events
    assert all(event.reason and event.operator == JOIN for event in events)
    assert any(len(event.after.sites) == 3 for event in events)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("stored_elsewhere", lambda *_: GroupSet()),  # copies are stored wherever they come
        ("parts", lambda *_: []),  # every site joins all stored rows of the dealt input
    ],
)
def test_the_law_would_notice_rows_that_count_twice(name, wrong, monkeypatch) -> None:
    monkeypatch.setattr(LevelSpec, name, wrong)
    assert split_run()[0] != expected()


def test_a_hot_key_is_found_and_split_by_auto_and_the_results_stay() -> None:
    with moved_by("auto"), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = InProcess(two_way_plan(), folder, groups=4, sites=3)
        got = run(query, splits=False)
        events = [each for each in query.loop.stepper.checkpoint.events() if isinstance(each, SplitEvent)]
        told = list(placement(query.manifest, "auto"))
    assert got == expected()
    assert events
    assert all(event.policy == "auto" and "levelled sites" in event.reason for event in events)
    assert any("is split over sites" in line for line in told), told


def test_a_split_that_was_committed_outlives_a_crash_and_a_restart() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query, tables = InProcess(two_way_plan(), folder, groups=1, sites=2), hot_streams()
        query.epoch(tables[0])
        chance = random.Random(1)
        while not query.loop.stepper.view("step").manifest.operators[JOIN].splits:
            query.split(chance)
        query.attempt(tables[1])
        assert not query.manifest.operators[JOIN].splits, "it was killed before the commit"
        while not query.loop.stepper.view("step").manifest.operators[JOIN].splits:
            query.split(chance)
        query.epoch(tables[1])
        split = query.manifest.operators[JOIN].splits
        query.recover()
        query.epoch(tables[2])
        assert query.manifest.operators[JOIN].splits == split
