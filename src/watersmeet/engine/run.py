"""A running query: Spark's streaming query underneath, the epoch loop in it, and a watcher that ends it cleanly."""

import json
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.adapt.distribution import resize
from watersmeet.engine.assembly import Assembly
from watersmeet.engine.checkpoint import Checkpoint, Expectation, open_checkpoint
from watersmeet.engine.crash import CrashPlan
from watersmeet.engine.dataflow import tagged_union
from watersmeet.engine.direct import Direct
from watersmeet.engine.effects import clear_effects
from watersmeet.engine.epoch import EpochLoop
from watersmeet.engine.progress import History
from watersmeet.engine.session import check_workers, start_workers
from watersmeet.engine.shape import Shape
from watersmeet.engine.sinks import Sink
from watersmeet.engine.switches import switches
from watersmeet.engine.topology import Topology
from watersmeet.model.errors import CheckpointCorruptError, recognise
from watersmeet.model.ids import EpochId
from watersmeet.state.changes import apply_all
from watersmeet.state.events import Event, recorded
from watersmeet.state.garbage import Collector
from watersmeet.state.inspect import state_table
from watersmeet.state.manifest import Manifest


@dataclass(frozen=True)
class Start:
    """Everything a run is started with."""

    session: SparkSession
    topology: Topology
    frames: Mapping[str, DataFrame]
    shape: Shape
    sink: Sink
    location: str
    expected: Expectation
    retained_versions: int
    trigger: Mapping[str, Any]
    direct: Direct | None = None
    name: str | None = None


@dataclass
class Run:
    """One run of a query, from start to stop."""

    start: Start
    loop: EpochLoop
    query: StreamingQuery
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        threading.Thread(target=self._watch, name=f"watersmeet-{self.query.id}", daemon=True).start()

    @property
    def manifest(self) -> Manifest:
        """The last committed manifest."""
        return self.loop.checkpoint.manifest

    @property
    def history(self) -> History:
        """The metrics of the last epochs."""
        return self.loop.history

    @property
    def is_active(self) -> bool:
        """Whether it still runs, or is still finishing."""
        return not self._ended.is_set()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the end; False if it has not come in time."""
        return self._ended.wait(timeout_s)

    def failure(self) -> Exception | None:
        """What the query failed with, if it did."""
        error = self.query.exception()
        if error is None:
            return None
        return self.loop.error or recognise(str(error)) or error

    def state(self) -> pa.Table:
        """The state of the last committed version; while it is read, newer ones may make it garbage."""
        while True:
            manifest = self.manifest
            try:
                return state_table(self.loop.checkpoint.storage, manifest)
            except CheckpointCorruptError:
                if self.manifest.version == manifest.version:
                    raise

    def events(self) -> list[Event]:
        """The adaptations so far."""
        return recorded(self.loop.checkpoint.storage, self.manifest.version)

    def progress(self) -> list[dict[str, object]]:
        """Spark's progress reports with our metrics in them."""
        reports = [json.loads(report.json) for report in self.query.recentProgress]
        return [report | {"customMetrics": self.history.get(report["batchId"])} for report in reports]

    def _watch(self) -> None:
        try:
            self.query.awaitTermination()
        except Exception:  # noqa: BLE001, S110 -- whoever waits for the query asks `failure`
            pass
        finally:
            try:
                self.loop.close()
            finally:
                self._ended.set()


def start_run(start: Start) -> Run:
    """Check everything that can be checked, then start the query."""
    workers = start_workers(start.session, start.expected.sites)
    union = tagged_union(start.topology, start.frames)
    check_workers(start.session, workers)
    checkpoint = open_checkpoint(start.location, start.expected, switches().wrap)
    try:
        loop = _loop(start, checkpoint)
        writer = union.writeStream.foreachBatch(loop).trigger(**start.trigger)
        writer = writer.queryName(start.name) if start.name else writer
        return Run(start, loop, writer.option("checkpointLocation", checkpoint.spark_location).start())
    except Exception:
        checkpoint.close()
        raise


def _loop(start: Start, checkpoint: Checkpoint) -> EpochLoop:
    chosen = switches()
    clear_effects(checkpoint.storage, EpochId(checkpoint.manifest.version))
    collector = Collector(checkpoint.store, start.retained_versions)
    collector.start()
    events = _adjust(checkpoint, start.expected)
    assembly = Assembly(
        start.topology,
        checkpoint.storage,
        driver=uuid.uuid4().hex[:12],
        direct=start.direct and replace(start.direct, query=checkpoint.manifest.query_id),
        crash=CrashPlan.from_environment(),
        forget_pairs=chosen.forget_pairs,
    )
    start.sink.begin(checkpoint.manifest.query_id)
    return EpochLoop(start.session, assembly, checkpoint, start.shape, start.sink, collector, events)


def _adjust(checkpoint: Checkpoint, expected: Expectation) -> list[Event]:
    """Bring a stored manifest in line with the options of this run; it is committed with the next epoch."""
    before = checkpoint.manifest
    changes = resize(before, expected.sites)
    events: list[Event] = []
    if changes:
        events.append(
            {
                "epoch": before.version,
                "kind": "reroute",
                "reason": "the number of sites has changed",
                "before": {"sites": before.sites},
                "after": {"sites": expected.sites},
            }
        )
        checkpoint.manifest = apply_all(before, changes)
    return events
