"""The query that is killed: a tree of two operators over files, into files. Run as a program, it is the driver."""

import json
import os
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from tests.crash.variants import EPOCHS, GROUPED_BY, SHOWN, TOLD, Taken, Variant, tables
from tests.support.disturbing import disturbed
from tests.support.oracle import multiset

import watersmeet as wm
from watersmeet.adapt.spilling import STRATEGIES

PATIENCE_S = 240


def start(spark: SparkSession, folder: Path, seed: int, *, now: bool = True) -> wm.Query:
    """Start, or go on with, the query of a folder."""
    variant = Variant.of(seed)
    flow = wm.Flow(spark)
    made = tables(seed)
    frames = {name: wm.testing.replay(spark, parts, str(folder / name)) for name, parts in made.items()}
    nodes = variant.streams(made["A"][0].schema)
    a, b, c = (
        flow.stream(name, frame, unique=nodes[name].unique or None, **variant.times) for name, frame in frames.items()
    )
    for name, promised in variant.promises.items():
        told = [promised.written(epoch, made[name][0].schema) for epoch in range(EPOCHS)]
        flow.punctuations(name, wm.testing.replay(spark, told, str(folder / f"{name}-promises")))
    first, second = variant.conditions
    rows = a.join(b, on=first).join(c, on=second, how=variant.how)
    if variant.kind == "aggregate":
        rows = rows.groupBy(*GROUPED_BY).agg(*TOLD).select("k", "window.start AS start", "n", "total")
    else:
        rows = rows.select(*SHOWN)
    writer = rows.writeStream.format("parquet").option("endOfInput", variant.ends_input)
    writer = writer.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    if variant.with_budget:
        writer = writer.option("memoryBudget", "1k").option("spillStrategy", sorted(STRATEGIES)[seed % len(STRATEGIES)])
    if variant.through_spark:  # Spark's own writer instead of the site tasks
        writer = writer.option("maxRecordsPerFile", 1000)
    writer = writer.option("sites", 2)
    moves = disturbed(seed) if variant.with_moves else nullcontext()
    with moves, wm.testing.thrown(shortcut=variant.shortcut, staged_from=variant.staged_from):
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
    rows = ds.dataset(files).to_table()
    instants = [
        field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field
        for field in rows.schema
    ]
    return multiset(rows.cast(pa.schema(instants)))  # Spark's own writer forgets the zone


def taken(folder: Path) -> Taken:
    """What Spark's batches have taken: a source that was read by a driver killed just then gives two epochs at once."""
    spark, found = folder / "checkpoint" / "spark", dict[str, list[int]]()
    for source in sorted((spark / "sources").iterdir(), key=lambda each: int(each.name)):
        name = Path(_lines(source / "0")[0]["path"]).parent.name
        logs = sorted((spark / "offsets").iterdir(), key=lambda log: int(log.name) if log.name.isdigit() else -1)
        found[name] = [_lines(log)[int(source.name) + 1]["logOffset"] for log in logs if log.name.isdigit()]
    numbers = range(len(next(iter(found.values()))))
    return [{name: [*range(ends[n - 1] + 1 if n else 0, ends[n] + 1)] for name, ends in found.items()} for n in numbers]


def _lines(log: Path) -> list[dict[str, Any]]:
    """Those of a log of Spark's, after the first, which is its version."""
    return [json.loads(line) for line in log.read_text().splitlines()[1:] if line != "-"]


def session(master: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.scheduler.minRegisteredResourcesRatio", "1")
    spark = builder.config("spark.executor.memory", "512m").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    finish(session(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), most_starts=1)
