"""The law with event times: windows, watermarks, late rows and null times, whatever is spilled, merged or repeated."""

import random
import tempfile
from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from tests.law.test_law_in_process import LAW, all_cleaned, cleaned_at_random, disturbance, repeated_alike
from tests.support.draws import TimedCase, timed_cases
from tests.support.in_process import InProcess
from tests.support.oracle import difference
from tests.support.rules import accepted_rows, expected_results

from watersmeet.adapt.merging import choice as merging
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.operators.join import lives
from watersmeet.planning import plan


def results_of(case: TimedCase, seed: int, *, disturb: bool, budget: bool = False) -> Counter[str]:
    chance = random.Random(seed)
    options = MemoryOptions()
    if budget:
        options = MemoryOptions(
            budget_bytes=chance.choice([1, 200, 1000]),
            strategy=chance.choice(sorted(STRATEGIES)),
            fraction=chance.choice([0.05, 0.3, 1.0]),
            seed=seed,
            generations_max=chance.choice([0, 1, 64]),
        )
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        plan_ = plan(case.query)
        decides = any(operator.hash_decides for operator in plan_.operators)
        query = InProcess(
            plan_,
            folder,
            groups=chance.choice([1, 4, 16]),
            hash_bits=64 if decides or not disturb else chance.choice([64, 64, 2]),
            round_bytes=chance.choice([1, 100, 10**6]) if disturb else 10**6,
            parcels=chance.random() < 0.7,
            options=options,
            slice_bytes=chance.choice([1, 500, 10**6]),
        )
        got: Counter[str] = Counter()
        _, rejected = accepted_rows(case.nodes, case.epochs, case.promises)
        for tables, told in zip(case.epochs, rejected, strict=True):
            attempt = query.attempt(tables, chance) if budget and chance.random() < 0.2 else None
            if disturb:
                disturbance(query, tables, chance)
            got += repeated_alike(attempt, query.epoch(tables, chance if disturb else None), case)
            assert rejected_by(query) == told
            if budget:
                got += cleaned_at_random(query, case, chance)
        return got + (all_cleaned(query, case, chance) if budget else Counter())


def rejected_by(query: InProcess) -> Counter[tuple[str, str]]:
    metrics = query.loop.history.get(query.manifest.batch)
    return Counter({(each.stream, each.reason): each.rows for each in metrics.rejected or ()})


def check(case: TimedCase, seed: int, *, budget: bool, disturb: bool = True) -> None:
    note(f"on {case.conditions}, {list(case.nodes.values())}, seed {seed}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "FAN_IN", 2)
        patch.setattr(merging, "SETTLED_FAN_IN", 2)
        patch.setattr(merging, "CLOSED_FAN_IN", 2)
        got, expected = results_of(case, seed, disturb=disturb, budget=budget), expected_results(case)
    assert got == expected, difference(got, expected)


@given(case=timed_cases(), seed=st.integers(0, 2**32))
@LAW
def test_rows_are_joined_where_their_lives_overlap(case: TimedCase, seed: int) -> None:
    check(case, seed, budget=False, disturb=False)


@given(case=timed_cases(), seed=st.integers(0, 2**32))
@LAW
def test_moves_merges_repeated_tasks_and_crashes_change_no_window(case: TimedCase, seed: int) -> None:
    check(case, seed, budget=False)


@given(case=timed_cases(), seed=st.integers(0, 2**32))
@LAW
def test_spills_and_cleanups_change_no_window(case: TimedCase, seed: int) -> None:
    check(case, seed, budget=True)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=timed_cases(most_streams=5), seed=st.integers(0, 2**32), budget=st.booleans())
@settings(LAW, max_examples=3000)
def test_the_law_of_time_holds_thousands_of_times(case: TimedCase, seed: int, budget) -> None:
    check(case, seed, budget=budget)


class CaughtError(Exception):
    """A wrong kernel was caught."""


def test_a_window_that_is_closed_at_its_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "alive_from", lambda moments, length: np.maximum(moments - (length or 10**9), 0))

    @given(case=timed_cases(most_streams=3))
    @settings(LAW, max_examples=1000, database=None, phases=[Phase.generate])
    def law(case: TimedCase) -> None:
        if results_of(case, 0, disturb=False) != expected_results(case):
            raise CaughtError

    with pytest.raises(CaughtError):
        law()


def test_a_bound_that_is_a_microsecond_too_wide_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lives.Timeline.of

    def wide(sides, of, bounds=()):
        return real(sides, of, [(first, second, later + 1) for first, second, later in bounds])

    monkeypatch.setattr(lives.Timeline, "of", wide)

    @given(case=timed_cases(most_streams=3))
    @settings(LAW, max_examples=1000, database=None, phases=[Phase.generate])
    def law(case: TimedCase) -> None:
        if results_of(case, 0, disturb=False) != expected_results(case):
            raise CaughtError

    with pytest.raises(CaughtError):
        law()
