"""The law on Spark: random trees of joins over random streams equal DuckDB's batch join, as multisets."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.support.disturbing import disturbed
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


WAYS = st.fixed_dictionaries({"shortcut": st.booleans(), "staged_from": st.sampled_from([None, 0])})
"""Whether one task may do everything, and whether results are staged in files for the sink."""


DISTURBED = st.fixed_dictionaries(
    {"sites": st.integers(2, 3), "partitionGroups": st.sampled_from([1, 7, 300])},
    optional={"memoryBudget": st.sampled_from(["1", "500"]), "adaptation": st.sampled_from(["none", "flux"])},
)
SEEDS = st.integers(0, 2**32)


def check(spark: SparkSession, case: Case, sites: int, groups: int, **ways: object) -> None:
    with wm.testing.thrown(**ways):
        check_options(spark, case, {"sites": sites, "partitionGroups": groups}, **ways)


def check_options(spark: SparkSession, case: Case, options: Mapping[str, object], **ways: object) -> None:
    note(f"on {case.conditions}, {options}, {ways}")
    got = run_case(spark, case, **options)
    expected = joined(case.streams, case.conditions)
    assert got == expected, difference(got, expected)


def check_disturbed(spark: SparkSession, case: Case, options: Mapping[str, object], seed: int) -> Counter[str]:
    """Groups move, are split and are parked by lot after every epoch; gives how often that was suggested."""
    with wm.testing.thrown(shortcut=False), disturbed(seed) as suggested:
        check_options(spark, case, options, seed=seed)
    return suggested


@given(cases(most_streams=6), st.integers(1, 3), st.sampled_from([1, 7, 300]), WAYS)
@LAW
def test_random_queries_equal_a_batch_join(spark: SparkSession, case: Case, sites: int, groups: int, ways) -> None:
    check(spark, case, sites, groups, **ways)


@pytest.mark.long
@given(case=skewed_cases(), options=DISTURBED, seed=SEEDS)
@LAW
def test_groups_that_move_are_split_and_are_parked_change_no_result(spark: SparkSession, case, options, seed) -> None:
    check_disturbed(spark, case, options, seed)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=cases(most_streams=4), options=DISTURBED, seed=SEEDS)
@MORE
def test_many_disturbances_change_no_result(spark: SparkSession, case, options, seed) -> None:
    check_disturbed(spark, case, options, seed)


@pytest.mark.long
def test_groups_do_move_and_are_split_and_parked(spark: SparkSession) -> None:
    """The law would say nothing if they were not."""
    suggested: Counter[str] = Counter()

    @given(case=skewed_cases(), seed=SEEDS)
    @settings(LAW, max_examples=1, derandomize=True, database=None)
    def law(case, seed) -> None:
        suggested.update(check_disturbed(spark, case, {"sites": 2, "partitionGroups": 7}, seed))

    law()
    assert {"MoveGroups", "SplitGroup", "SpillGroups"} <= suggested.keys()


@given(case=skewed_cases())
@settings(LAW, max_examples=1)
@pytest.mark.slow
def test_skewed_keys_and_duplicates_equal_a_batch_join(spark: SparkSession, case: Case) -> None:
    check(spark, case, 2, 300, shortcut=False)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(cases(most_streams=6), st.integers(1, 4), st.sampled_from([1, 7, 300]), WAYS)
@MORE
def test_many_random_queries_equal_a_batch_join(spark: SparkSession, case: Case, sites: int, groups: int, ways) -> None:
    check(spark, case, sites, groups, **ways)


@pytest.mark.slow
def test_a_kernel_that_never_joins_new_rows_with_new_rows_is_caught(spark: SparkSession) -> None:
    def is_broken(case: Case) -> bool:
        with wm.testing.thrown(forget_pairs=True):
            return run_case(spark, case, sites=2) != joined(case.streams, case.conditions)

    assert is_found(skewed_cases(), is_broken, 1)
