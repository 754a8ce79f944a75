"""The laws on two real executors, between which groups move, are split and are parked all the time.

A program of its own.
"""

import sys
import warnings

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.crash.query import session
from tests.law import test_law_of_aggregates_on_spark as aggregates
from tests.law import test_law_of_histories_on_spark as histories
from tests.law import test_law_of_outer_joins_on_spark as outer
from tests.law import test_law_of_rings_on_spark as rings
from tests.law import test_law_of_time_on_spark as times
from tests.law import test_law_on_spark as joins
from tests.law.test_law_of_histories import latest_cases
from tests.law.test_law_on_spark import LAW
from tests.support.disturbing import disturbed
from tests.support.draws import outer_cases, promised_cases, skewed_cases, timed_cases

OPTIONS = st.fixed_dictionaries(
    {"partitionGroups": st.sampled_from([1, 7, 300]), "sites": st.integers(2, 3)},
    optional={
        "memoryBudget": st.sampled_from(["1", "500"]),
        "adaptation": st.sampled_from(["none", "memory", "flux"]),
    },
)


def main(examples: int, *names: str) -> None:
    """Check so many examples of all laws, or of some."""
    warnings.simplefilter("ignore")
    spark = session("local-cluster[2,1,512]")
    some = settings(LAW, max_examples=examples, database=None, derandomize=True)
    for number, law in enumerate(LAWS):
        if names and law.__name__ not in names:
            continue
        with disturbed(number) as suggested:
            some(law(spark))()
        print("holds", law.__name__, dict(suggested), flush=True)  # noqa: T201
    spark.stop()


def _joins(spark: SparkSession):
    @given(skewed_cases(), OPTIONS)
    def law(case, options) -> None:
        joins.check_options(spark, case, options)

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


def _kept_promises(spark: SparkSession):
    @given(promised_cases(outer=False), OPTIONS)
    def law(case, options) -> None:
        times.check(spark, case, options, shortcut=False)

    return law


def _histories(spark: SparkSession):
    @given(latest_cases(windows=False), OPTIONS)
    def law(case, options) -> None:
        histories.check(spark, case, options, shortcut=False)

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


LAWS = (_joins, _times, _outer, _promises, _kept_promises, _aggregates, _histories, _rings, _functions)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
