"""The law with aggregates, on Spark: values equal DuckDB's, whatever is spilled."""

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.law.test_law_of_aggregates import SQL, Grouped, expected_rows, grouped_cases, rows_of
from tests.law.test_law_of_time_on_spark import OPTIONS
from tests.law.test_law_on_spark import LAW
from tests.support.spark_runs import PATIENCE_S, Collected, frames_of, relation

import watersmeet as wm
from watersmeet.model.query import Aggregate

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*has a window and no watermark")]

CASES = st.one_of(grouped_cases(), grouped_cases(promised=True))
"""With windows, and with punctuations and unique keys."""


def check(spark: SparkSession, grouped: Grouped, options: dict[str, object], *, shortcut: bool) -> None:
    node = grouped.node
    note(f"{node.keys} {node.mode} of {list(grouped.case.nodes.values())}, {options}, {shortcut=}")
    rows = relation(wm.Flow(spark), frames_of(spark, grouped.case), grouped.case.query.node)
    if node.mode == "first":
        made = rows.select(*(f"{key.sql} AS {key.name}" for key in node.keys)).distinct()
    else:
        made = rows.groupBy(*(key.sql for key in node.keys)).agg(
            *(f"{_sql(each)} AS {each.name}" for each in node.aggregates)
        )
    sink = Collected()
    writer = made.writeStream.foreachBatch(sink).outputMode("append" if node.mode == "first" else node.mode)
    with wm.testing.thrown(shortcut=shortcut):
        query = writer.options(**options, endOfInput=True).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)
    got = [row for _, table in sorted(sink.epochs.items()) for row in rows_of(table)]
    expected, width = expected_rows(grouped, has_ended=True), len(node.keys)
    assert sorted({row[:width]: row for row in got}.values()) == sorted(expected)
    assert node.mode == "update" or len(got) == expected.total()


def _sql(each: Aggregate) -> str:
    return SQL.get(each.function, f"{each.function}({{}})").format(each.sql)


@pytest.mark.long
@given(CASES, OPTIONS, st.booleans())
@settings(LAW, max_examples=4)
def test_groups_have_the_values_of_a_batch_aggregate(spark: SparkSession, grouped: Grouped, options, shortcut) -> None:
    check(spark, grouped, options, shortcut=shortcut)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(CASES, OPTIONS, st.booleans())
@settings(LAW, max_examples=40)
def test_groups_have_the_values_of_a_batch_aggregate_many_times(
    spark: SparkSession, grouped: Grouped, options, shortcut
) -> None:
    check(spark, grouped, options, shortcut=shortcut)
