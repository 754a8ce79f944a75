"""The law with punctuations and unique keys, on Spark."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.law.test_law_of_outer_joins_on_spark import check as check_outer
from tests.law.test_law_of_time_on_spark import OPTIONS
from tests.law.test_law_of_time_on_spark import check as check_inner
from tests.law.test_law_on_spark import LAW
from tests.support.draws import OuterCase, TimedCase, promised_cases

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:.*has a window and no watermark", "ignore:.*never come out of the"),
]


@pytest.mark.long
@given(promised_cases(outer=False), OPTIONS, st.booleans())
@settings(LAW, max_examples=2)
def test_promises_change_no_inner_join(spark: SparkSession, case: TimedCase, options, shortcut) -> None:
    check_inner(spark, case, options, shortcut=shortcut)


@pytest.mark.long
@given(promised_cases(outer=True), OPTIONS, st.booleans(), st.booleans())
@settings(LAW, max_examples=2)
def test_promises_decide_rows_without_a_match(spark: SparkSession, case: OuterCase, options, shortcut, ends) -> None:
    check_outer(spark, case, options, shortcut=shortcut, ends=ends)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(promised_cases(outer=False), OPTIONS, st.booleans())
@settings(LAW, max_examples=30)
def test_promises_change_no_inner_join_many_times(spark: SparkSession, case: TimedCase, options, shortcut) -> None:
    check_inner(spark, case, options, shortcut=shortcut)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(promised_cases(outer=True), OPTIONS, st.booleans(), st.booleans())
@settings(LAW, max_examples=30)
def test_promises_decide_rows_without_a_match_many_times(
    spark: SparkSession, case: OuterCase, options, shortcut, ends
) -> None:
    check_outer(spark, case, options, shortcut=shortcut, ends=ends)
