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
from watersmeet.engine.caretaker import Caretaker
from watersmeet.engine.checkpoint import Checkpoint, Expectation, open_checkpoint
from watersmeet.engine.crash import CrashPlan
from watersmeet.engine.dataflow import tagged_union
from watersmeet.engine.direct import Direct
from watersmeet.engine.effects import clear_effects
from watersmeet.engine.epoch import EpochLoop
from watersmeet.engine.jobs import Jobs
from watersmeet.engine.memory import Memory, MemoryOptions
from watersmeet.engine.progress import History
from watersmeet.engine.session import check_workers, start_workers
from watersmeet.engine.shape import Shape
from watersmeet.engine.shortcut import Shortcut
from watersmeet.engine.sinks import Sink
from watersmeet.engine.spec import ROUND_LIMIT_BYTES
from watersmeet.engine.step import Stepper
from watersmeet.engine.switches import switches
from watersmeet.engine.topology import Topology
from watersmeet.engine.upkeep import Upkeep
from watersmeet.model.errors import CheckpointCorruptError, StoppedError, recognise
from watersmeet.model.ids import EpochId
from watersmeet.state.changes import apply_all
from watersmeet.state.events import Event, recorded
from watersmeet.state.garbage import Collector
from watersmeet.state.inspect import state_table
from watersmeet.state.manifest import Manifest

ROUND_LEAST_BYTES = 8 << 20


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
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    cleans_when_idle: bool = True
    copies: str | None = None

    @property
    def ends_by_itself(self) -> bool:
        """Whether the query consumes what there is and ends."""
        return "availableNow" in self.trigger


@dataclass
class Run:
    """One run of a query, from start to stop."""

    start: Start
    loop: EpochLoop
    query: StreamingQuery
    _ended: threading.Event = field(default_factory=threading.Event)
    _failure: Exception | None = None
    _upkeep: Upkeep = field(init=False)

    def __post_init__(self) -> None:
        self._upkeep = Upkeep(self.start.topology.plan, self.loop, self.query, self._ended)
        threading.Thread(target=self._watch, name=f"watersmeet-{self.query.id}", daemon=True).start()
        if self.start.cleans_when_idle and not self.start.ends_by_itself:
            idle = threading.Thread(target=self._upkeep.when_idle, args=(self._failed,), daemon=True)
            idle.start()

    @property
    def manifest(self) -> Manifest:
        """The last committed manifest."""
        return self.loop.manifest

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
            return self._failure
        return self.loop.error or recognise(str(error)) or error

    def stop(self) -> None:
        """Stop after the step that is under way."""
        self.loop.stopping.set()
        self.query.stop()

    def cleanup(self) -> None:
        """Produce all results that are missing now."""
        if self.start.ends_by_itself:  # it cleans up by itself, too
            self._ended.wait()
        try:
            self._upkeep.on_demand()
        except StoppedError as error:
            raise self.failure() or error from error
        except Exception as error:
            self._failed(error)
            raise (self.failure() or error) from error

    def state(self) -> pa.Table:
        """The state of the last committed version; while it is read, newer ones may make it garbage."""
        while True:
            manifest = self.manifest
            try:
                return state_table(self.loop.stepper.checkpoint.storage, manifest)
            except CheckpointCorruptError:
                if self.manifest.version == manifest.version:
                    raise

    def events(self) -> list[Event]:
        """The adaptations so far."""
        return recorded(self.loop.stepper.checkpoint.storage, self.manifest.version)

    def progress(self) -> list[dict[str, object]]:
        """Spark's progress reports with our metrics in them, and those of the latest steps of cleanup, in order."""
        reports = [json.loads(report.json) for report in self.query.recentProgress]
        epochs = [report | {"customMetrics": self.history.get(report["batchId"])} for report in reports]
        frame = {"id": str(self.query.id), "runId": str(self.query.runId), "name": self.query.name, "numInputRows": 0}
        cleaning = [frame | {"batchId": self.manifest.batch, "customMetrics": each} for each in self.history.cleaning]
        return sorted(epochs + cleaning, key=lambda report: int(report["customMetrics"].get("epoch", -1)))

    def _watch(self) -> None:
        try:
            self.query.awaitTermination()
            if self.start.ends_by_itself:
                self._upkeep.at_end()
        except Exception as error:  # noqa: BLE001 -- whoever waits for the query asks `failure`
            self._failure = self.loop.error or recognise(str(error)) or error
        finally:
            try:
                self.loop.close()
            finally:
                self._ended.set()

    def _failed(self, error: Exception) -> None:
        """Cleanup failed: the query ends with that, as after a failed epoch."""
        self._failure = self.loop.error or recognise(str(error)) or error
        self.stop()


def start_run(start: Start) -> Run:
    """Check everything that can be checked, then start the query."""
    workers = start_workers(start.session, start.expected.sites)
    union = tagged_union(start.topology, start.frames)
    check_workers(start.session, workers)
    checkpoint = open_checkpoint(start.location, start.expected, switches().wrap, copies=start.copies)
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
    memory = Memory(start.topology.plan, checkpoint.storage, checkpoint.manifest.groups, start.memory)
    memory.begin(checkpoint.manifest)
    assembly = Assembly(
        start.topology,
        checkpoint.storage,
        driver=uuid.uuid4().hex[:12],
        direct=start.direct and replace(start.direct, query=checkpoint.manifest.query_id),
        crash=CrashPlan.from_environment(),
        forget_pairs=chosen.forget_pairs,
        ledger=memory.ledger if memory.is_limited else None,
        round_bytes=min(ROUND_LIMIT_BYTES, max(start.memory.budget_bytes or ROUND_LIMIT_BYTES, ROUND_LEAST_BYTES)),
    )
    start.sink.begin(checkpoint.manifest.query_id)
    jobs = Jobs(start.session, assembly, start.shape, checkpoint.manifest.groups, Shortcut(chosen.shortcut))
    stepper = Stepper(jobs, assembly, checkpoint, start.sink, collector, memory, events)
    return EpochLoop(stepper, Caretaker(memory))


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
