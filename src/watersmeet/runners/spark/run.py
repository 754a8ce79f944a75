"""A running query: Spark's streaming query underneath, the driver's loop in it, and a watcher that ends it cleanly."""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.adapt.moving.policies import DEFAULT_ADAPTATION
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.ring.cost import Goal
from watersmeet.adapt.ring.relocation import Relocation
from watersmeet.driver.checkpoint import Checkpoint, Expectation, open_checkpoint
from watersmeet.driver.loop import Loop
from watersmeet.driver.progress import History, idle_metrics
from watersmeet.driver.start import DriverOptions, start_driver
from watersmeet.driver.switches import switches
from watersmeet.driver.topology import Topology
from watersmeet.driver.upkeep import Upkeep
from watersmeet.model.errors import StoppedError, failed
from watersmeet.operators.ring.schemes import PSP, Scheme
from watersmeet.runners.spark.offsets import SparkOffsets
from watersmeet.runners.spark.one_task import LocalWay
from watersmeet.runners.spark.progress import progress_reports
from watersmeet.runners.spark.projection import Projection
from watersmeet.runners.spark.runner import SparkRunner
from watersmeet.runners.spark.session import check_workers, start_workers
from watersmeet.runners.spark.sinks import Sink
from watersmeet.runners.spark.staging import STAGED_FROM, Staging
from watersmeet.runners.spark.union import UnionLayout
from watersmeet.site.result_files import ResultFormat
from watersmeet.site.spec import Function
from watersmeet.state.events import Event
from watersmeet.state.inspect import state_table
from watersmeet.state.manifest import Manifest

HISTORIES: OrderedDict[str, History] = OrderedDict()
"""The metrics of the last runs of this process, by the id of the run."""

HISTORIES_MOST = 64


@dataclass(frozen=True)
class Start:
    """Everything a run is started with."""

    session: SparkSession
    frames: Mapping[str, DataFrame]
    projection: Projection
    sink: Sink
    location: str
    expected: Expectation
    retained_versions: int
    trigger: Mapping[str, Any]
    files: ResultFormat | None = None
    name: str | None = None
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    cleans_when_idle: bool = True
    ends_input: bool = False
    rejected_path: str | None = None
    retention_us: int | None = None
    copies: str | None = None
    adaptation: str = DEFAULT_ADAPTATION
    ring_scheme: Scheme = PSP
    ring_goal: Goal | None = None
    ring_relocation: Relocation = "aggressive"
    functions: Mapping[str, Function] = field(default_factory=dict)

    @property
    def ends_by_itself(self) -> bool:
        """Whether the query consumes what there is and ends."""
        return "availableNow" in self.trigger


