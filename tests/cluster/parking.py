"""One of two executors is slow for some epochs. A program of its own; prints what happened as JSON.

The arguments are ways to go about it, one after the other: ``none``, ``auto``, and ``park``, which moves nothing.
"""

import json
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from tests.cluster.hot import SUMS, expected
from tests.crash.query import session
from tests.support.spark_runs import PATIENCE_S

import watersmeet as wm
from watersmeet.adapt.moving.flux import FluxPolicy

EPOCHS, ROWS, KEYS, MATCHES = 16, 5_000, 2_000, 500
SLOW_SITE, TIMES, SLOW_EPOCHS = 0, 8.0, range(6, 12)
SITES, GROUPS = 2, 40


def tables() -> dict[str, list[pa.Table]]:
    """Every row of A has some matches, nearly all of which come first."""
    rng, found = np.random.default_rng(7), {"A": list[pa.Table](), "B": list[pa.Table]()}
    for epoch in range(EPOCHS):
        keys = rng.integers(0, KEYS, ROWS)
        found["A"].append(pa.table({"k": keys, "v": epoch * ROWS + np.arange(ROWS)}))
        others = np.tile(np.arange(KEYS), MATCHES) if epoch == 0 else rng.integers(0, KEYS, 100)
        found["B"].append(pa.table({"k": others, "w": epoch * KEYS * MATCHES + np.arange(len(others))}))
    return found


def run(spark: SparkSession, way: str, data: dict[str, list[pa.Table]]) -> dict[str, object]:
    flow = wm.Flow(spark)
    a, b = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in data.items())
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out")
        rows = a.join(b, on="A.k = B.k").select("A.v AS v", "B.w AS w")
        writer = rows.writeStream.format("parquet").option("path", out).option("partitionGroups", GROUPS)
        writer = writer.option("checkpointLocation", str(Path(folder) / "checkpoint"))
        writer = writer.option("adaptation", "flux" if way == "park" else way)
        with wm.testing.thrown(slow={SLOW_SITE: TIMES}, slow_epochs=SLOW_EPOCHS):
            query = writer.trigger(availableNow=True).start()
        coordinator = query._run.loop.stepper.coordinator  # noqa: SLF001
        if way == "park":
            coordinator.policies = [each for each in coordinator.policies if not isinstance(each, FluxPolicy)]
        assert query.awaitTermination(PATIENCE_S)
        assert query.exception() is None
        got, events = duckdb.sql(f"SELECT {SUMS} FROM '{out}/*.parquet'").fetchall()[0], query.events()
    steps = [report["customMetrics"] for report in query.recentProgress if "idle" not in report["customMetrics"]]
    epochs = [step for step in steps if "cleanup" not in step]
    return {
        "way": way,
        "exact": got == expected(data),
        "parks": [event | {"groups": len(event["groups"]["join1"])} for event in events if event["kind"] == "park"],
        "drained": [event["results"] for event in events if event["kind"] == "cleanup"],
        "moves": [event["epoch"] for event in events if event["kind"] == "move"],
        "executors": len({place for site in epochs[-1]["sites"] for place in site["executors"]}),
        "busyMs": [[site["busyMs"] for site in each["sites"]] for each in epochs],
        "runMs": [each["durationMs"]["run"] for each in epochs],
        "parkedGroups": [each.get("parkedGroups", 0) for each in epochs],
        "leftParked": steps[-1].get("parkedGroups", 0),
    }


def main(ways: list[str]) -> None:
    spark, data = session("local-cluster[2,1,512]"), tables()
    for way in ways:
        print(json.dumps(run(spark, way, data)), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
