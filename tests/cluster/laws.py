"""The laws of disturbed joins, time, outer joins, promises, aggregates, rings and functions on two real executors.

A program of its own.
"""

import sys
import warnings

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.crash.query import session
from tests.law import test_law_of_aggregates_on_spark as aggregates
from tests.law import test_law_of_outer_joins_on_spark as outer
from tests.law import test_law_of_rings_on_spark as rings
from tests.law import test_law_of_time_on_spark as times
from tests.law import test_law_on_spark as joins
from tests.law.test_law_on_spark import LAW
from tests.support.draws import outer_cases, promised_cases, skewed_cases, timed_cases

OPTIONS = st.fixed_dictionaries(
    {"partitionGroups": st.sampled_from([1, 7, 300]), "sites": st.integers(2, 3)},
    optional={"memoryBudget": st.sampled_from(["1", "500"])},
)


def main(examples: int, *names: str) -> None:
    """Check so many examples of all laws, or of some."""
    warnings.simplefilter("ignore")
    spark = session("local-cluster[2,1,512]")
    some = settings(LAW, max_examples=examples, database=None, derandomize=True)
    for law in (_disturbed, _times, _outer, _promises, _aggregates, _rings, _functions):
        if names and law.__name__ not in names:
            continue
        some(law(spark))()
        print("holds", law.__name__, flush=True)  # noqa: T201
    spark.stop()


def _disturbed(spark: SparkSession):
    """Groups move, are split and are parked between executors."""

    @given(skewed_cases(), joins.DISTURBED, joins.SEEDS)
    def law(case, options, seed) -> None:
        joins.check_disturbed(spark, case, options, seed)

    return law


def _times(spark: SparkSession):
    @given(timed_cases(most_epochs=3), OPTIONS)
    def law(case, options) -> None:
        times.check(spark, case, options, shortcut=False)

    return law


def _outer(spark: SparkSession):
    @given(outer_cases(most_epochs=3), OPTIONS, st.booleans())
    def law(case, options, ends) -> None:
        outer.check(spark, case, options, shortcut=False, ends=ends)

    return law


def _promises(spark: SparkSession):
    @given(promised_cases(outer=True), OPTIONS, st.booleans())
    def law(case, options, ends) -> None:
        outer.check(spark, case, options, shortcut=False, ends=ends)

    return law


def _aggregates(spark: SparkSession):
    @given(aggregates.CASES, OPTIONS)
    def law(case, options) -> None:
        aggregates.check(spark, case, options, shortcut=False)

    return law


def _rings(spark: SparkSession):
    @given(rings.CASES, rings.OPTIONS)
    def law(case, options) -> None:
        rings.check(spark, case, options, shortcut=False)

    return law


def _functions(spark: SparkSession):
    """Functions of the user's travel to all executors."""

    @given(rings.WITH_FUNCTIONS, OPTIONS)
    def law(case, options) -> None:
        rings.check(spark, case, {"memoryBudget": "64m", **options}, shortcut=False)

    return law


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
