"""The epoch loop: what happens each time Spark hands over a batch, and between batches.

- A batch that the manifest already has is a replay of something committed: nothing to do.
- Any other is an epoch (`step`): it reads version *n* and commits *n+1*.
- Between epochs, results that spilled groups miss are produced in steps of cleanup. What a step cleans is decided and
  committed first, as a version of its own; so a step that is cut off is repeated the same, before anything else.

A crash anywhere before a commit leaves manifest *n*; Spark replays the batch, and the outcome is the same. For that,
nothing may come between a batch that was begun and its replay: a run's first step is the batch Spark has planned, if it
has planned one.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from watersmeet.adapt.cleaning import next_slice
from watersmeet.engine.caretaker import Caretaker
from watersmeet.engine.checkpoint import planned_batch
from watersmeet.engine.effects import Effects
from watersmeet.engine.progress import History, epoch_metrics
from watersmeet.engine.session import copy_session
from watersmeet.engine.step import Clock, Stepper
from watersmeet.model.errors import CheckpointCorruptError, StoppedError, WatersmeetError, recognise
from watersmeet.model.ids import BatchId
from watersmeet.model.plan import Operator
from watersmeet.state.changes import BeginCleaning, FinishBatch, FinishCleaning, apply, apply_all
from watersmeet.state.manifest import Cleaning, Manifest

CLOSE_PATIENCE_S = 600.0


@dataclass
class EpochLoop:
    """Carries out the epochs of one run of a query, and its cleanup, never two at once."""

    stepper: Stepper
    caretaker: Caretaker
    history: History = field(default_factory=History)
    error: WatersmeetError | None = None
    last_end_s: float = field(default_factory=time.monotonic)
    last_was_cleaning: bool = False
    stopping: threading.Event = field(default_factory=threading.Event)
    _session: SparkSession | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _is_over: bool = False

    @property
    def manifest(self) -> Manifest:
        """The last committed manifest."""
        return self.stepper.manifest

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Handle a batch; the function given to Spark's ``foreachBatch``."""
        with self._taking_turns():
            self._session = batch.sparkSession
            if self.manifest.cleaning is not None:
                self._clean(self.manifest.cleaning)
            if self._is_new(batch_id):
                self._epoch(batch, BatchId(batch_id))

    def clean(self, operators: Sequence[Operator], *, closed_by: int | None = None, at_end: bool = False) -> bool:
        """One step of cleanup among some operators; False where nothing is missing there.

        ``closed_by`` leaves out generations closed after a version. At the end of all input steps are large.
        """
        with self._taking_turns():
            cleaning = self.manifest.cleaning
            if self.stopping.is_set():
                return False
            if cleaning is None:
                cleaning = self.caretaker.next_step(self.manifest, operators, closed_by, at_end=at_end)
                if cleaning is None:
                    return False
                self.stepper.save(apply(self.manifest, BeginCleaning(cleaning)))
            self._clean(cleaning)
            return True

    def revive(self) -> None:
        """At the end, leave as much of the state live for the next run as the budget has room for."""
        with self._taking_turns():
            if self.manifest.cleaning is not None or self.stopping.is_set():
                return
            changes = self.caretaker.revived(self.manifest)
            if changes:
                self.stepper.save(apply_all(self.manifest, [*changes, FinishCleaning()]))
                self._weigh()

    def may_clean(self) -> bool:
        """Whether no batch was begun that has to come first."""
        return not self.stepper.is_first or self.has_all_batches()

    def has_all_batches(self) -> bool:
        """Whether all batches that Spark has planned are part of the state."""
        return planned_batch(self.stepper.checkpoint.location) <= self.manifest.batch

    def missing_groups(self) -> int:
        """How many groups have results missing."""
        return self.caretaker.missing_groups(self.manifest)

    def close(self) -> None:
        """Release what the run holds on to, once no step is under way any more."""
        finished = self._turn.acquire(timeout=CLOSE_PATIENCE_S)
        try:
            self._is_over = True  # whoever still waits for a turn comes too late
            self.stepper.close()
        finally:
            if finished:
                self._turn.release()

    @contextmanager
    def _taking_turns(self) -> Iterator[None]:
        """One step at a time; none after one that failed, for the sink may have what was never committed."""
        with self._turn:
            if self._is_over:
                raise _over()
            try:
                yield
            except Exception as error:
                self._is_over = True
                self.error = error if isinstance(error, WatersmeetError) else recognise(str(error))
                raise
            finally:
                self.last_end_s = time.monotonic()

    def _is_new(self, batch_id: int) -> bool:
        """Whether a batch is the next one and not a replay of the last; any other means that input is missing."""
        last = self.manifest.batch
        if batch_id not in (last, last + 1):
            checkpoint = self.stepper.checkpoint
            raise CheckpointCorruptError(
                f"Spark goes on with batch {batch_id}, and state has all batches up to {last}",
                why=f"{checkpoint.spark_location} and {checkpoint.storage.url} are not of the same moment",
                how="restore both from one copy, or start with a new checkpointLocation",
            )
        return batch_id == last + 1

    def _epoch(self, batch: DataFrame, batch_id: BatchId) -> None:
        clock = Clock()
        self.stepper.reach("epoch-start")
        self.stepper.check_owner()
        job = self.stepper.jobs.epoch(batch, self.manifest)
        clock.lap("plan")
        effects = self.stepper.run(job, clock)
        self.stepper.jobs.learn(effects)
        self.stepper.commit(effects, [], FinishBatch(batch_id), clock)
        self.last_was_cleaning = False
        self.history.add(batch_id, self._metrics(effects, clock))
        self.stepper.reach("epoch-end", -1)

    def _clean(self, cleaning: Cleaning) -> None:
        stepper, clock = self.stepper, Clock()
        stepper.reach("cleanup-start")
        stepper.check_owner()
        self._session = self._session or copy_session(stepper.jobs.session)
        sizes = stepper.memory.group_bytes(self.manifest, cleaning.operator)
        job = stepper.jobs.cleaning(self._session, self.manifest, sizes)
        clock.lap("plan")
        effects = stepper.run(job, clock)
        stepper.events.append(self.caretaker.event(self.manifest, cleaning, effects))
        stepper.commit(effects, self.caretaker.cleaned(self.manifest, cleaning), FinishCleaning(), clock)
        self._weigh()
        self.last_was_cleaning = True
        read = sum(each.cleaned_bytes for each in effects)
        self.caretaker.slice_bytes = next_slice(read, sum(clock.laps_ms.values()) / 1000)
        self.history.add_cleaning(self._metrics(effects, clock) | {"cleanup": self._report(cleaning, effects)})
        stepper.reach("cleanup-end", -1)

    def _weigh(self) -> None:
        """Groups may be live again: learn their sizes."""
        memory = self.stepper.memory
        for operator in memory.plan.operators if memory.is_limited else ():
            memory.weigh(self.manifest, operator)

    def _metrics(self, effects: Sequence[Effects], clock: Clock) -> dict[str, object]:
        metrics = epoch_metrics(self.manifest, effects, clock.laps_ms)
        memory = self.stepper.memory
        if memory.options.budget_bytes is None:
            return metrics
        live = [int(size) for size in memory.live_by_site(self.manifest).tolist()]
        budget = memory.options.budget_bytes
        return metrics | {"memoryBudget": budget, "liveBytes": live, "spilledGroups": self.missing_groups()}

    def _report(self, cleaning: Cleaning, effects: Sequence[Effects]) -> dict[str, object]:
        """What a step of cleanup did, and what is left to do."""
        return {
            "operator": cleaning.operator,
            "groups": len(cleaning.groups),
            "results": sum(each.cleaned_results for each in effects),
            "readBytes": sum(each.cleaned_bytes for each in effects),
            "groupsLeft": self.missing_groups(),
        }


def _over() -> StoppedError:
    return StoppedError(
        "this run of the query is over",
        why="it was stopped, or a step of it failed, and what that step gave to the sink must be repeated first",
        how="start the query again on the same checkpointLocation",
    )
