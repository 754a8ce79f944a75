"""A step: rows go through the site tasks into the sink, and what the tasks did becomes the next version.

Every step has the id of the version it reads. An epoch's rows are a batch of Spark's; a step of cleanup has none, and
begins at the level of the operator it cleans.

1. The manifest and the topology give the site tasks of every level, and these a Spark job (`jobs`).
2. The sink runs that job and consumes its rows, under the step's id.
3. The tasks' effects are changes; the governor adds its decisions. Together they make the next manifest, which is
   committed, all or nothing.
4. What no retained manifest names any more is deleted.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from watersmeet.engine.assembly import Assembly
from watersmeet.engine.checkpoint import Checkpoint
from watersmeet.engine.crash import reach
from watersmeet.engine.direct_files import publish
from watersmeet.engine.effects import Effects, clear_effects, read_effects
from watersmeet.engine.governor import Governor
from watersmeet.engine.jobs import Job, Jobs
from watersmeet.engine.memory import Memory
from watersmeet.engine.sinks import Sink
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

    jobs: Jobs
    assembly: Assembly
    checkpoint: Checkpoint
    sink: Sink
    collector: Collector
    memory: Memory
    events: list[Event] = field(default_factory=list)
    is_first: bool = True

    @property
    def manifest(self) -> Manifest:
        """The last committed manifest."""
        return self.checkpoint.manifest

    def run(self, job: Job, clock: Clock) -> list[Effects]:
        """Have the sink consume a job's rows; what the tasks did, bottom-up."""
        epoch = EpochId(self.manifest.version)
        self.reach("before-sink")
        if job.has_results:
            self.sink.write(job.rows, epoch)
        else:
            run_unread(job.rows)
        self.reach("after-sink")
        effects = self._effects(job)
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
        self.jobs.close()

    def _effects(self, job: Job) -> list[Effects]:
        """All tasks' effects; what a sink did not read or a task gave up is undone, and is then done here."""
        for attempt in range(2):
            effects = read_effects(self.checkpoint.storage, self.jobs.reports.names())
            if len(effects) == job.tasks:
                return [each for _, each in sorted(effects.items())]
            if attempt == 0:
                run_unread(job.again())
        raise WorkerError(
            f"epoch {self.manifest.version} has the effects of {len(effects)} of {job.tasks} site tasks",
            why="the others ended without telling what they did",
            how="make sure that all executors write to the same checkpointLocation",
        )


def run_unread(rows: DataFrame) -> None:
    """Have rows computed that nobody reads."""
    rows.write.format("noop").mode("overwrite").save()
