"""Progress reports as Spark gives them, with our metrics in them; a step of cleanup has one of the same form."""

import json
from typing import Any

import msgspec
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.driver.progress import History, StepMetrics

Report = dict[str, Any]


def progress_reports(query: StreamingQuery, history: History, batch: int) -> list[Report]:
    """The reports of the latest epochs and of the latest steps of cleanup, in order."""
    epochs = [_with_metrics(json.loads(report.json), history) for report in query.recentProgress]
    named = {"id": str(query.id), "runId": str(query.runId), "name": query.name, "batchId": batch}
    last = (epochs[-1] if epochs else {}) | named
    cleanup = [_of_cleanup(last, metrics) for metrics in history.cleanup]
    return sorted(epochs + cleanup, key=lambda report: int(report["customMetrics"].get("epoch", -1)))


def _with_metrics(report: Report, history: History) -> Report:
    metrics = history.get(report["batchId"])
    if metrics is not None and "sink" in report:
        report["sink"]["numOutputRows"] = metrics.results
    return report | {"customMetrics": {} if metrics is None else msgspec.to_builtins(metrics)}


def _of_cleanup(last: Report, metrics: StepMetrics) -> Report:
    """A step without input: the last epoch's report, of which nothing is taken that speaks of rows or times."""
    duration_ms = sum(metrics.duration_ms.values())
    return last | {
        "timestamp": metrics.timestamp,
        "batchDuration": duration_ms,
        "durationMs": {"triggerExecution": duration_ms},
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "sources": [],
        "stateOperators": [],
        "sink": {"description": "", **last.get("sink", {}), "numOutputRows": metrics.results},
        "customMetrics": msgspec.to_builtins(metrics),
    }
