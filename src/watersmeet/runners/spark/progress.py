"""Progress reports as Spark gives them, with our metrics in them; a step of cleanup has one of the same form."""

import json
from typing import Any

import msgspec
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.driver.progress import History, StepMetrics

Report = dict[str, Any]


def progress_reports(query: StreamingQuery, history: History, batch: int, idle: StepMetrics) -> list[Report]:
    """The reports of the latest epochs and steps of cleanup, in order; ``idle`` is what those of no step tell."""
    reports, last = list[tuple[int, Report]](), -1
    for each in query.recentProgress:
        report = json.loads(each.json)
        metrics = history.get(report["batchId"])
        last = last if metrics is None else metrics.epoch
        reports.append((last, _with_metrics(report, metrics or idle)))
    named = {"id": str(query.id), "runId": str(query.runId), "name": query.name, "batchId": batch}
    model = (reports[-1][1] if reports else {}) | named
    reports += [(metrics.epoch, _of_cleanup(model, metrics)) for metrics in history.cleanup]
    return [report for _, report in sorted(reports, key=lambda pair: pair[0])]


def _with_metrics(report: Report, metrics: StepMetrics) -> Report:
    if "sink" in report:
        report["sink"]["numOutputRows"] = metrics.results
    return report | {"customMetrics": msgspec.to_builtins(metrics)}


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
