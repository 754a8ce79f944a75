"""A step, from top to bottom: rows go through the site tasks into the sink, and what they did is the next version.

Every step has the id of the version it reads. An epoch's rows are a batch of the input; a step of cleanup has none, and
begins at the level of the operator it cleans.

1. The manifest gives the tasks: its plan the topology, its slices what each site probes, its policies the merges.
2. The runner carries them out and gives the results to the sink, under the step's id.
3. The tasks' effects are changes. The observer learns from them, and the coordinator adds what it decides.
4. Together the changes are the next version, which is committed, all or nothing.
5. Files of results are published, and what no retained version names any more is deleted.

A crash before 4 leaves version *n*; the step is repeated, and the outcome is the same.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Generic

from msgspec import structs

from watersmeet.adapt.policy import View
from watersmeet.driver.coordinator import Coordinator
from watersmeet.driver.loads import executors_of, to_fetch
from watersmeet.driver.observer import Observer
from watersmeet.driver.ports import Batch, Done, Runner, Step, Versions
from watersmeet.driver.publish import publish, tidy
from watersmeet.driver.relocating import RelocationLog
from watersmeet.driver.task_specs import TaskSpecs
from watersmeet.driver.topology import Topology
from watersmeet.model.errors import CheckpointInUseError, StorageError, WorkerError
from watersmeet.model.ids import BatchId, OperatorId
from watersmeet.site.effects import Effects
from watersmeet.site.result_files import ResultFormat
from watersmeet.state.applying import apply_all
from watersmeet.state.changes import (
    BeginCleaning,
    Change,
    DecideRows,
    DropRows,
    EndStreams,
    FinishAdaptation,
    FinishBatch,
    FinishCleaning,
    PassPromises,
    ReplacePlan,
    SeeTimes,
    WriteRejected,
    WriteResults,
)
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest

_LOG = logging.getLogger("watersmeet")


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

    @property
    def seconds(self) -> float:
        """All laps together."""
        return sum(self.laps_ms.values()) / 1000


@dataclass(frozen=True)
class Taken:
    """The outcome of a step; ``dropped`` rows left the state with whole runs, ``passed_on`` counts promises."""

    effects: Sequence[Effects]
    laps_ms: dict[str, float]
    results: int | None = None
    dropped: int = 0
    passed_on: int = 0


@dataclass
class Stepper(Generic[Batch]):
    """Takes the steps of one run of a query, one at a time."""

    runner: Runner[Batch]
    checkpoint: Versions
    specs: TaskSpecs
    coordinator: Coordinator
    observer: Observer
    parcels: bool = True
    reach: Callable[[str, int], None] = lambda point, epoch: None  # noqa: ARG005
    is_first: bool = True
    relocations: RelocationLog = field(default_factory=RelocationLog)
    _pending: list[Change] = field(default_factory=list)
    _topology: Topology | None = None

    @property
    def manifest(self) -> Manifest:
        """The last committed manifest."""
        return self.checkpoint.manifest

    def epoch(self, batch: Batch, batch_id: BatchId) -> Taken:
        """Join a batch of the input."""
        with self._telling_of_another_driver():
            return self._step("epoch", batch, lambda _, __: FinishBatch(batch_id))

    def clean(self) -> Taken:
        """Produce the results that the last version has begun to clean."""
        with self._telling_of_another_driver():
            taken = self._step("cleanup", None, self._finish_cleaning)
        self.observer.weigh(self.manifest)
        read = sum(each.cleaned_bytes for each in taken.effects)
        self.coordinator.cleaning.learn(read, sum(taken.laps_ms.values()) / 1000)
        return taken

    def begin_cleaning(self, view: View) -> bool:
        """Decide on a step of cleanup and commit that, so that it is repeated the same; False if there is none."""
        decided = [each for each in self.coordinator.decide(view) if isinstance(each, BeginCleaning)]
        if decided:
            self.commit(decided[:1])
        return bool(decided)

    def adapt(self, changes: Iterable[Change]) -> None:
        """Add changes to the next version."""
        self._pending += changes
        if any(isinstance(change, ReplacePlan) for change in self._pending):
            self.observer.begin(self._working())

    def commit_adaptations(self, changes: Sequence[Change]) -> None:
        """Commit a version that has only changes."""
        self.commit([*changes, FinishAdaptation()])
        self.observer.begin(self.manifest)

    def view(self, moment: str, operators: tuple[OperatorId, ...] = (), closed_by: int | None = None) -> View:
        """The view for policies at this moment."""
        return View(moment, self._working(), self.observer.statistics, operators, closed_by)  # type: ignore[arg-type]

    def commit(self, changes: Sequence[Change]) -> None:
        """Commit the next version with pending and further changes."""
        self.reach("before-commit", self.manifest.version)
        self.checkpoint.commit([*self._pending, *changes])
        self._pending = []
        self.relocations.committed(self.manifest)
        self.reach("after-commit", self.manifest.version - 1)
        publish(self.manifest)
        self._tidy_up()

    def _step(self, name: str, batch: Batch | None, finish: Callable[[Manifest, Sequence[Effects]], Change]) -> Taken:
        clock, manifest = Clock(), self._working()
        self.reach(f"{name}-start", manifest.version)
        self.checkpoint.check_owner()

        step = self._plan(manifest, batch)
        clock.lap("plan")

        self.reach("before-sink", manifest.version)
        done = self.runner.run(step)
        self.reach("after-sink", manifest.version)
        clock.lap("run")

        told = _changes_of(step, done)
        took_ms = clock.laps_ms["run"] if done.took_ms is None else done.took_ms
        counted = self.observer.observe(manifest, done.effects, took_ms)
        after = apply_all(manifest, [*told, *counted])
        left = to_fetch(done.effects)
        self.relocations.tasks_ended(manifest, left, is_epoch=batch is not None)
        view = View("step", after, self.observer.statistics, load=self.observer.load)
        decided = self.coordinator.decide(replace(view, executors=executors_of(done), to_fetch=left))
        self.coordinator.learn(manifest, done.effects, decided)
        self.relocations.decided(manifest, decided, step.tasks)
        kept = self.observer.settle(after, decided)
        self.checkpoint.check_owner()
        ending = finish(after, done.effects)
        if isinstance(ending, FinishCleaning):
            ending = structs.replace(ending, is_inner=not step.has_results)
        self.commit([*told, *counted, *decided, *kept, ending])
        clock.lap("commit")

        self.is_first = False
        self.reach(f"{name}-end", manifest.version)
        dropped = sum(change.rows for change in decided if isinstance(change, DropRows))
        passed_on = sum(isinstance(change, PassPromises) for change in decided)
        return Taken(done.effects, clock.laps_ms, done.results, dropped, passed_on)

    @contextmanager
    def _telling_of_another_driver(self) -> Iterator[None]:
        """Report CheckpointInUseError where the failure was caused by another driver, which may delete files."""
        try:
            yield
        except CheckpointInUseError:
            raise
        except Exception:
            with suppress(StorageError):  # what has failed is told, and not that storage cannot be asked
                self.checkpoint.check_owner()
            raise

    def _plan(self, manifest: Manifest, batch: Batch | None) -> Step[Batch]:
        """The specifications of the next step's tasks."""
        if self._topology is None or self._topology.plan is not manifest.plan:
            self._topology = Topology(manifest.plan, self.parcels, whole_rows=self.specs.rejected_path is not None)
        merges = self.coordinator.merges(View("tasks", manifest))
        return Step(
            manifest, self._topology, self.specs.levels(manifest, self._topology, merges, self.observer.costs), batch
        )

    def _finish_cleaning(self, manifest: Manifest, effects: Sequence[Effects]) -> Change:
        read = sum(each.cleaned_bytes for each in effects)
        return self.coordinator.finish_cleaning(manifest, read, sum(each.cleaned_results for each in effects))

    def _working(self) -> Manifest:
        """The last manifest with pending changes."""
        return apply_all(self.manifest, self._pending)

    def _tidy_up(self) -> None:
        """Delete garbage; files that cannot be deleted now are deleted later."""
        results = self.manifest.results
        places: dict[str | None, ResultFormat | None] = {self.specs.rejected_path: None}
        if results is not None:
            places[results.path] = self.specs.files
        for path, files in places.items():
            try:
                if path and self.is_first:
                    tidy(path, self.manifest, files)
            except StorageError as error:
                _LOG.warning("leftovers in %s stay for now: %s", path, error)
        self.checkpoint.collect()


