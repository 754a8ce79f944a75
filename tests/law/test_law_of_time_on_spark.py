"""The law with event times, on Spark: windows, watermarks, late rows and null times equal the written rules."""

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.law.test_law_on_spark import LAW
from tests.support.draws import TimedCase, timed_cases
from tests.support.oracle import difference
from tests.support.rules import expected_results
from tests.support.spark_runs import run_case

import watersmeet as wm

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*has a window and no watermark")]

OPTIONS = st.fixed_dictionaries(
    {"partitionGroups": st.sampled_from([1, 7, 300]), "sites": st.integers(1, 3)},
    optional={"memoryBudget": st.sampled_from(["1", "500", "2k"]), "spillFraction": st.sampled_from([0.1, 1.0])},
)


def check(spark: SparkSession, case: TimedCase, options: dict[str, object], *, shortcut: bool) -> None:
    note(f"on {case.conditions}, {list(case.nodes.values())}, {options}, {shortcut=}")
    with wm.testing.thrown(shortcut=shortcut):
        got = run_case(spark, case, **options)
    expected = expected_results(case)
    assert got == expected, difference(got, expected)


@pytest.mark.long
@given(timed_cases(), OPTIONS, st.booleans())
@settings(LAW, max_examples=2)
def test_windows_and_watermarks_follow_the_rules(spark: SparkSession, case: TimedCase, options, shortcut) -> None:
    check(spark, case, options, shortcut=shortcut)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(timed_cases(), OPTIONS, st.booleans())
@settings(LAW, max_examples=40)
def test_many_windows_and_watermarks_follow_the_rules(spark: SparkSession, case: TimedCase, options, shortcut) -> None:
    check(spark, case, options, shortcut=shortcut)
