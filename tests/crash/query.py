"""The query that is killed: a tree of two operators over files, into files. Run as a program, it is the driver."""

import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from tests.support.oracle import joined, multiset

import watersmeet as wm
from watersmeet.adapt.spilling import STRATEGIES

EPOCHS = 4
PATIENCE_S = 240
WITH_BUDGET = 1000
"""Queries of this seed and above have far too little memory, so they spill and clean up."""


@dataclass(frozen=True)
class Variant:
    """What a seed decides: how results are written, whether one task may do everything, and how rows travel."""

    through_spark: bool
    shortcut: bool
    key: str
    with_budget: bool

    @classmethod
    def of(cls, seed: int) -> "Variant":
        """All combinations within eight seeds."""
        key = "m" if seed // 4 % 2 == 0 else "t"
        return cls(bool(seed % 2), seed // 2 % 2 == 0, key, seed >= WITH_BUDGET)

    @property
    def conditions(self) -> tuple[str, str]:
        """The second level joins on whole numbers, which travel in parcels, or on texts, which travel in slots."""
        return "A.k = B.k", f"B.{self.key} = C.{self.key}"


def tables(seed: int) -> dict[str, list[pa.Table]]:
    rng = np.random.default_rng(seed)
    return {name: [_table(rng, epoch) for epoch in range(EPOCHS)] for name in "ABC"}


def start(spark: SparkSession, folder: Path, seed: int, *, now: bool = True) -> wm.Query:
    """Start, or go on with, the query of a folder."""
    variant = Variant.of(seed)
    flow = wm.Flow(spark)
    frames = {name: wm.testing.replay(spark, parts, str(folder / name)) for name, parts in tables(seed).items()}
    a, b, c = (flow.stream(name, frame) for name, frame in frames.items())
    first, second = variant.conditions
    rows = a.join(b, on=first).join(c, on=second)
    writer = rows.select("A.id AS a", "B.id AS b", "C.id AS c", "A.k AS k").writeStream.format("parquet")
    writer = writer.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    if variant.with_budget:
        writer = writer.option("memoryBudget", "1k").option("spillStrategy", sorted(STRATEGIES)[seed % len(STRATEGIES)])
    if variant.through_spark:  # Spark's own writer instead of the site tasks
        writer = writer.option("maxRecordsPerFile", 1000)
    writer = writer.option("sites", 2)
    with wm.testing.thrown(shortcut=variant.shortcut):
        return (writer.trigger(availableNow=True) if now else writer).start()


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
    return joined(tables(seed), Variant.of(seed).conditions, select)


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
            "m": pa.array(rng.integers(0, 12, rows)),
            "t": pa.array([f"t{key}" for key in rng.integers(0, 12, rows)], pa.string()),
        }
    )


if __name__ == "__main__":
    finish(session(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), most_starts=1)
