"""The law of rings on Spark: joins on any condition equal a batch join of the accepted rows."""

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.law.test_law_on_spark import LAW
from tests.support.draws import TimedCase
from tests.support.oracle import difference
from tests.support.ring_draws import PREDICATE, ring_cases
from tests.support.rules import expected_results
from tests.support.spark_runs import run_case

import watersmeet as wm

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*has a window and no watermark")]

OPTIONS = st.fixed_dictionaries(
    {
        "partitionGroups": st.sampled_from([1, 7, 300]),
        "sites": st.integers(1, 3),
        "memoryBudget": st.sampled_from(["1", "500", "64m"]),
    }
)
CASES = ring_cases(most_streams=3, most_rows=6)
WITH_FUNCTIONS = CASES.filter(lambda case: PREDICATE in str(case.conditions))


def check(spark: SparkSession, case: TimedCase, options: dict[str, object], *, shortcut: bool) -> None:
    note(f"on {case.conditions}, {list(case.nodes.values())}, {options}, {shortcut=}")
    with wm.testing.thrown(shortcut=shortcut):
        got = run_case(spark, case, **options)
    expected = expected_results(case)
    assert got == expected, difference(got, expected)


@pytest.mark.long
@given(CASES, OPTIONS, st.booleans())
@settings(LAW, max_examples=2)
def test_rings_are_those_of_a_batch_join(spark: SparkSession, case: TimedCase, options, shortcut) -> None:
    check(spark, case, options, shortcut=shortcut)


@pytest.mark.long
@given(WITH_FUNCTIONS, OPTIONS, st.booleans())
@settings(LAW, max_examples=2)
def test_rings_with_functions_are_those_of_a_batch_join(
    spark: SparkSession, case: TimedCase, options, shortcut
) -> None:
    check(spark, case, options, shortcut=shortcut)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(CASES, OPTIONS, st.booleans())
@settings(LAW, max_examples=40)
def test_many_rings_are_those_of_a_batch_join(spark: SparkSession, case: TimedCase, options, shortcut) -> None:
    check(spark, case, options, shortcut=shortcut)
