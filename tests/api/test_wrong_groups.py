"""What cannot be grouped is told at once, and groups that never come out are warned of."""

import re
import warnings

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from tests.support.aggregating import BY_MINUTE, alone, streams_of, table

import watersmeet as wm
from watersmeet.api.checks import check_ends

pytestmark = pytest.mark.spark


def bad(spark):
    a, b = streams_of(spark, {"A": [table()], "B": [table()]}, time="ts", window="1 minute", watermark="0 seconds")
    python = F.udf(lambda n: n, LongType())
    counted = a.groupBy("A.k").count()
    return {
        "an unknown function": (
            lambda: a.groupBy("k").agg("median(n)"),
            "median",
            "aggregates are count, count_if, sum",
        ),
        "no function": (lambda: a.groupBy("k").agg("n"), "given n", "aggregates are count"),
        "what is no key": (
            lambda: a.groupBy("k").agg("sum(n) + n AS x"),
            "sum\\(n\\) \\+ n",
            "neither in an aggregate",
        ),
        "a window function": (lambda: a.groupBy("k").agg("sum(n) OVER () AS x"), "OVER", "aggregates are"),
        "aggregates of aggregates": (lambda: a.groupBy("k").agg("sum(count(*)) AS x"), "COUNT", "."),
        "no columns with numbers": (
            lambda: a.join(b, "k").groupBy("A.k").sum(),
            "sum was given no columns",
            "name some",
        ),
        "a pivot": (lambda: a.groupBy("k").pivot("n"), "groups have no pivot", "agg"),
        "a bare number in over": (lambda: a.groupBy("k").over(3), "over was given 3", "rows=100"),
        "a function of a dict that is none": (lambda: a.groupBy("k").agg({"n": "median"}), "median", "aggregates are"),
        "DISTINCT in sum": (lambda: a.groupBy("k").agg("sum(DISTINCT n)"), "DISTINCT", "only count takes DISTINCT"),
        "two of one name": (lambda: a.groupBy("k").agg("sum(n) AS k"), "called k", "AS"),
        "nothing": (lambda: a.groupBy("k").agg(), "nothing", "count"),
        "a window that slides very often": (
            lambda: a.groupBy("window(ts, '1 day', '1 second')").count(),
            "WINDOW",
            "86,400 windows.*1,000.*less often",
        ),
        "a session": (
            lambda: a.groupBy("session_window(ts, '2 minutes')").count(),
            "SESSION_WINDOW",
            "a session grows",
        ),
        "a session as a Column": (
            lambda: a.groupBy(F.session_window("ts", "2 minutes")).count(),
            "(?i)session",
            "grows",
        ),
        "a part of a window": (lambda: a.groupBy("window(ts, '1 minute').start").count(), "WINDOW", "made of"),
        "a window of a number": (
            lambda: a.groupBy("window(n, '1 minute')").count(),
            "WINDOW",
            "A.n is no timestamp",
        ),
        "a window of no length": (lambda: a.groupBy("window(ts, 'soon')").count(), "soon", "length of time"),
        "a stream": (lambda: a.join(b, "k").groupBy("A").count(), "grouped by A", "columns"),
        "an unknown column": (lambda: a.groupBy("kk").count(), "kk", "k"),
        "an unknown argument": (lambda: a.groupBy("k").agg("sum(nn)"), "nn", "n"),
        "a sum of texts": (lambda: a.groupBy("n").agg("sum(k)"), "sum", "string.*CAST"),
        "an average of times": (lambda: a.groupBy("n").agg("avg(ts)"), "avg", "timestamp.*CAST"),
        "after Python": (lambda: a.select(python("n").alias("m")).groupBy("m"), "only Spark can do", "group first"),
        "groups of groups": (lambda: counted.groupBy("count"), "grouped already", "group"),
        "distinct groups": (counted.distinct, "grouped already", "group"),
        "a joined aggregate": (lambda: counted.join(b, "k"), "aggregate", "join first"),
        "duplicates by an unknown column": (lambda: a.dropDuplicates(["kk"]), "kk", "k"),
        "complete mode": (lambda: counted.writeStream.outputMode("complete"), "complete", "update"),
        "update into files": (
            lambda: counted.writeStream.outputMode("update").option("checkpointLocation", "c").start("out"),
            "update.*parquet",
            "foreachBatch",
        ),
    }


def test_what_cannot_be_grouped_is_told_at_once(spark):
    wrong = []
    for name, (call, what, more) in bad(spark).items():
        try:
            call()
        except wm.WatersmeetError as error:
            said = [error.what, error.why, error.how]
            if not all(said) or not re.search(what, error.what) or not re.search(more, str(error)):
                wrong.append((name, str(error)))
        except Exception as error:  # noqa: BLE001 -- that is what is looked for
            wrong.append((name, repr(error)[:300]))
        else:
            wrong.append((name, "not refused"))
    assert not wrong, "\n".join(map(str, wrong))


def test_groups_that_never_come_out_are_warned_of(spark):
    a, b = streams_of(spark, {"A": [table()], "B": [table()]}, time="ts")
    ended = alone(spark, [table()], time="ts", watermark="1 second")
    for rows in (a.groupBy("k").count(), a.join(b, "k").groupBy(BY_MINUTE).count(), ended.groupBy("k").count()):
        with pytest.warns(UserWarning, match="groups never come out.*endOfInput"):
            check_ends(rows.plan(), {"availableNow": True}, ends_input=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_ends(ended.groupBy(BY_MINUTE).count().plan(), {"processingTime": "1 second"}, ends_input=False)
        check_ends(a.groupBy("k").count().plan(), {"availableNow": True}, ends_input=True)
        check_ends(a.select("k").distinct().plan(), {"availableNow": True}, ends_input=False)
        check_ends(a.groupBy("k").count().shape.plan("update"), {"availableNow": True}, ends_input=False)
