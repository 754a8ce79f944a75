"""Cleanup between epochs: at the end, on request, and when input pauses.

Each is a sequence of steps of the loop, which takes turns with the batches that are handed over. While the query runs,
steps are small, so that no batch waits long; and they are taken only when no input is there to be joined.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic

from watersmeet.driver.loop import Loop
from watersmeet.driver.ports import Batch
from watersmeet.model.errors import StoppedError
from watersmeet.model.ids import OperatorId

LOOK_EVERY_S = 0.2


@dataclass
class Upkeep(Generic[Batch]):
    """The cleanup of one run of a query; ``input_rests`` returns whether no batch is waiting or running.

    If it ``ends_input``, all streams end once all available input has been consumed. Input pauses if none has arrived
    for ``rests_after`` seconds.
    """

    loop: Loop[Batch]
    input_rests: Callable[[], bool]
    ended: threading.Event
    ends_input: bool = False
    rests_after: Callable[[], float] = lambda: 1.0

    def at_end(self) -> None:
        """Produce all missing results, bottom-up; then make as much state live for the next run as fits the budget."""
        if not self.loop.stepper.checkpoint.has_all_batches:  # it was told to stop, and not through us
            return
        self._clean_all()
        if self.ends_input:  # what was missing is there, and nothing comes any more
            self.loop.end_input()
        self.final()
        while self.loop.missing_groups() and not self.loop.stopping.is_set():
            self._clean_all()  # rows that came alone have reached groups above that were spilled
            self.final()
        self.loop.revive()

    def _clean_all(self) -> None:
        for operators in self._levels():
            while self.loop.clean("end", operators):
                pass

    def final(self) -> None:
        """Emit rows that are due, and that no epoch would emit."""
        while self.loop.clean("final"):
            pass

    def drain(self) -> None:
        """Produce the missing results of parked groups, as a caller waits for them."""
        while not self.ended.is_set() and self.loop.may_clean() and self.loop.clean("drain"):
            pass

    def on_demand(self) -> None:
        """Produce all results missing now, bottom-up, while the query continues."""
        while not (self.ended.is_set() or self.loop.may_clean()):
            self.ended.wait(LOOK_EVERY_S)
        if self.ended.is_set() and not self.loop.missing_groups():
            return
        for operators in self._levels():
            closed_by = self.loop.manifest.version
            self._refuse_stopped()
            while self.loop.clean("asked", operators, closed_by):
                self._refuse_stopped()
            if self.loop.missing_groups():  # of those spilled since, or of all, if it was stopped just now
                self._refuse_stopped()
        self.loop.revive()

    def when_idle(self, failed: Callable[[Exception], None]) -> None:
        """Clean whenever input pauses, until the query ends; ``failed`` gets the exception of a failed step."""
        while not (self.ended.wait(LOOK_EVERY_S) or self.loop.stopping.is_set()):
            try:
                while self._is_idle() and (self.loop.clean("drain") or self.loop.clean("idle")):
                    pass
            except StoppedError:  # it ended while this waited for its turn; a step that failed is told by itself
                return
            except Exception as error:  # noqa: BLE001 -- it ends the query, as a failed epoch does
                if not self.loop.stopping.is_set():  # else it was cut off, and will be repeated
                    failed(error)
                return

    def _levels(self) -> Iterator[tuple[OperatorId, ...]]:
        """The operators of each level of the current plan, lowest first."""
        for level in range(self.loop.manifest.plan.root.level + 1):
            yield tuple(operator.id for operator in self.loop.manifest.plan.levels[level])

    def _is_idle(self) -> bool:
        rested = time.monotonic() - self.loop.last_end_s >= self.rests_after() or self.loop.last_was_cleanup
        if self.loop.stopping.is_set() or self.ended.is_set() or not rested:
            return False
        return self.input_rests() and self.loop.may_clean()

    def _refuse_stopped(self) -> None:
        if self.ended.is_set() or self.loop.stopping.is_set():
            raise self.stopped()

    def stopped(self) -> StoppedError:
        """The error for a caller waiting for an interrupted cleanup."""
        return StoppedError(
            "the query was stopped before its cleanup was complete",
            why="results are still missing",
            how="start it again on the same checkpointLocation, and call cleanup() or use availableNow",
        )
