"""A query on one executor, which two others join, and which then loses one in the middle of an epoch.

A program of its own; prints what happened as JSON.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from tests.cluster.standalone import Cluster
from tests.crash.query import session
from tests.support.oracle import joined
from tests.support.spark_runs import PATIENCE_S, Collected

import watersmeet as wm
from watersmeet.runners.spark.session import executor_names

EPOCHS = 20
SECOND_AT, THIRD_AT, LOST_AT = 2, 5, 12
GROUPS = 30


def tables() -> dict[str, list[pa.Table]]:
    rng = np.random.default_rng(11)
    return {name: [pa.table({"k": rng.integers(0, 5_000, 4_000)}) for _ in range(EPOCHS)] for name in "AB"}


class Eventful(Collected):
    """Something happens to the cluster before some epochs, or while one runs."""

    query: wm.Query
    cluster: Cluster

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        spark = rows.sparkSession
        if epoch in (SECOND_AT, THIRD_AT):
            before = len(executor_names(spark))
            self.cluster.add_worker()
            wait_until(lambda: len(executor_names(spark)) > before)
        if epoch == LOST_AT:
            victim = int(places(self.query)[-1][0].rsplit(":", 1)[1])
            threading.Timer(0.1, self.cluster.lose, [victim]).start()
        super().__call__(rows, epoch)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "no executor came"
        time.sleep(0.1)


def places(query: wm.Query) -> list[list[str]]:
    """For every epoch the executors of each site."""
    metrics = [report["customMetrics"] for report in query.recentProgress]
    return [["+".join(site["executors"]) for site in each["sites"]] for each in metrics if each]


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    data, sink = tables(), Eventful()
    with Cluster() as cluster:
        cluster.add_worker()
        spark, sink.cluster = session(cluster.url), cluster
        wait_until(lambda: len(executor_names(spark)) == 1)
        flow = wm.Flow(spark)
        a, b = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in data.items())
        writer = a.join(b, on="A.k = B.k").writeStream.foreachBatch(sink).option("partitionGroups", GROUPS)
        sink.query = writer.trigger(availableNow=True).start()
        assert sink.query.awaitTermination(3 * PATIENCE_S)
        report = {
            "exact": sink.rows == joined(data, ["A.k = B.k"]),
            "places": places(sink.query),
            "events": [each for each in sink.query.events() if each["kind"] in ("executors", "reroute")],
            "runMs": [each["customMetrics"]["durationMs"]["run"] for each in sink.query.recentProgress],
        }
        print(json.dumps(report))  # noqa: T201
        spark.stop()


if __name__ == "__main__":
    main()
