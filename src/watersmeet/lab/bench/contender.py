"""One contender's run, in a process of its own: ``python -m watersmeet.lab.bench.contender TASK``.

The task is JSON (`Task`); the last line it prints is JSON (`Outcome`).
"""

import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from watersmeet.lab.bench.data import read_streams
from watersmeet.lab.bench.outcome import CORES, Contender, Outcome, Task
from watersmeet.lab.bench.suites import SUITES
from watersmeet.testing import thrown

Progress = Mapping[str, Any]

MESSAGE_LINES = 8
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.join.stateFormatVersion": "4",
}


def main() -> None:
    """Run the task given as the only argument."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    try:
        outcome = RUNS[task.contender](task)
    except Exception as error:  # noqa: BLE001 -- Spark ends its messages with whole plans: the beginning comes last here
        traceback.print_exc()
        sys.exit("\n".join(["", *str(error).splitlines()[:MESSAGE_LINES]]))
    sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")


def run_ours(task: Task) -> Outcome:
    """Our operators and the noop sink."""
    return _run_ours(task, None)


def run_ours_as_rows(task: Task) -> Outcome:
    """Our operators, every result handed to Spark's noop sink and counted on the way."""
    delivered: dict[int, int] = {}

    def deliver(rows: DataFrame, epoch: int) -> None:
        seen = Observation()
        rows.observe(seen, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("append").save()
        delivered[epoch] = seen.get["rows"]

    return _run_ours(task, deliver, lambda report: delivered[report["customMetrics"]["epoch"]])


def run_ours_untraced(task: Task) -> Outcome:
    """Our operators without tracing."""
    with thrown(trace=False):
        return _run_ours(task, None)


def _run_ours(
    task: Task,
    deliver: Callable[[DataFrame, int], None] | None,
    results_of: Callable[[Progress], int] = lambda report: int(report["customMetrics"]["rowsOut"]),
) -> Outcome:
    pipeline = SUITES[task.suite].pipeline
    spark = _session(task, {})
    relation = pipeline.relation(read_streams(spark, Path(task.data), pipeline.streams))
    writer = relation.writeStream.format("noop").option("sites", CORES).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{task.work}/checkpoint")
    writer = writer.foreachBatch(deliver) if deliver else writer
    if task.contender == "watersmeet-budget" and task.budget_bytes:
        writer = writer.option("memoryBudget", task.budget_bytes // CORES)
    started = time.monotonic()
    query = writer.start()
    query.awaitTermination()
    whole_s = time.monotonic() - started
    return _outcome(task, whole_s, query.recentProgress, results_of, _our_state)


def run_spark(task: Task) -> Outcome:
    """Spark's own chain of stream-stream joins."""
    pipeline = SUITES[task.suite].pipeline
    spark = _session(task, ROCKSDB if task.contender == "spark-rocksdb" else {})
    chain = pipeline.chain(read_streams(spark, Path(task.data), pipeline.streams))
    writer = chain.writeStream.format("noop").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{task.work}/checkpoint")
    started = time.monotonic()
    query = writer.start()
    query.awaitTermination()
    whole_s = time.monotonic() - started
    reports = [json.loads(report.json) for report in query.recentProgress]
    return _outcome(task, whole_s, reports, _spark_results, _spark_state)


def run_duckdb(task: Task) -> Outcome:
    """One batch join of all rows, materialised; reading the files is not counted."""
    import duckdb  # noqa: PLC0415 -- only this contender needs it

    pipeline = SUITES[task.suite].pipeline
    place = ":memory:" if task.contender == "duckdb-memory" else f"{task.work}/joined.duckdb"
    database = duckdb.connect(place, config={"threads": CORES})
    for name in pipeline.streams:
        database.execute(f"CREATE TABLE {name} AS FROM read_parquet('{task.data}/{name}/*.parquet')")
    started = time.monotonic()
    database.execute(f"CREATE TABLE joined AS {pipeline.sql}")
    whole_s = time.monotonic() - started
    [(count,)] = database.execute("SELECT count(*) FROM joined").fetchall()
    return Outcome(task.contender, whole_s, int(count))


def _session(task: Task, more: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("watersmeet-bench")
    own = {"spark.driver.memory": task.heap, "spark.local.dir": f"{task.work}/local"}
    for name, value in {**SETTINGS, **own, **more}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _outcome(
    task: Task,
    whole_s: float,
    reports: Sequence[Progress],
    results_of: Callable[[Progress], int],
    state_of: Callable[[Progress], int],
) -> Outcome:
    epochs = [report for report in reports if report["numInputRows"]]
    cleanup = [report for report in reports if "cleanup" in report.get("customMetrics", ())]
    results = tuple(results_of(report) for report in epochs)
    return Outcome(
        task.contender,
        whole_s,
        sum(results) + sum(results_of(report) for report in cleanup),
        epoch_ms=tuple(report["durationMs"]["triggerExecution"] for report in epochs),
        epoch_results=results,
        state_bytes=max((state_of(report) for report in epochs), default=0),
        busy_ms=tuple(_busy_ms(report) for report in epochs),
    )


def _busy_ms(report: Progress) -> float:
    """The time of all site tasks together; Spark's own joins have none."""
    return float(sum(site["busyMs"] for site in report.get("customMetrics", {}).get("sites", ())))


def _our_state(report: Progress) -> int:
    return int(report["customMetrics"]["stateBytes"])


def _spark_results(report: Progress) -> int:
    return int(report["sink"]["numOutputRows"])


def _spark_state(report: Progress) -> int:
    return sum(int(operator["memoryUsedBytes"]) for operator in report["stateOperators"])


RUNS: dict[Contender, Callable[[Task], Outcome]] = {
    "watersmeet": run_ours,
    "watersmeet-rows": run_ours_as_rows,
    "watersmeet-budget": run_ours,
    "watersmeet-untraced": run_ours_untraced,
    "spark": run_spark,
    "spark-rocksdb": run_spark,
    "duckdb": run_duckdb,
    "duckdb-memory": run_duckdb,
}

if __name__ == "__main__":
    main()
