"""The law with outer, semi and anti joins, on Spark."""

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.law.test_law_of_time_on_spark import OPTIONS
from tests.law.test_law_on_spark import LAW
from tests.support.draws import OuterCase, outer_cases
from tests.support.oracle import difference
from tests.support.rules import expected_outer
from tests.support.spark_runs import run_case

import watersmeet as wm

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:.*has a window and no watermark", "ignore:.*never come out of the"),
]


def check(spark: SparkSession, case: OuterCase, options: dict[str, object], *, shortcut: bool, ends: bool) -> None:
    note(f"{case.how} on {case.on}, {list(case.nodes.values())}, {options}, {shortcut=}, {ends=}")
    with wm.testing.thrown(shortcut=shortcut):
        got = run_case(spark, case, **options, endOfInput=ends)
    expected = expected_outer(case, has_ended=ends)
    assert got == expected, difference(got, expected)


@given(outer_cases(), OPTIONS, st.booleans(), st.booleans())
@settings(LAW, max_examples=2)
def test_rows_without_a_match_come_once(spark: SparkSession, case: OuterCase, options, shortcut, ends) -> None:
    check(spark, case, options, shortcut=shortcut, ends=ends)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(outer_cases(), OPTIONS, st.booleans(), st.booleans())
@settings(LAW, max_examples=40)
def test_rows_without_a_match_come_once_many_times(
    spark: SparkSession, case: OuterCase, options, shortcut, ends
) -> None:
    check(spark, case, options, shortcut=shortcut, ends=ends)