@dataclass
class Run:
    """One run of a query, from start to stop."""

    start: Start
    loop: Loop[DataFrame]
    query: StreamingQuery
    _ended: threading.Event = field(default_factory=threading.Event)
    _failure: Exception | None = None
    _upkeep: Upkeep[DataFrame] = field(init=False)

    def __post_init__(self) -> None:
        HISTORIES[str(self.query.runId)] = self.history
        while len(HISTORIES) > HISTORIES_MOST:
            HISTORIES.popitem(last=False)
        rests_after = self.loop.stepper.coordinator.rests_after
        self._upkeep = Upkeep(self.loop, self._input_rests, self._ended, self.start.ends_input, rests_after)
        threading.Thread(target=self._watch, name=f"watersmeet-{self.query.id}", daemon=True).start()
        if not self.start.ends_by_itself:
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
        return self.loop.error or failed(error)

    def stop(self) -> None:
        """Stop after the epoch that is under way; a step of cleanup is cut off, and repeated after a restart."""
        self.loop.stop()
        self.query.stop()

    def process_all(self) -> None:
        """Wait until all input that is there has been joined, with parked groups, too; rows that are due come out."""
        self.query.processAllAvailable()
        if not self.start.ends_by_itself:
            self._clean(self._upkeep.drain)
            self._clean(self._upkeep.final)
            return
        self._ended.wait()
        if (failure := self.failure()) is not None:
            raise failure

    def cleanup(self) -> None:
        """Produce all results that are missing now."""
        if self.start.ends_by_itself:  # it cleans up by itself, too
            self._ended.wait()
        self._clean(self._upkeep.on_demand)

    def _clean(self, work: Callable[[], None]) -> None:
        """Steps of cleanup that a caller waits for: the query ends if one fails, and the caller is told why."""
        try:
            work()
        except StoppedError as error:
            raise self.failure() or error from error
        except Exception as error:
            if self.loop.stopping.is_set():  # cut off, and nothing is lost
                raise self._upkeep.stopped() from error
            self._failed(error)
            raise (self.failure() or error) from error

    def state(self) -> pa.Table:
        """The state of the last committed version."""
        return state_table(self.manifest)

    def events(self) -> list[Event]:
        """The adaptations so far."""
        return self.loop.stepper.checkpoint.events()

    def progress(self) -> list[dict[str, Any]]:
        """Spark's progress reports with our metrics in them, and those of the latest steps of cleanup, in order."""
        idle = idle_metrics(self.manifest, self.loop.options)
        return progress_reports(self.query, self.history, self.manifest.batch, idle)

    def _input_rests(self) -> bool:
        status = self.query.status
        return not status["isTriggerActive"] and not status["isDataAvailable"]

    def _watch(self) -> None:
        try:
            self.query.awaitTermination()
            if self.start.ends_by_itself:
                self._upkeep.at_end()
        except Exception as error:  # noqa: BLE001 -- whoever waits for the query asks `failure`
            if not self.loop.stopping.is_set() or self.query.exception() is not None:
                self._failure = self.loop.error or failed(error)
        finally:
            try:
                self.loop.close()
            finally:
                self._ended.set()

    def _failed(self, error: Exception) -> None:
        """Cleanup failed: the query ends with that, as after a failed epoch."""
        self._failure = self.loop.error or failed(error)
        self.stop()


def start_run(start: Start) -> Run:
    """Check everything that can be checked, then start the query."""
    workers = start_workers(start.session, start.expected.sites)
    topology = Topology(start.expected.plan, whole_rows=start.rejected_path is not None)
    layout = UnionLayout.of(topology)
    union = layout.union(topology, start.frames)
    check_workers(start.session, workers)
    offsets = SparkOffsets(f"{start.location.rstrip('/')}/spark")
    driver = uuid.uuid4().hex[:12]
    wrap = switches().wrap
    checkpoint = open_checkpoint(start.location, start.expected, offsets, driver, wrap, copies=start.copies)
    try:
        loop = _loop(start, checkpoint, layout, driver)
        writer = union.writeStream.foreachBatch(loop.batch).trigger(**start.trigger)
        writer = writer.queryName(start.name) if start.name else writer
        return Run(start, loop, writer.option("checkpointLocation", offsets.location).start())
    except Exception:
        checkpoint.close()
        raise


def _loop(start: Start, checkpoint: Checkpoint, layout: UnionLayout, driver: str) -> Loop[DataFrame]:
    query_id = checkpoint.manifest.query_id
    files = start.files and replace(start.files, query=query_id)
    start.sink.begin(query_id)
    local = LocalWay(switches().shortcut)
    staged_from = switches().staged_from
    staging = Staging(STAGED_FROM if staged_from is None else staged_from)
    ours = (checkpoint.storage, driver, layout)
    runner = SparkRunner(start.session, *ours, start.projection, start.sink, files, local, staging)
    options = DriverOptions(
        driver,
        start.expected,
        start.memory,
        start.retained_versions,
        files,
        rejected_path=start.rejected_path,
        retention_us=start.retention_us,
        cleans_when_idle=start.cleans_when_idle,
        adaptation=start.adaptation,
        functions=start.functions,
        ring_scheme=start.ring_scheme,
        ring_goal=start.ring_goal,
        ring_relocation=start.ring_relocation,
    )
    return start_driver(checkpoint, runner, options)
