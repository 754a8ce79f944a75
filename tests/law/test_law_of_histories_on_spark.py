"""The law with aggregates over the latest rows of each group, on Spark."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.law.test_law_of_aggregates import rows_of
from tests.law.test_law_of_aggregates_on_spark import _sql
from tests.law.test_law_of_histories import Latest, latest_cases, told_by_epoch
from tests.law.test_law_of_time_on_spark import OPTIONS
from tests.law.test_law_on_spark import LAW
from tests.support.spark_runs import PATIENCE_S, Collected, relation

import watersmeet as wm

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*has a window and no watermark")]


def check(spark: SparkSession, latest: Latest, options: dict[str, object], *, shortcut: bool) -> None:
    node = latest.node
    note(f"{node.keys} over {node.history} of {list(latest.case.nodes.values())}, {options}, {shortcut=}")
    frames = {name: wm.testing.replay(spark, tables) for name, tables in latest.case.streams.items()}
    groups = relation(wm.Flow(spark), frames, latest.case.query.node).groupBy(*(key.sql for key in node.keys))
    time = None if node.history.time_us is None else timedelta(microseconds=node.history.time_us)
    told = [f"{_sql(each)} AS {each.name}" for each in node.aggregates]
    sink = Collected()
    writer = groups.over(rows=node.history.rows, time=time).agg(*told).writeStream.foreachBatch(sink)
    with wm.testing.thrown(shortcut=shortcut):
        query = writer.options(**options).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)
    got, expected, width = sorted(sink.epochs.items()), told_by_epoch(latest), len(node.keys)
    rows = [row for _, table in got for row in rows_of(table)]
    assert {row[:width]: row for row in rows} == expected[-1][0]
    if "memoryBudget" not in options:
        by_epoch = [Counter(rows_of(table)) for _, table in got]
        by_rule = [Counter(values[key] for key in keys) for values, keys in expected]
        assert [each for each in by_epoch if each] == [each for each in by_rule if each]


@pytest.mark.long
@given(latest_cases(windows=False), OPTIONS, st.booleans())
@settings(LAW, max_examples=2)
def test_every_epoch_tells_the_latest_rows(spark: SparkSession, latest: Latest, options, shortcut) -> None:
    check(spark, latest, options, shortcut=shortcut)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(latest_cases(windows=False), OPTIONS, st.booleans())
@settings(LAW, max_examples=40)
def test_every_epoch_tells_the_latest_rows_many_times(spark: SparkSession, latest: Latest, options, shortcut) -> None:
    check(spark, latest, options, shortcut=shortcut)
