"""Twelve epochs on two executors, one of which is killed before epoch 8. Prints what happened as JSON."""

import json
import os
import signal
from collections import Counter

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from tests.crash.query import session
from tests.support.oracle import joined
from tests.support.spark_runs import PATIENCE_S, Collected

import watersmeet as wm

EPOCHS = 12
KILL_AT = 8
SITES = 2


def tables() -> dict[str, list[pa.Table]]:
    rng = np.random.default_rng(11)
    return {n: [pa.table({"k": rng.integers(0, 500, 60)}) for _ in range(EPOCHS)] for n in "AB"}


class Killer(Collected):
    """Kills the executor of site 0 once."""

    query: wm.Query

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        if epoch == KILL_AT:
            os.kill(int(places(self.query)[-1][0].rsplit(":", 1)[1]), signal.SIGKILL)
        super().__call__(rows, epoch)


def places(query: wm.Query) -> list[list[str]]:
    """For every epoch the executor of each site."""
    metrics = [report["customMetrics"] for report in query.recentProgress]
    return [["+".join(site["executors"]) for site in each["sites"]] for each in metrics if each]


def main() -> None:
    spark = session("local-cluster[2,1,512]")
    flow, data, sink = wm.Flow(spark), tables(), Killer()
    a, b = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in data.items())
    writer = a.join(b, on="A.k = B.k").writeStream.foreachBatch(sink).option("sites", SITES)
    sink.query = writer.trigger(availableNow=True).start()
    assert sink.query.awaitTermination(PATIENCE_S)
    exact = sink.rows == joined(data, ["A.k = B.k"])
    print(json.dumps({"places": places(sink.query), "exact": exact, "rows": Counter.total(sink.rows)}))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
