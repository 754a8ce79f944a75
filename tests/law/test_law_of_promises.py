"""The law with punctuations and unique keys: what they let go is never missed, and what breaks them is told."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.law.test_law_in_process import LAW
from tests.law.test_law_of_aggregates import Grouped, grouped_cases
from tests.law.test_law_of_aggregates import check as check_aggregate
from tests.law.test_law_of_outer_joins import check as check_outer
from tests.law.test_law_of_time import check as check_inner
from tests.support.draws import OuterCase, TimedCase, promised_cases

from watersmeet.operators.promises import ranges, sets

SEEDS = st.integers(0, 2**32)


@given(case=promised_cases(outer=False), seed=SEEDS, budget=st.booleans())
@LAW
def test_promises_change_no_inner_join(case: TimedCase, seed: int, budget) -> None:
    check_inner(case, seed, budget=budget)


@given(case=promised_cases(outer=True), seed=SEEDS, budget=st.booleans(), ends=st.booleans())
@LAW
def test_promises_decide_rows_without_a_match(case: OuterCase, seed: int, budget, ends) -> None:
    check_outer(case, seed, budget=budget, ends=ends)


@given(grouped=grouped_cases(promised=True), seed=SEEDS, budget=st.booleans(), ends=st.booleans())
@LAW
def test_promises_make_groups_final(grouped: Grouped, seed: int, budget, ends) -> None:
    check_aggregate(grouped, seed, budget=budget, ends=ends)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=promised_cases(outer=False), seed=SEEDS, budget=st.booleans())
@settings(LAW, max_examples=1000)
def test_the_law_of_promises_holds_a_thousand_times(case: TimedCase, seed: int, budget) -> None:
    check_inner(case, seed, budget=budget)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=promised_cases(outer=True), seed=SEEDS, budget=st.booleans(), ends=st.booleans())
@settings(LAW, max_examples=1000)
def test_the_law_of_promised_matches_holds_a_thousand_times(case: OuterCase, seed: int, budget, ends) -> None:
    check_outer(case, seed, budget=budget, ends=ends)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(grouped=grouped_cases(promised=True), seed=SEEDS, budget=st.booleans(), ends=st.booleans())
@settings(LAW, max_examples=1000)
def test_the_law_of_promised_groups_holds_a_thousand_times(grouped: Grouped, seed: int, budget, ends) -> None:
    check_aggregate(grouped, seed, budget=budget, ends=ends)


def test_ranges_that_are_a_number_too_long_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ranges.Ranges.since
    monkeypatch.setattr(ranges.Ranges, "since", lambda self, values: real(self, values - 1))
    assert_caught(promised_cases(outer=False), lambda case: check_inner(case, 0, budget=False))


def test_a_key_that_only_one_stream_has_promised_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the streams that an input is made of, all have to have promised a key."""

    def first_only(self, rows, keys):
        return self.streams[0].since(rows, keys)

    monkeypatch.setattr(sets.InputKeys, "since", first_only)
    assert_caught(promised_cases(outer=True), lambda case: check_outer(case, 0, budget=False))


class CaughtError(Exception):
    """Something wrong was caught."""


def assert_caught(cases: st.SearchStrategy, check) -> None:
    @given(case=cases)
    @settings(LAW, max_examples=1000, database=None, phases=[Phase.generate])
    def law(case) -> None:
        try:
            check(case)
        except AssertionError as error:
            raise CaughtError from error

    with pytest.raises(CaughtError):
        law()
