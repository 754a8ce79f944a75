"""The registry of a running query, on Spark: it can be read and changed, and results do not depend on it."""

import time

import numpy as np
import pyarrow as pa
import pytest
from tests.support.spark_runs import PATIENCE_S, Collected

import watersmeet as wm

pytestmark = pytest.mark.spark


@pytest.fixture
def running(spark):
    """A query over its budget that cleans nothing by itself, its sink, and the number of results."""
    rng = np.random.default_rng(1)
    flow = wm.Flow(spark)
    tables = {name: [pa.table({"k": rng.integers(0, 40, 60)}) for _ in range(3)] for name in "AB"}
    a, b = (flow.stream(name, wm.testing.replay(spark, each)) for name, each in tables.items())
    sink = Collected()
    writer = a.join(b, "k").writeStream.foreachBatch(sink)
    query = writer.options(memoryBudget=500, sites=2, cleanup="end").start()
    counts = [np.bincount(pa.concat_tables(each).column("k").to_numpy(), minlength=40) for each in tables.values()]
    yield query, sink, int(counts[0] @ counts[1])
    query.stop()


def test_missing_results_come_once_the_disk_join_is_registered(running):
    query, sink, expected = running
    assert "StreamEmpty" not in {event for event, _, _ in query.registry}
    query.processAllAvailable()
    assert sink.rows.total() < expected
    query.registry.set("StreamEmpty", 0.1)
    query.registry.add("StreamEmpty", "disk join")
    assert len(query.registry) == 7
    until = time.monotonic() + PATIENCE_S
    while sink.rows.total() < expected and time.monotonic() < until:
        time.sleep(0.2)
    assert sink.rows.total() == expected
    while not (told := [event for event in query.events() if event["kind"] == "registry"]):
        assert time.monotonic() < until  # the version that tells them is committed after its results came
        time.sleep(0.2)
    assert [event["reason"] for event in told] == [
        "StreamEmpty was set to 0.1",
        "disk join was added to StreamEmpty",
    ]
    assert ("StreamEmpty", "no input for 0.1 s", "disk join") in map(tuple, told[-1]["after"]["entries"])


def test_what_makes_no_sense_is_refused_and_changes_nothing(running, spark):
    query, _, _ = running
    before = repr(query.registry)
    for call in (
        lambda: query.registry.set("MemoryLimitReached", 0),
        lambda: query.registry.set("Memory", 1),
        lambda: query.registry.threshold("Memory"),
        lambda: query.registry.add("StreamEmpty", "purge"),
        lambda: query.registry.remove("StreamEmpty", "memory join"),
    ):
        with pytest.raises(wm.WatersmeetError):
            call()
    query.registry.remove("StreamEmpty")
    assert repr(query.registry) == before
    unlimited = wm.Flow(spark).stream("A", spark.readStream.format("rate").load()).select("value").distinct()
    other = unlimited.writeStream.foreachBatch(Collected()).start()
    with pytest.raises(wm.WatersmeetError, match="no memoryBudget"):
        other.registry.set("MemoryLimitReached", 0.5)
    other.stop()
