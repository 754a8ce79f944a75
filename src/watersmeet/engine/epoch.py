"""The epoch loop: what happens each time Spark hands over a batch.

1. A batch that the manifest already has is a replay of something committed: nothing to do.
2. The manifest and the topology give the site tasks of every level; the levels are chained into one Spark job.
3. The sink runs that job and consumes its rows, under the epoch's id.
4. The tasks' effects are the changes that make the next manifest, which is committed, all or nothing.
5. What no retained manifest names any more is deleted.

A crash anywhere before the commit leaves manifest *n*; Spark replays the batch, and the outcome is the same.
"""

import time
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from watersmeet.engine.assembly import Assembly, routing_keys
from watersmeet.engine.checkpoint import Checkpoint
from watersmeet.engine.crash import reach
from watersmeet.engine.dataflow import finish, first_delta, make_anchor, next_delta, run_level
from watersmeet.engine.direct import publish
from watersmeet.engine.effects import Effects, clear_effects, read_effects
from watersmeet.engine.progress import History, epoch_metrics
from watersmeet.engine.reports import Reports
from watersmeet.engine.session import prepare_stream_session
from watersmeet.engine.shape import Shape
from watersmeet.engine.sinks import Sink
from watersmeet.engine.split import site_keys
from watersmeet.model.errors import (
    CheckpointCorruptError,
    CheckpointInUseError,
    WatersmeetError,
    WorkerError,
    recognise,
)
from watersmeet.model.ids import BatchId, EpochId, SiteId
from watersmeet.state.changes import Change, FinishBatch, apply_all
from watersmeet.state.events import Event, record
from watersmeet.state.garbage import Collector
from watersmeet.state.versions import path_of


@dataclass
class EpochLoop:
    """Carries out the epochs of one run of a query."""

    session: SparkSession
    assembly: Assembly
    checkpoint: Checkpoint
    shape: Shape
    sink: Sink
    collector: Collector
    events: list[Event] = field(default_factory=list)
    history: History = field(default_factory=History)
    error: WatersmeetError | None = None
    _anchor: DataFrame | None = None
    _is_first: bool = True
    _keys: tuple[int, ...] = ()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Handle a batch; the function given to Spark's ``foreachBatch``."""
        try:
            if self._is_new(batch_id):
                self._epoch(batch, BatchId(batch_id))
        except WatersmeetError as error:
            self.error = error
            raise
        except Exception as error:
            self.error = recognise(str(error))
            raise

    def close(self) -> None:
        """Release what the run holds on to; Spark may be gone already."""
        self.checkpoint.close()
        if self._anchor is not None:
            self._anchor.unpersist()
            self._anchor = None

    def _is_new(self, batch_id: int) -> bool:
        """Whether a batch is the next one and not a replay of the last; any other means that input is missing."""
        last = self.checkpoint.manifest.batch
        if batch_id not in (last, last + 1):
            raise CheckpointCorruptError(
                f"Spark goes on with batch {batch_id}, and state has all batches up to {last}",
                why=f"{self.checkpoint.spark_location} and {self.checkpoint.storage.url} are not of the same moment",
                how="restore both from one copy, or start with a new checkpointLocation",
            )
        return batch_id == last + 1

    def _check_owner(self) -> None:
        """Stop before the sink is touched if another driver has gone on with the checkpoint."""
        following = path_of(self.checkpoint.manifest.version + 1)
        if self.checkpoint.storage.size(following) is not None:
            raise CheckpointInUseError(
                f"{following} of {self.checkpoint.storage.url} exists already",
                why="another driver runs the same query on this checkpoint, and has gone on without this one",
                how="stop one of them; the results of the other are complete",
            )

    def _epoch(self, batch: DataFrame, batch_id: BatchId) -> None:
        clock = _Clock()
        epoch = EpochId(self.checkpoint.manifest.version)
        self._reach("epoch-start", epoch)
        self._check_owner()
        rows = self._rows(batch)
        clock.lap("plan")
        self._reach("before-sink", epoch)
        self.sink.write(rows, epoch)
        self._reach("after-sink", epoch)
        effects = self._effects(rows, epoch)
        self._publish(effects, epoch)
        clock.lap("run")
        self._commit(effects, batch_id)
        clock.lap("commit")
        self.collector.committed(self.checkpoint.manifest)
        clear_effects(self.checkpoint.storage, EpochId(self.checkpoint.manifest.version))
        clock.lap("collect")
        self.history.add(batch_id, epoch_metrics(self.checkpoint.manifest, effects.values(), clock.laps_ms))
        self._reach("epoch-end", epoch)

    def _rows(self, batch: DataFrame) -> DataFrame:
        """The epoch's results, not yet computed."""
        manifest, topology = self.checkpoint.manifest, self.assembly.topology
        anchor = self._anchored(batch)
        levels = self.assembly.levels(manifest, self._keys)
        routing = routing_keys(manifest, self._keys)
        delta = first_delta(batch, topology, routing, manifest.groups)
        rows = run_level(anchor, delta, levels[0], self._reports.report)
        for spec in levels[1:]:
            delta = next_delta(rows, topology, spec.level, routing, manifest.groups)
            rows = run_level(anchor, delta, spec, self._reports.report)
        return rows if self.assembly.direct else self.shape.apply(finish(rows, topology.plan.root))

    def _anchored(self, batch: DataFrame) -> DataFrame:
        if self._anchor is None:
            session = batch.sparkSession
            prepare_stream_session(session)
            self._keys = site_keys(self.checkpoint.manifest.sites)
            self._anchor = make_anchor(session, self._keys)
        self._reports.clear()
        return self._anchor

    @cached_property
    def _reports(self) -> Reports:
        return Reports.of(self.session, self.checkpoint.storage, self.assembly.driver)

    def _effects(self, rows: DataFrame, epoch: EpochId) -> dict[tuple[int, SiteId], Effects]:
        """All tasks' effects; a sink that did not read all rows leaves tasks undone, which are then run here."""
        expected = self.assembly.topology.depth * self.checkpoint.manifest.sites
        for attempt in range(2):
            effects = read_effects(self.checkpoint.storage, self._reports.names())
            if len(effects) == expected:
                return effects
            if attempt == 0:
                rows.write.format("noop").mode("overwrite").save()
        raise WorkerError(
            f"epoch {epoch} has the effects of {len(effects)} of {expected} site tasks",
            why="the others ended without telling what they did",
            how="make sure that all executors write to the same checkpointLocation",
        )

    def _publish(self, effects: dict[tuple[int, SiteId], Effects], epoch: EpochId) -> None:
        if self.assembly.direct is not None:
            written = [(each.site, name) for each in effects.values() for name in each.files]
            publish(self.assembly.direct, epoch, written, first=self._is_first)
        self._is_first = False

    def _commit(self, effects: dict[tuple[int, SiteId], Effects], batch_id: BatchId) -> None:
        changes: list[Change] = [change for _, each in sorted(effects.items()) for change in each.changes]
        manifest = apply_all(self.checkpoint.manifest, [*changes, FinishBatch(batch_id)])
        self._reach("before-commit", manifest.version - 1)
        record(self.checkpoint.storage, manifest.version, self.events)
        self.events = []
        self.checkpoint.store.commit(manifest)
        self.checkpoint.manifest = manifest
        self._reach("after-commit", manifest.version - 1)

    def _reach(self, point: str, epoch: int) -> None:
        plan = self.assembly.crash
        if plan is not None and plan.victim == "driver":
            reach(plan, point, epoch)


@dataclass
class _Clock:
    laps_ms: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps_ms[name] = (now - self._last) * 1000
        self._last = now
