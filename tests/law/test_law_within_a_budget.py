"""The law on Spark with too little memory: whatever is spilled and cleaned when, results equal DuckDB's batch join."""

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.law.test_law_on_spark import LAW
from tests.support.draws import Case, cases, skewed_cases
from tests.support.law_runs import is_found
from tests.support.oracle import difference, joined
from tests.support.spark_runs import run_case

import watersmeet as wm
from watersmeet.adapt.spilling import STRATEGIES

pytestmark = pytest.mark.spark

OPTIONS = st.fixed_dictionaries(
    {
        "spillStrategy": st.sampled_from(sorted(STRATEGIES)),
        "memoryBudget": st.sampled_from(["1", "500", "2k"]),
        "spillFraction": st.sampled_from([0.1, 0.3, 1.0]),
        "partitionGroups": st.sampled_from([1, 7, 300]),
        "sites": st.integers(1, 3),
    }
)


def check(spark: SparkSession, case: Case, options: dict[str, object], *, shortcut: bool = False) -> None:
    note(f"on {case.conditions}, {options}, {shortcut=}")
    with wm.testing.thrown(shortcut=shortcut):
        got = run_case(spark, case, **options)
    expected = joined(case.streams, case.conditions)
    assert got == expected, difference(got, expected)


@given(cases(most_streams=5), OPTIONS, st.booleans())
@settings(LAW, max_examples=2)
def test_random_queries_within_any_budget_equal_a_batch_join(
    spark: SparkSession, case: Case, options, shortcut
) -> None:
    check(spark, case, options, shortcut=shortcut)


@given(case=skewed_cases())
@settings(LAW, max_examples=1)
@pytest.mark.slow
def test_skewed_keys_within_a_budget_equal_a_batch_join(spark: SparkSession, case: Case) -> None:
    check(spark, case, {"memoryBudget": "4k", "sites": 2})


@pytest.mark.slow
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@settings(LAW, max_examples=3)
@given(case=skewed_cases())
def test_skewed_keys_within_a_budget_equal_a_batch_join_by_every_strategy(spark, strategy, case: Case) -> None:
    check(spark, case, {"spillStrategy": strategy, "memoryBudget": "4k", "sites": 2})


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(cases(most_streams=6), OPTIONS, st.booleans())
@settings(LAW, max_examples=60)
def test_many_random_queries_within_any_budget_equal_a_batch_join(spark, case: Case, options, shortcut) -> None:
    check(spark, case, options, shortcut=shortcut)


@pytest.mark.slow
def test_a_kernel_that_forgets_pairs_is_caught_within_a_budget_too(spark: SparkSession) -> None:
    def is_broken(case: Case) -> bool:
        with wm.testing.thrown(forget_pairs=True):
            return run_case(spark, case, sites=2, memoryBudget="4k") != joined(case.streams, case.conditions)

    assert is_found(skewed_cases(), is_broken, 1)
