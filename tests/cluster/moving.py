"""All state starts on one of two executors, and moves. A program of its own; prints what happened as JSON.

The arguments are policies, run one after the other.
"""

import json
import sys

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from tests.crash.query import session
from tests.support.oracle import joined
from tests.support.spark_runs import PATIENCE_S, Collected

import watersmeet as wm

EPOCHS, ROWS, KEYS = 12, 100_000, 4_000_000
SITES, GROUPS = 2, 40


def tables() -> dict[str, list[pa.Table]]:
    rng = np.random.default_rng(7)
    return {name: [pa.table({"k": rng.integers(0, KEYS, ROWS)}) for _ in range(EPOCHS)] for name in "AB"}


def run(spark: SparkSession, policy: str, data: dict[str, list[pa.Table]]) -> dict[str, object]:
    flow, sink = wm.Flow(spark), Collected()
    a, b = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in data.items())
    writer = a.join(b, on="A.k = B.k").writeStream.foreachBatch(sink).option("partitionGroups", GROUPS)
    writer = writer.option("siteWeights", "1,0").option("adaptation", policy)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    assert query.exception() is None
    metrics = [report["customMetrics"] for report in query.recentProgress if "idle" not in report["customMetrics"]]
    rows = query.state().groupBy("site").sum("bytes").collect()
    held = {row["site"]: row["sum(bytes)"] for row in rows}
    return {
        "policy": policy,
        "exact": sink.rows == joined(data, ["A.k = B.k"]),
        "bytes": [held.get(site, 0) for site in range(SITES)],
        "moves": [event for event in query.events() if event["kind"] == "move"],
        "executors": len({place for site in metrics[-1]["sites"] for place in site["executors"]}),
        "rowsIn": [[site["rowsIn"] for site in each["sites"]] for each in metrics],
        "busyMs": [[site["busyMs"] for site in each["sites"]] for each in metrics],
    }


def main(policies: list[str]) -> None:
    spark, data = session("local-cluster[2,1,512]"), tables()
    for policy in policies:
        print(json.dumps(run(spark, policy, data)), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
