"""The query that is killed: a tree of two operators over files, into files. Run as a program, it is the driver."""

import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from tests.support.oracle import joined, multiset

import watersmeet as wm
from watersmeet.adapt.spilling import STRATEGIES

EPOCHS = 4
CONDITIONS = ("A.k = B.k", "B.t = C.t")
PATIENCE_S = 240
WITH_BUDGET = 1000
"""Queries of this seed and above have far too little memory, so they spill and clean up."""


def tables(seed: int) -> dict[str, list[pa.Table]]:
    rng = np.random.default_rng(seed)
    return {name: [_table(rng, epoch) for epoch in range(EPOCHS)] for name in "ABC"}


def start(spark: SparkSession, folder: Path, seed: int) -> wm.Query:
    """Start, or go on with, the query of a folder."""
    flow = wm.Flow(spark)
    frames = {name: wm.testing.replay(spark, parts, str(folder / name)) for name, parts in tables(seed).items()}
    a, b, c = (flow.stream(name, frame) for name, frame in frames.items())
    rows = a.join(b, on="A.k = B.k").join(c, on="B.t = C.t")
    writer = rows.select("A.id AS a", "B.id AS b", "C.id AS c", "A.k AS k").writeStream.format("parquet")
    writer = writer.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    if seed >= WITH_BUDGET:
        writer = writer.option("memoryBudget", "1k").option("spillStrategy", sorted(STRATEGIES)[seed % len(STRATEGIES)])
    if seed % 2:  # through Spark's own writer instead of the site tasks
        writer = writer.option("maxRecordsPerFile", 1000)
    with wm.testing.thrown(shortcut=seed // 2 % 2 == 0):
        return writer.option("sites", 2).trigger(availableNow=True).start()


def finish(spark: SparkSession, folder: Path, seed: int, most_starts: int = 4) -> None:
    """Start again until the query ends by itself, as a supervisor would."""
    for _ in range(most_starts):
        query = start(spark, folder, seed)
        try:
            assert query.awaitTermination(PATIENCE_S)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 -- the crash we asked for
            print("failed:", str(error)[:200], file=sys.stderr)  # noqa: T201
        else:
            return
    raise AssertionError(f"not finished after {most_starts} starts")


def written(folder: Path) -> Counter[str]:
    """What a reader of the output folder sees."""
    files = sorted(str(path) for path in (folder / "out").glob("*.parquet"))
    return multiset(ds.dataset(files).to_table(columns=["a", "b", "c", "k"]))


def expected(seed: int) -> Counter[str]:
    select = "A.id AS a, B.id AS b, C.id AS c, A.k AS k"
    return joined(tables(seed), CONDITIONS, select)


def session(master: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.scheduler.minRegisteredResourcesRatio", "1")
    spark = builder.config("spark.executor.memory", "512m").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _table(rng: np.random.Generator, epoch: int) -> pa.Table:
    rows = 0 if epoch == 2 else 40
    keys = rng.integers(0, 25, rows)
    return pa.table(
        {
            "id": pa.array(rng.integers(0, 10**9, rows)),
            "k": pa.array(keys, mask=rng.random(rows) < 0.05),
            "t": pa.array([f"t{key}" for key in rng.integers(0, 12, rows)], pa.string()),
        }
    )


if __name__ == "__main__":
    finish(session(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), most_starts=1)