def _latest(manifest: Manifest, effects: Sequence[Effects]) -> dict[str, int]:
    """The latest times of the rows that were accepted, of streams where they are later than before."""
    told: dict[str, int] = {}
    for stream, time_us in (pair for each in effects for pair in each.latest.items()):
        told[stream] = max(time_us, told.get(stream, time_us))
    return {stream: time_us for stream, time_us in told.items() if time_us > manifest.latest.get(stream, time_us - 1)}


def _decided(step: Step[Batch]) -> list[Change]:
    """Which rows of preserved inputs the tasks have decided on: of groups that miss nothing, and of those cleaned."""
    manifest, cleaning, changes = step.manifest, step.manifest.cleaning, list[Change]()
    for operator in (each for spec in step.levels if not spec.only_stores for each in spec.operators):
        for source in (operator.inputs[number] for number in operator.preserved):
            decision = step.levels[-1].decisions.get(source.tag)
            if decision is None:
                continue
            promised = decision.promised if decision.has_new_keys else None
            if promised is not None or bool((decision.decided.array < decision.limit).any()):
                groups = GroupSet.of(range(manifest.groups)) - manifest.spilled(operator.id)
                is_cleaned = cleaning is not None and cleaning.operator == operator.id
                groups = groups | GroupSet.of(cleaning.groups) if cleaning is not None and is_cleaned else groups
                changes.append(DecideRows(operator.id, source.name, groups, decision.limit, promised))
    return changes


def _changes_of(step: Step[Batch], done: Done) -> list[Change]:
    """The effects of the tasks as changes; every task must have reported."""
    if len(done.effects) != step.tasks:
        raise WorkerError(
            f"epoch {step.epoch} has the effects of {len(done.effects)} of {step.tasks} site tasks",
            why="the others ended without telling what they did",
            how="make sure that all executors write to the same checkpointLocation",
        )
    latest = _latest(step.manifest, done.effects)
    changes: list[Change] = [SeeTimes(latest)] if latest else []
    changes += [change for each in done.effects for change in each.changes]
    ended = tuple(sorted({name for each in done.effects for name in each.ended}))
    until: dict[str, int] = {}
    for name, moment in (pair for each in done.effects for pair in each.promised_until.items()):
        until[name] = max(moment, until.get(name, moment))
    if ended or until:
        changes.append(EndStreams(ended, until))
    changes += _decided(step)
    names = tuple((hidden, hidden.removeprefix(".")) for each in done.effects for hidden in each.rejected_files)
    if names:
        changes.append(WriteRejected(step.levels[0].rejected_path or "", names))
    return [*changes, WriteResults(done.path, done.names)] if done.path else changes
