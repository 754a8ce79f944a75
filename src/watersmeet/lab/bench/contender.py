"""One contender's run, in a process of its own: ``python -m watersmeet.lab.bench.contender TASK``.

The task is JSON (`Task`); the last line it prints is JSON (`Outcome`).
"""

import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.api.query import Query
from watersmeet.lab.bench.contenders import EPOCHS, WAYS, Way
from watersmeet.lab.bench.data import read_streams, show_epochs
from watersmeet.lab.bench.delivery import CHECKPOINT, DELIVERIES, Noop, Progress, Rows
from watersmeet.lab.bench.outcome import CORES, Outcome, Task
from watersmeet.lab.bench.pipeline import Pipeline
from watersmeet.lab.bench.place import make_place
from watersmeet.lab.bench.session import start_session
from watersmeet.lab.bench.stored import StoredTables
from watersmeet.lab.bench.suites import SUITES
from watersmeet.testing import thrown

MESSAGE_LINES = 8
AnyQuery = TypeVar("AnyQuery", Query, StreamingQuery)


@dataclass(frozen=True)
class Told:
    """What a report tells, and where."""

    results: Callable[[Progress], int]
    is_step: Callable[[Progress], bool]
    state_bytes: Callable[[Progress], int]


BY_OURS = Told(
    lambda report: int(report["customMetrics"]["results"]),
    lambda report: "cleanup" in report["customMetrics"],
    lambda report: int(report["customMetrics"].get("stateBytes", 0)),  # only the last epochs' are kept
)
BY_SPARK = Told(
    lambda report: int(report["sink"]["numOutputRows"]),
    lambda report: int(report["sink"]["numOutputRows"]) > 0,  # an idle trigger tells -1, or 0
    lambda report: sum(int(operator["memoryUsedBytes"]) for operator in report["stateOperators"]),
)


def main() -> None:
    """Run the task given as the only argument."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    way = WAYS[task.contender]
    try:
        outcome = ENGINES[way.engine](task, way)
    except Exception as error:  # noqa: BLE001 -- Spark ends its messages with whole plans: the beginning comes last here
        traceback.print_exc()
        sys.exit("\n".join(["", *str(error).splitlines()[:MESSAGE_LINES]]))
    sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")


def run_ours(task: Task, way: Way) -> Outcome:
    """Our operators."""
    pipeline, frames, delivery = _begin(task, way)
    suite = SUITES[task.suite]
    writer = delivery.on(pipeline.relation(frames).writeStream).option("sites", suite.sites).options(**way.options)
    writer = writer.trigger(availableNow=True)
    if way.has_budget and task.budget_bytes:
        writer = writer.option("memoryBudget", task.budget_bytes // suite.sites)
    with thrown(slow=suite.slow, **way.switches, **make_place(task, way)):
        whole_s, query = _timed(writer.option("checkpointLocation", f"{task.work}/{CHECKPOINT}").start)
    outcome = _outcome(task, whole_s, query.recentProgress, delivery, BY_OURS)
    moves = [event for event in query.events() if event["kind"] == "move"]
    told = {"moves": sum(len(event["groups"]) for event in moves), **_by_site(query.recentProgress)}
    epochs = tuple(sorted({int(event["epoch"]) for event in moves}))
    return msgspec.structs.replace(outcome, move_epochs=epochs, **told)


def run_spark(task: Task, way: Way) -> Outcome:
    """Spark's own chain of stream-stream joins."""
    pipeline, frames, delivery = _begin(task, way)
    writer = delivery.on(pipeline.chain(frames).writeStream).trigger(availableNow=True)
    whole_s, query = _timed(writer.option("checkpointLocation", f"{task.work}/{CHECKPOINT}").start)
    reports = [json.loads(report.json) for report in query.recentProgress]
    return _outcome(task, whole_s, reports, delivery, BY_SPARK)


def run_foreachbatch(task: Task, way: Way) -> Outcome:
    """A function that is given each epoch's rows, and joins them in a batch query with those it has stored."""
    pipeline, frames, _ = _begin(task, way)
    if pipeline.time is None:
        raise ValueError(f"{task.suite} has no event times, so that its tables would be read as a whole")
    tables, delivery = StoredTables(pipeline, pipeline.time, Path(task.work, "tables")), Rows(Path(task.work))
    writer = tables.together(frames).writeStream.trigger(availableNow=True)
    writer = writer.foreachBatch(lambda rows, epoch: delivery.deliver(tables.joined(rows, epoch), epoch))
    whole_s, query = _timed(writer.option("checkpointLocation", f"{task.work}/{CHECKPOINT}").start)
    reports = [json.loads(report.json) for report in query.recentProgress]
    return _outcome(task, whole_s, reports, delivery, BY_SPARK)


