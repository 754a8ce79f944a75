"""The laws of time, outer joins, promises, aggregates and rings on two real executors. A program of its own."""

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
from tests.law.test_law_of_aggregates import grouped_cases
from tests.law.test_law_on_spark import LAW
from tests.support.draws import outer_cases, promised_cases, timed_cases

OPTIONS = st.fixed_dictionaries(
    {"partitionGroups": st.sampled_from([1, 7, 300]), "sites": st.integers(2, 3)},
    optional={"memoryBudget": st.sampled_from(["1", "500"])},
)


def main(examples: int) -> None:
    warnings.simplefilter("ignore")
    spark = session("local-cluster[2,1,512]")
    some = settings(LAW, max_examples=examples, database=None, derandomize=True)
    for law in (_times, _outer, _promises, _aggregates, _rings):
        some(law(spark))()
        print("holds", law.__name__, flush=True)  # noqa: T201
    spark.stop()


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
    @given(grouped_cases(windows=False), OPTIONS)
    def law(case, options) -> None:
        aggregates.check(spark, case, options, shortcut=False)

    return law


def _rings(spark: SparkSession):
    @given(rings.CASES, rings.OPTIONS)
    def law(case, options) -> None:
        rings.check(spark, case, options, shortcut=False)

    return law


if __name__ == "__main__":
    main(int(sys.argv[1]))
