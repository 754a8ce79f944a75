"""The law, without Spark: whatever happens on the way, the results are those of a batch join, each once."""

import random
from collections import Counter

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.support.draws import Case, cases
from tests.support.law_runs import (
    LAW,
    UNDISTURBED,
    all_cleaned,
    by_stream,
    change_budget,
    cleaned_at_random,
    disturbance,
    is_found,
    merged_early,
    repeated_alike,
    started,
    too_little_memory,
)
from tests.support.oracle import difference, joined

from watersmeet.adapt.cleaning import choice as cleaning
from watersmeet.driver.switches import thrown
from watersmeet.planning import plan


def results_of(case: Case, seed: int, *, disturb: bool, forget_pairs: bool = False) -> Counter[str]:
    chance, flat, got = random.Random(seed), by_stream(case), Counter[str]()
    with thrown(forget_pairs=forget_pairs), started(plan(case.query), chance, disturb=disturb) as query:
        for tables in case.epochs:
            if disturb:
                disturbance(query, tables, chance)
            got += flat(query.epoch(tables, chance if disturb else None))
            if disturb and query.is_missing:  # what was parked
                got += cleaned_at_random(query, flat, chance)
        return got + all_cleaned(query, flat, chance)


def results_within_a_budget(case: Case, seed: int) -> Counter[str]:
    """Spill to a random budget by a random strategy, clean at random moments, crash in both, clean up at the end."""
    chance, flat, got = random.Random(seed), by_stream(case), Counter[str]()
    with started(plan(case.query), chance, too_little_memory(chance)) as query:
        for tables in case.epochs:
            attempt = query.attempt(tables, chance) if chance.random() < 0.2 else None
            disturbance(query, tables, chance)
            got += repeated_alike(attempt, query.epoch(tables, chance), flat)
            got += cleaned_at_random(query, flat, chance)
        if chance.random() < 0.5:
            change_budget(query, chance)
            query.recover()
        return got + all_cleaned(query, flat, chance)


def check(case: Case, got: Counter[str]) -> None:
    expected = joined(case.streams, case.conditions)
    assert got == expected, difference(got, expected)


@given(case=cases(), seed=st.integers(0, 2**32))
@UNDISTURBED
def test_every_result_of_a_batch_join_comes_once(case: Case, seed: int) -> None:
    note(f"on {case.conditions}, seed {seed}")
    check(case, results_of(case, seed, disturb=False))


@given(case=cases(), seed=st.integers(0, 2**32))
@LAW
def test_moves_merges_repeated_tasks_and_crashes_change_no_result(case: Case, seed: int) -> None:
    note(f"on {case.conditions}, seed {seed}")
    with merged_early():
        check(case, results_of(case, seed, disturb=True))


@given(case=cases(), seed=st.integers(0, 2**32))
@LAW
def test_spills_and_cleanups_within_any_budget_change_no_result(case: Case, seed: int) -> None:
    note(f"on {case.conditions}, seed {seed}")
    with merged_early() as patch:
        patch.setattr(cleaning, "GATHER_LEAST_BYTES", random.Random(seed).choice([200, *[1 << 16] * 4]))
        check(case, results_within_a_budget(case, seed))


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=cases(), seed=st.integers(0, 2**32))
@settings(LAW, max_examples=3000)
def test_the_law_holds_thousands_of_times(case: Case, seed: int) -> None:
    note(f"on {case.conditions}, seed {seed}")
    with merged_early():
        check(case, results_of(case, seed, disturb=True))
        check(case, results_within_a_budget(case, seed))


def test_a_kernel_that_never_joins_new_rows_with_new_rows_is_caught() -> None:
    def is_broken(case: Case) -> bool:
        return results_of(case, 0, disturb=False, forget_pairs=True) != joined(case.streams, case.conditions)

    assert is_found(cases(most_streams=3), is_broken)