def run_duckdb(task: Task, way: Way) -> Outcome:
    """One batch join of all rows, materialised; reading the files is not counted."""
    import duckdb  # noqa: PLC0415 -- only this contender needs it

    pipeline = SUITES[task.suite].pipeline
    place = ":memory:" if way.in_memory else f"{task.work}/joined.duckdb"
    database = duckdb.connect(place, config={"threads": CORES})
    for name in pipeline.streams:
        database.execute(f"CREATE TABLE {name} AS FROM read_parquet('{task.data}/{name}/*.parquet')")
    started = time.monotonic()
    database.execute(f"CREATE TABLE joined AS {pipeline.sql}")
    whole_s = time.monotonic() - started
    [(count,)] = database.execute("SELECT count(*) FROM joined").fetchall()
    return Outcome(task.contender, whole_s, int(count))


def _begin(task: Task, way: Way) -> tuple[Pipeline, dict[str, DataFrame], Noop]:
    """Start Spark, open the streams that a contender is shown, and make its sink."""
    suite = SUITES[task.suite]
    spark = start_session(task, way.settings, on_cluster=suite.on_cluster)
    pipeline = suite.pipeline.told(way.promises)
    frames = read_streams(spark, _data(task, way), pipeline.sources)
    return pipeline, frames, DELIVERIES[way.sink](Path(task.work))


def _data(task: Task, way: Way) -> Path:
    """The epochs a contender is shown; one that resumes must find those before at the same place."""
    if way.epochs == "all":
        return Path(task.data)
    return show_epochs(Path(task.data), Path(task.prepared if way.resumes else task.work, "data"), EPOCHS[way.epochs])


def _timed(start: Callable[[], AnyQuery]) -> tuple[float, AnyQuery]:
    """Start a query and wait for its end."""
    started = time.monotonic()
    query = start()
    query.awaitTermination()
    return time.monotonic() - started, query


def _outcome(task: Task, whole_s: float, reports: Sequence[Progress], delivery: Noop, told: Told) -> Outcome:
    epochs = [report for report in reports if report["numInputRows"]]
    without_input = [report for report in reports if not report["numInputRows"] and told.is_step(report)]
    results = delivery.results([*epochs, *without_input], told.results)
    return Outcome(
        task.contender,
        whole_s,
        sum(results),
        epoch_ms=tuple(report["durationMs"]["triggerExecution"] for report in epochs),
        epoch_results=results,
        state_bytes=max(map(told.state_bytes, epochs), default=0),
        busy_ms=tuple(_busy_ms(report) for report in epochs),
        gauges={name: tuple(weighed) for name, weighed in delivery.gauges.items()},
    )


def _by_site(reports: Sequence[Progress]) -> dict[str, tuple[object, ...]]:
    """What every site did in the epochs of which that is still known."""
    told = [report["customMetrics"] for report in reports if report["numInputRows"]]
    epochs = [metrics["sites"] for metrics in told if metrics]
    return {
        "site_ms": tuple(tuple(float(site["busyMs"]) for site in sites) for sites in epochs),
        "promises_ms": tuple(max(float(site["promisesMs"]) for site in sites) for sites in epochs),
        "site_rows": tuple(tuple(int(site["rowsIn"]) for site in sites) for sites in epochs),
        "executor_ms": tuple(map(_slowest_executor_ms, epochs)),
    }


def _slowest_executor_ms(sites: Sequence[Progress]) -> float:
    """Sites of one executor are worked for one after the other."""
    times: Counter[str] = Counter()
    for site in sites:
        times["+".join(site["executors"])] += site["busyMs"]
    return float(max(times.values(), default=0))


def _busy_ms(report: Progress) -> float:
    """The time of all site tasks together; Spark's own joins have none."""
    return float(sum(site["busyMs"] for site in report.get("customMetrics", {}).get("sites", ())))


ENGINES: dict[str, Callable[[Task, Way], Outcome]] = {
    "watersmeet": run_ours,
    "spark": run_spark,
    "foreachbatch": run_foreachbatch,
    "duckdb": run_duckdb,
}

if __name__ == "__main__":
    main()
