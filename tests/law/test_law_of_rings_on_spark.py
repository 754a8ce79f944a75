"""The law of rings on Spark: joins on any condition equal a batch join of the accepted rows."""

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.law.test_law_of_rings import type_of
from tests.law.test_law_on_spark import LAW
from tests.support.draws import TimedCase
from tests.support.oracle import difference
from tests.support.ring_draws import OF_THREE, PREDICATE, ring_cases
from tests.support.rules import expected_results
from tests.support.spark_runs import run_case

import watersmeet as wm
from watersmeet.planning import plan

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*has a window and no watermark")]

OPTIONS = st.fixed_dictionaries(
    {
        "partitionGroups": st.sampled_from([1, 7, 300]),
        "sites": st.integers(1, 3),
        "memoryBudget": st.sampled_from(["1", "500", "64m"]),
    }
)
LENGTHS = st.fixed_dictionaries(
    {"ringGoal": st.sampled_from(["latency", "output"]), "sites": st.integers(2, 3)},
    optional={"ringRelocation": st.sampled_from(["aggressive", "passive"])},
)
SCHEMES = st.fixed_dictionaries({"ringScheme": st.sampled_from(["psp", "atr", "ctr"]), "sites": st.integers(1, 4)})


def has_ring(case: TimedCase) -> bool:
    return any(each.kind == "ring" for each in plan(case.query, type_of, endless=True).operators)


CASES = ring_cases(most_streams=3, most_rows=6)
WITH_FUNCTIONS = CASES.filter(lambda case: PREDICATE in str(case.conditions))
OF_THREE_STREAMS = CASES.filter(lambda case: OF_THREE in str(case.conditions))
ENDING = ring_cases(most_streams=3, most_rows=6, ends=True).filter(has_ring)


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


@pytest.mark.long
@given(ENDING, st.one_of(LENGTHS, SCHEMES))
@settings(LAW, max_examples=3)
def test_rings_of_any_scheme_and_length_are_those_of_a_batch_join(
    spark: SparkSession, case: TimedCase, options
) -> None:
    check(spark, case, options, shortcut=False)


@pytest.mark.long
@given(OF_THREE_STREAMS, OPTIONS)
@settings(LAW, max_examples=1)
def test_rings_with_functions_of_three_streams_are_those_of_a_batch_join(
    spark: SparkSession, case: TimedCase, options
) -> None:
    check(spark, case, options, shortcut=False)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(ENDING, st.one_of(LENGTHS, SCHEMES))
@settings(LAW, max_examples=20)
def test_many_rings_of_any_scheme_and_length_are_those_of_a_batch_join(
    spark: SparkSession, case: TimedCase, options
) -> None:
    check(spark, case, options, shortcut=False)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(CASES, OPTIONS, st.booleans())
@settings(LAW, max_examples=40)
def test_many_rings_are_those_of_a_batch_join(spark: SparkSession, case: TimedCase, options, shortcut) -> None:
    check(spark, case, options, shortcut=shortcut)
