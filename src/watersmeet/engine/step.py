"""A step: rows go through the site tasks into the sink, and what the tasks did becomes the next version.

Every step has the id of the version it reads. An epoch's rows are a batch of Spark's; a step of cleanup has none, and
begins at the level of the operator it cleans.

1. The manifest and the topology give the site tasks of every level; the levels are chained into one Spark job.
2. The sink runs that job and consumes its rows, under the step's id.
3. The tasks' effects are changes; the governor adds its decisions. Together they make the next manifest, which is
   committed, all or nothing.
4. What no retained manifest names any more is deleted.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from watersmeet.engine.anchor import Anchor
from watersmeet.engine.assembly import Assembly, routing_keys
from watersmeet.engine.batch_limit import BatchLimit
from watersmeet.engine.checkpoint import Checkpoint
from watersmeet.engine.crash import reach
from watersmeet.engine.dataflow import FirstSplit, finish, next_delta, run_level
from watersmeet.engine.direct_files import publish
from watersmeet.engine.effects import Effects, clear_effects, read_effects
from watersmeet.engine.governor import Governor
from watersmeet.engine.memory import Memory
from watersmeet.engine.reports import Reports
from watersmeet.engine.session import prepare_stream_session
from watersmeet.engine.shape import Shape
from watersmeet.engine.sinks import Sink
from watersmeet.engine.spec import LevelSpec
from watersmeet.engine.split import site_keys
from watersmeet.model.errors import CheckpointInUseError, WorkerError
from watersmeet.model.ids import EpochId
from watersmeet.state.changes import Change, apply_all
from watersmeet.state.events import Event, record
from watersmeet.state.garbage import Collector
from watersmeet.state.manifest import Manifest
from watersmeet.state.versions import path_of


@dataclass
class Clock:
    """Laps of a step, in milliseconds."""

    laps_ms: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        """End a lap."""
        now = time.monotonic()
        self.laps_ms[name] = (now - self._last) * 1000
        self._last = now


@dataclass
class Stepper:
    """Carries out the steps of one run of a query, one at a time."""

    session: SparkSession
    assembly: Assembly
    checkpoint: Checkpoint
    shape: Shape
    sink: Sink
    collector: Collector
    memory: Memory
    events: list[Event] = field(default_factory=list)
    is_first: bool = True
    _anchor: Anchor | None = None
    _batch_limit: BatchLimit = field(init=False)
    _keys: tuple[int, ...] = ()

    @property
    def manifest(self) -> Manifest:
        """The last committed manifest."""
        return self.checkpoint.manifest

    def batch_rows(self, batch: DataFrame) -> tuple[DataFrame, list[LevelSpec]]:
        """An epoch's results, not yet computed."""
        anchor = self._anchored(batch.sparkSession)
        levels = self.assembly.levels(self.manifest, self._keys)
        routing = routing_keys(self.manifest, self._keys)
        delta = self._first_split.delta(batch, routing)
        return self._chain(anchor, delta, levels), levels

    def missing_rows(self, session: SparkSession, sizes: dict[int, float]) -> tuple[DataFrame, list[LevelSpec]]:
        """The results of a step of cleanup, not yet computed."""
        anchor = self._anchored(session)
        levels = self.assembly.cleaning(self.manifest, self._keys, sizes)
        return self._chain(anchor, None, levels), levels

    def run(self, rows: DataFrame, levels: Sequence[LevelSpec], clock: Clock) -> list[Effects]:
        """Have the sink consume the rows; what the tasks did, bottom-up."""
        epoch = EpochId(self.manifest.version)
        self.reach("before-sink")
        if levels[-1].is_root and not levels[-1].only_stores:
            self.sink.write(rows, epoch)
        else:  # it has no results yet
            rows.write.format("noop").mode("overwrite").save()
        self.reach("after-sink")
        effects = self._effects(rows, len(levels) * self.manifest.sites)
        if self.assembly.direct is not None:
            written = [(each.site, name) for each in effects for name in each.files]
            publish(self.assembly.direct, epoch, written, first=self.is_first)
        self.is_first = False
        clock.lap("run")
        return effects

    def commit(self, effects: Sequence[Effects], decided: Sequence[Change], finish_with: Change, clock: Clock) -> None:
        """Make the next version of what the tasks did and of what was decided."""
        told: list[Change] = [change for each in effects for change in each.changes]
        counted = self.memory.observe(self.manifest, effects)
        after = apply_all(self.manifest, [*told, *decided, *counted])
        spills, events = Governor(self.memory).decide(after)
        self.events += events
        self.save(apply_all(after, [*spills, finish_with]))
        clock.lap("commit")
        clear_effects(self.checkpoint.storage, EpochId(self.manifest.version))
        clock.lap("collect")

    def save(self, manifest: Manifest) -> None:
        """Commit a version with the adaptations it brings."""
        self.reach("before-commit")
        record(self.checkpoint.storage, manifest.version, self.events)
        self.events = []
        self.checkpoint.store.commit(manifest)
        self.checkpoint.manifest = manifest
        self.reach("after-commit", -1)
        self.collector.committed(manifest)

    def check_owner(self) -> None:
        """Stop before the sink is touched if another driver has gone on with the checkpoint."""
        following = path_of(self.manifest.version + 1)
        if self.checkpoint.storage.size(following) is not None:
            raise CheckpointInUseError(
                f"{following} of {self.checkpoint.storage.url} exists already",
                why="another driver runs the same query on this checkpoint, and has gone on without this one",
                how="stop one of them; the results of the other are complete",
            )

    def reach(self, point: str, offset: int = 0) -> None:
        """Pass a point at which a test may kill the driver."""
        plan = self.assembly.crash
        if plan is not None and plan.victim == "driver":
            reach(plan, point, self.manifest.version + offset)

    def close(self) -> None:
        """Release what the run holds on to; Spark may be gone already."""
        self.checkpoint.close()
        if self._anchor is not None:
            self._anchor.release()
            self._anchor = None

    @cached_property
    def _packs(self) -> bool:
        topology = self.assembly.topology
        return any(topology.packs(level) for level in range(topology.depth))

    @cached_property
    def _first_split(self) -> FirstSplit:
        return FirstSplit(self.assembly.topology, self.manifest.groups)

    @cached_property
    def _reports(self) -> Reports:
        return Reports.of(self.session, self.checkpoint.storage, self.assembly.driver)

    def _anchored(self, session: SparkSession) -> Anchor:
        if self._anchor is None:
            prepare_stream_session(session)
            self._keys = site_keys(self.manifest.sites)
            self._anchor = Anchor.of(session, self._keys)
            self._batch_limit = BatchLimit.of(session)
        may_lift = not self.is_first and self.manifest.cleaning is None and not self._packs
        self._batch_limit.adjust(self.manifest, may_lift=may_lift)
        self._reports.clear()
        return self._anchor

    def _chain(self, anchor: Anchor, delta: DataFrame | None, levels: Sequence[LevelSpec]) -> DataFrame:
        topology, groups = self.assembly.topology, self.manifest.groups
        routing = routing_keys(self.manifest, self._keys)
        lowest, *higher = levels
        rows = run_level(anchor, delta, lowest, self._reports.report)
        for spec in higher:
            incoming = next_delta(rows, topology, spec.level, routing, groups)
            rows = run_level(anchor, incoming, spec, self._reports.report)
        if self.assembly.direct or not levels[-1].is_root:
            return rows
        return self.shape.apply(finish(rows, topology.plan.root))

    def _effects(self, rows: DataFrame, expected: int) -> list[Effects]:
        """All tasks' effects; a sink that did not read all rows leaves tasks undone, which are then run here."""
        for attempt in range(2):
            effects = read_effects(self.checkpoint.storage, self._reports.names())
            if len(effects) == expected:
                return [each for _, each in sorted(effects.items())]
            if attempt == 0:
                rows.write.format("noop").mode("overwrite").save()
        raise WorkerError(
            f"epoch {self.manifest.version} has the effects of {len(effects)} of {expected} site tasks",
            why="the others ended without telling what they did",
            how="make sure that all executors write to the same checkpointLocation",
        )
