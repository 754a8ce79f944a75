"""The law on Spark: random trees of joins over random streams equal DuckDB's batch join, as multisets."""

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.support.draws import Case, cases, skewed_cases
from tests.support.law_runs import is_found
from tests.support.oracle import difference, joined
from tests.support.spark_runs import run_case

import watersmeet as wm

pytestmark = pytest.mark.spark
# A failing case is printed as drawn: shrinking would start hundreds of queries.
LAW = settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
MORE = settings(LAW, max_examples=40)


def check(spark: SparkSession, case: Case, sites: int, groups: int, *, shortcut: bool = False) -> None:
    note(f"on {case.conditions}, {sites} sites, {groups} groups, {shortcut=}")
    with wm.testing.thrown(shortcut=shortcut):
        got = run_case(spark, case, sites=sites, partitionGroups=groups)
    expected = joined(case.streams, case.conditions)
    assert got == expected, difference(got, expected)


@given(cases(most_streams=6), st.integers(1, 3), st.sampled_from([1, 7, 300]), st.booleans())
@LAW
def test_random_queries_equal_a_batch_join(spark: SparkSession, case: Case, sites: int, groups: int, shortcut) -> None:
    check(spark, case, sites, groups, shortcut=shortcut)


@given(case=skewed_cases())
@settings(LAW, max_examples=1)
@pytest.mark.slow
def test_skewed_keys_and_duplicates_equal_a_batch_join(spark: SparkSession, case: Case) -> None:
    check(spark, case, 2, 300)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(cases(most_streams=6), st.integers(1, 4), st.sampled_from([1, 7, 300]), st.booleans())
@MORE
def test_many_random_queries_equal_a_batch_join(
    spark: SparkSession, case: Case, sites: int, groups: int, shortcut
) -> None:
    check(spark, case, sites, groups, shortcut=shortcut)


@pytest.mark.slow
def test_a_kernel_that_never_joins_new_rows_with_new_rows_is_caught(spark: SparkSession) -> None:
    def is_broken(case: Case) -> bool:
        with wm.testing.thrown(forget_pairs=True):
            return run_case(spark, case, sites=2) != joined(case.streams, case.conditions)

    assert is_found(skewed_cases(), is_broken, 1)
