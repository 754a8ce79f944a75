"""The loop of a run: it handles each batch, and cleanup between batches. One step at a time.

- A batch that the manifest already has is a replay of something committed: nothing to do.
- Any other is an epoch (`step`): it reads version *n* and commits *n+1*.
- Between epochs, results that spilled groups miss are produced in steps of cleanup. What a step cleans is decided and
  committed first, as a version of its own; so a step that is cut off is repeated the same, before anything else.

A crash anywhere before a commit leaves manifest *n*; the batch is replayed, and the outcome is the same. For that,
nothing may come between a batch that was begun and its replay: a run's first step is the batch that was planned, if
there is one.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic

from watersmeet.adapt.cleaning.policy import missing_groups
from watersmeet.adapt.policy import MemoryOptions, Moment
from watersmeet.driver.ports import Batch
from watersmeet.driver.progress import Cleanup, History, step_metrics
from watersmeet.driver.step import Stepper
from watersmeet.model.errors import CheckpointCorruptError, StoppedError, failed
from watersmeet.model.ids import BatchId, OperatorId
from watersmeet.state.changes import EndInput
from watersmeet.state.manifest import Manifest

CANCEL_EVERY_S = 0.5
GENERATIONS_TIMES = 2
"""At this multiple of the intended number of generations, epochs wait for cleanup."""


@dataclass
class Loop(Generic[Batch]):
    """Carries out the epochs of one run of a query, and its cleanup, never two at once."""

    stepper: Stepper[Batch]
    options: MemoryOptions
    history: History = field(default_factory=History)
    error: Exception | None = None
    last_end_s: float = field(default_factory=time.monotonic)
    last_was_cleanup: bool = False
    stopping: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _is_over: bool = False

    @property
    def manifest(self) -> Manifest:
        """The last committed manifest."""
        return self.stepper.manifest

    def batch(self, batch: Batch, batch_id: int) -> None:
        """Run a batch as an epoch, unless it is a replay of a committed one."""
        with self._taking_turns():
            if self.manifest.cleaning is not None:
                self._clean()
            if self._is_new(batch_id):
                taken = self.stepper.epoch(batch, BatchId(batch_id))
                self.last_was_cleanup = False
                self.history.add(batch_id, step_metrics(self.manifest, taken, self.options))
                self._keep_generations_few()

    def clean(self, moment: Moment, operators: tuple[OperatorId, ...] = (), closed_by: int | None = None) -> bool:
        """One step of cleanup among some operators; False where nothing is missing there.

        ``closed_by`` leaves out generations closed after a version. At the end of all input steps are large.
        """
        with self._taking_turns():
            if self.stopping.is_set():
                return False
            is_begun = self.manifest.cleaning is not None
            if not is_begun and not self.stepper.begin_cleaning(self.stepper.view(moment, operators, closed_by)):
                return False
            self._clean()
            return True

    def end_input(self) -> None:
        """Commit that all streams have ended."""
        with self._taking_turns():
            if not self.manifest.has_ended and not self.stopping.is_set():
                self.stepper.commit_adaptations([EndInput("all available input was consumed, and no more arrives")])

    def revive(self) -> None:
        """At the end, make as much of the state live for the next run as the budget allows."""
        with self._taking_turns():
            if self.manifest.cleaning is not None or self.stopping.is_set():
                return
            changes = self.stepper.coordinator.decide(self.stepper.view("over"))
            if changes:
                self.stepper.commit_adaptations(changes)

    def may_clean(self) -> bool:
        """Whether no batch must be replayed first."""
        return not self.stepper.is_first or self.stepper.checkpoint.has_all_batches

    def missing_groups(self) -> int:
        """The number of groups that miss results."""
        return missing_groups(self.manifest)

    def stop(self) -> None:
        """Begin no further step, and cancel a running step of cleanup, which is repeated later."""
        self.stopping.set()
        self.stepper.runner.cancel()

    def close(self) -> None:
        """Release the resources of the run, once no step is running."""
        while not self._turn.acquire(timeout=CANCEL_EVERY_S):
            if self.stopping.is_set():
                self.stepper.runner.cancel()  # a job that had not begun when it was cancelled before
        try:
            self._is_over = True  # whoever still waits for a turn comes too late
            self.stepper.checkpoint.close()
            self.stepper.runner.close()
        finally:
            self._turn.release()

    @contextmanager
    def _taking_turns(self) -> Iterator[None]:
        """One step at a time; none after a failed one, as the sink may have rows that were never committed."""
        with self._turn:
            if self._is_over:
                raise _over()
            try:
                yield
            except Exception as error:
                self._is_over = True
                self.error = failed(error)
                raise
            finally:
                self.last_end_s = time.monotonic()

    def _is_new(self, batch_id: int) -> bool:
        """Whether a batch is the next one and not a replay of the last; any other means that input is missing."""
        last = self.manifest.batch
        if batch_id not in (last, last + 1):
            checkpoint = self.stepper.checkpoint
            raise CheckpointCorruptError(
                f"the input goes on with batch {batch_id}, and state has all batches up to {last}",
                why=f"{checkpoint.location}/spark and {checkpoint.storage.url} are not of the same moment",
                how="restore both from one copy, or start with a new checkpointLocation",
            )
        return batch_id == last + 1

    def _keep_generations_few(self) -> None:
        """Cleanup that cannot wait until input pauses: a slice after each epoch, or more if that is not enough."""
        while not self.stopping.is_set() and self.stepper.begin_cleaning(self.stepper.view("between")):
            self._clean()
            most = max(len(self.manifest.generations(name)) for name in self.manifest.operators)
            if most < GENERATIONS_TIMES * self.options.generations_max:
                return

    def _clean(self) -> None:
        cleaning = self.manifest.cleaning
        if cleaning is None:
            raise ValueError(self.manifest.version)
        taken = self.stepper.clean()
        self.last_was_cleanup = True
        cleanup = Cleanup.of(cleaning, taken.effects, self.missing_groups())
        self.history.add_cleanup(step_metrics(self.manifest, taken, self.options, cleanup))


def _over() -> StoppedError:
    return StoppedError(
        "this run of the query has ended",
        why="it was stopped, or a step of it failed, and what that step gave to the sink must be repeated first",
        how="start the query again on the same checkpointLocation",
    )
