"""The law with punctuations and unique keys: what they let go is never missed, and what breaks them is told."""

from hypothesis import given
from hypothesis import strategies as st
from tests.law.test_law_in_process import LAW
from tests.law.test_law_of_time import check as check_inner
from tests.support.draws import TimedCase, promised_cases


@given(case=promised_cases(outer=False), seed=st.integers(0, 2**32))
@LAW
def test_punctuations_change_no_inner_join(case: TimedCase, seed: int) -> None:
    check_inner(case, seed, budget=False)
