"""Groups on Spark: small tables whose groups can be told by hand, a run of them, and what the sink got."""

import pyarrow as pa

import watersmeet as wm
from tests.support.oracle import difference, multiset
from tests.support.spark_runs import PATIENCE_S, Collected

SECOND = 1_000_000
NAN = float("nan")
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
DATA = [
    pa.table({"k": ["a", "b", None, "a"], "n": [1, 2, None, -4], "x": [0.5, NAN, 0.0, None]}),
    pa.table({"k": ["a", None, "c"], "n": [3, 7, None], "x": [-2.0, -0.0, None]}),
    pa.table({"k": ["b", "a", None], "n": [2, 1, 5], "x": [1.5, 0.5, 2.5]}),
]
BY_MINUTE = "window(A.ts, '1 minute')"


def table(*rows):
    """Rows of a key, a number and a time in microseconds."""
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([pa.array(list(column), kind) for column, kind in zip(columns, SCHEMA.types, strict=True)], SCHEMA)


def streams_of(spark, tables, **said):
    flow = wm.Flow(spark)
    return [flow.stream(name, wm.testing.replay(spark, each), **said) for name, each in tables.items()]


def alone(spark, tables=DATA, **said):
    return streams_of(spark, {"A": tables}, **said)[0]


def ran(rows, sink=None, *, mode="append", **options):
    """What the sink got by epoch, and the metrics of each epoch."""
    sink = sink or Collected()
    writer = rows.writeStream.foreachBatch(sink).outputMode(mode).options(sites=2, **options)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return sink, [progress["customMetrics"] for progress in query.recentProgress]


def by_epoch(sink):
    """The rows of each epoch that has any, sorted."""
    rows = {epoch: [tuple(row.values()) for row in each.to_pylist()] for epoch, each in sorted(sink.epochs.items())}
    return {epoch: sorted(each, key=repr) for epoch, each in rows.items() if each}


def assert_same(rows, frame, **options):
    sink, metrics = ran(rows, endOfInput=True, **options)
    got, expected = sink.rows, multiset(frame.toArrow())
    assert got == expected, difference(got, expected)
    assert "memoryBudget" not in options or has_spilled(metrics)


def has_spilled(metrics):
    """Whether groups were spilled and met again, so that their values had to be put together."""
    return any(epoch["spilledGroups"] for epoch in metrics)
