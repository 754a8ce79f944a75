"""Most rows of a stream have one key, on two executors. A program of its own; prints what happened as JSON.

The arguments are policies, run one after the other.
"""

import json
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from tests.crash.query import session
from tests.support.spark_runs import PATIENCE_S

import watersmeet as wm

EPOCHS, ROWS, KEYS = 12, 60_000, 100_000
HOT_KEY, HOT_PART, HOT_MATCHES = 7, 0.8, 60
SITES, GROUPS = 2, 40


def tables() -> dict[str, list[pa.Table]]:
    """A has a hot key; B has few rows for it, which all come first."""
    rng, found = np.random.default_rng(7), {"A": list[pa.Table](), "B": list[pa.Table]()}
    for epoch in range(EPOCHS):
        keys = np.where(rng.random(ROWS) < HOT_PART, HOT_KEY, rng.integers(0, KEYS, ROWS))
        found["A"].append(pa.table({"k": keys, "v": epoch * ROWS + np.arange(ROWS)}))
        other = rng.integers(HOT_KEY + 1, KEYS, 2_000)
        hot = np.full(HOT_MATCHES if epoch == 0 else 0, HOT_KEY)
        both = np.concatenate([other, hot])
        found["B"].append(pa.table({"k": both, "w": epoch * 10_000 + np.arange(len(both))}))
    return found


SUMS = "count(*), sum(v), sum(w), sum(v % 1009 * (w % 997))"


def expected(data: dict[str, list[pa.Table]]) -> tuple[object, ...]:
    base = duckdb.connect()
    for name, parts in data.items():
        base.register(name, pa.concat_tables(parts))
    return base.sql(f"SELECT {SUMS} FROM A JOIN B USING (k)").fetchall()[0]


def run(spark: SparkSession, policy: str, data: dict[str, list[pa.Table]]) -> dict[str, object]:
    flow = wm.Flow(spark)
    a, b = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in data.items())
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out")
        rows = a.join(b, on="A.k = B.k").select("A.v AS v", "B.w AS w")
        writer = rows.writeStream.format("parquet").option("path", out).option("partitionGroups", GROUPS)
        writer = writer.option("checkpointLocation", str(Path(folder) / "checkpoint")).option("adaptation", policy)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)
        assert query.exception() is None
        got, events = duckdb.sql(f"SELECT {SUMS} FROM '{out}/*.parquet'").fetchall()[0], query.events()
    metrics = [report["customMetrics"] for report in query.recentProgress if "idle" not in report["customMetrics"]]
    return {
        "policy": policy,
        "exact": got == expected(data),
        "splits": [event for event in events if event["kind"] == "split"],
        "moves": [event for event in events if event["kind"] == "move"],
        "executors": len({place for site in metrics[-1]["sites"] for place in site["executors"]}),
        "rowsIn": [[site["rowsIn"] for site in each["sites"]] for each in metrics],
        "busyMs": [[site["busyMs"] for site in each["sites"]] for each in metrics],
        "plan": query.plan,
    }


def main(policies: list[str]) -> None:
    spark, data = session("local-cluster[2,1,512]"), tables()
    for policy in policies:
        print(json.dumps(run(spark, policy, data)), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
