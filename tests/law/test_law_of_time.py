"""The law with event times: windows, watermarks, late rows and null times, whatever is spilled, merged or repeated."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.support.draws import TimedCase, timed_cases
from tests.support.in_process import InProcess
from tests.support.law_runs import (
    LAW,
    UNDISTURBED,
    UNLIMITED,
    all_cleaned,
    by_stream,
    cleaned_at_random,
    disturbance,
    is_found,
    merged_early,
    repeated_alike,
    started,
    too_little_memory,
)
from tests.support.oracle import difference
from tests.support.rules import accepted_rows, expected_results

from watersmeet.operators.join import lives
from watersmeet.planning import plan


def results_of(
    case: TimedCase, seed: int, *, disturb: bool, budget: bool = False, retention_us: int | None = None
) -> Counter[str]:
    chance, flat, got = random.Random(seed), by_stream(case), Counter[str]()
    _, rejected = accepted_rows(case.nodes, case.epochs, case.promises)
    options = too_little_memory(chance) if budget else UNLIMITED
    with started(plan(case.query), chance, options, disturb=disturb, retention_us=retention_us) as query:
        for tables, told in zip(case.epochs, rejected, strict=True):
            attempt = query.attempt(tables, chance) if budget and chance.random() < 0.2 else None
            if disturb:
                disturbance(query, tables, chance)
            got += repeated_alike(attempt, query.epoch(tables, chance if disturb else None), flat)
            assert rejected_by(query) == told
            if budget or query.is_missing:  # what was parked
                got += cleaned_at_random(query, flat, chance)
        return got + all_cleaned(query, flat, chance)


def rejected_by(query: InProcess) -> Counter[tuple[str, str]]:
    metrics = query.loop.history.get(query.manifest.batch)
    return Counter({(each.stream, each.reason): each.rows for each in metrics.rejected or ()})


def check(case: TimedCase, seed: int, *, budget: bool, disturb: bool = True, retention_us: int | None = None) -> None:
    note(f"on {case.conditions}, {list(case.nodes.values())}, seed {seed}, retention {retention_us}")
    with merged_early():
        got = results_of(case, seed, disturb=disturb, budget=budget, retention_us=retention_us)
        expected = expected_results(case)
    assert got == expected, difference(got, expected)


@given(case=timed_cases(), seed=st.integers(0, 2**32))
@UNDISTURBED
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


def is_broken(case: TimedCase) -> bool:
    return results_of(case, 0, disturb=False) != expected_results(case)


def test_a_window_that_is_closed_at_its_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "alive_from", lambda moments, length: np.maximum(moments - (length or 10**9), 0))
    assert is_found(timed_cases(most_streams=3), is_broken)


@pytest.mark.long
def test_a_bound_that_is_a_microsecond_too_wide_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lives.Timeline.of

    def wide(sides, of, bounds=()):
        return real(sides, of, [(first, second, later + 1) for first, second, later in bounds])

    monkeypatch.setattr(lives.Timeline, "of", wide)
    assert is_found(timed_cases(most_streams=3), is_broken)
