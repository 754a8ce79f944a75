"""The law with outer, semi and anti joins: each row alone comes once, and when the rules say so."""

import random
from collections import Counter
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.support.draws import OuterCase, outer_cases
from tests.support.law_runs import (
    LAW,
    UNDISTURBED,
    UNLIMITED,
    flattened,
    is_found,
    merged_early,
    started,
    steps_to_the_end,
    too_little_memory,
)
from tests.support.oracle import difference
from tests.support.rules import expected_outer

from watersmeet.planning import plan


def results_of(case: OuterCase, seed: int, *, disturb: bool, budget: bool, ends: bool) -> list[Counter[str]]:
    """What each step gives."""
    chance = random.Random(seed)
    options = too_little_memory(chance) if budget else UNLIMITED
    with started(plan(case.query, type_of=type_of), chance, options, disturb=disturb) as query:
        steps = steps_to_the_end(query, case.epochs, chance, disturb=disturb, ends=ends)
        return [flattened(rows) for _, rows in steps]


def type_of(sql: str, _: str) -> pa.DataType:
    return pa.bool_() if "%" in sql else pa.timestamp("us", "UTC") if "INTERVAL" in sql else pa.int64()


def check(case: OuterCase, seed: int, *, budget: bool, disturb: bool = True, ends: bool = False) -> None:
    note(f"{case.how} on {case.on}, {list(case.nodes.values())}, seed {seed}")
    with merged_early():
        steps = results_of(case, seed, disturb=disturb, budget=budget, ends=ends)
        got, expected = sum(steps, start=Counter()), expected_outer(case, has_ended=ends)
    assert got == expected, difference(got, expected)
    if not disturb and not budget:
        check_epochs(case, steps)


def check_epochs(case: OuterCase, steps: list[Counter[str]]) -> None:
    """A row alone comes in the epoch after the one that made its match impossible, or before, but not too early."""
    came = list(accumulate(steps))
    for number in range(len(case.epochs)):
        due = expected_outer(replace(case, epochs=case.epochs[: number + 1]), has_ended=False)
        assert came[number] <= due, f"too early, in epoch {number}: {difference(came[number], due)}"
        assert due <= came[number + 1], f"too late, after epoch {number + 1}: {difference(came[number + 1], due)}"


@given(case=outer_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@UNDISTURBED
def test_rows_without_a_match_come_once_and_when_they_are_final(case: OuterCase, seed: int, ends) -> None:
    check(case, seed, budget=False, disturb=False, ends=ends)


def test_rows_alone_that_come_an_epoch_late_are_caught() -> None:
    def is_late(case: OuterCase) -> bool:
        steps = results_of(case, 0, disturb=False, budget=False, ends=False)
        try:
            check_epochs(case, [Counter(), *steps])
        except AssertionError as error:
            return "too late" in str(error)
        return False

    assert is_found(outer_cases(), is_late)


@given(case=outer_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@LAW
def test_moves_merges_repeated_tasks_and_crashes_change_no_outer_join(case: OuterCase, seed: int, ends) -> None:
    check(case, seed, budget=False, ends=ends)


@given(case=outer_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@LAW
def test_spills_and_cleanups_change_no_outer_join(case: OuterCase, seed: int, ends) -> None:
    check(case, seed, budget=True, ends=ends)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=outer_cases(), seed=st.integers(0, 2**32), budget=st.booleans(), ends=st.booleans())
@settings(LAW, max_examples=3000)
def test_the_law_of_outer_joins_holds_thousands_of_times(case: OuterCase, seed: int, budget, ends) -> None:
    check(case, seed, budget=budget, ends=ends)
