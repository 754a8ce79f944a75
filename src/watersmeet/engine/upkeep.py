"""Cleanup beside the epochs: at the end, when asked for, and when input pauses (features S9 and S10).

Each is a sequence of steps of the epoch loop, which takes turns with the batches Spark hands over. While the query
runs, steps are small, so that no batch waits long; and they are taken only when no input is there to be joined.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.engine.epoch import EpochLoop
from watersmeet.model.errors import StoppedError
from watersmeet.model.plan import Plan

LOOK_EVERY_S = 0.2
IDLE_AFTER_S = 1.0


@dataclass
class Upkeep:
    """The cleanup of one run of a query."""

    plan: Plan
    loop: EpochLoop
    query: StreamingQuery
    ended: threading.Event

    def at_end(self) -> None:
        """All that is missing, bottom-up; then leave as much of the state live for the next run as there is room."""
        if not self.loop.has_all_batches():  # Spark was told to stop, and not through us
            return
        for operators in self.plan.levels:
            while self.loop.clean(operators, at_end=True):
                pass
        self.loop.revive()

    def on_demand(self) -> None:
        """All that is missing now, bottom-up, while the query goes on."""
        while not (self.ended.is_set() or self.loop.may_clean()):
            self.ended.wait(LOOK_EVERY_S)
        if self.ended.is_set() and not self.loop.missing_groups():
            return
        for operators in self.plan.levels:
            closed_by = self.loop.manifest.version
            self._refuse_stopped()
            while self.loop.clean(operators, closed_by=closed_by):
                self._refuse_stopped()
            if self.loop.missing_groups():  # of those spilled since, or of all, if it was stopped just now
                self._refuse_stopped()
        self.loop.revive()

    def when_idle(self, failed: Callable[[Exception], None]) -> None:
        """Clean whenever no input comes, until the query ends; ``failed`` is told what a step failed with."""
        while not (self.ended.wait(LOOK_EVERY_S) or self.loop.stopping.is_set()):
            try:
                while self._is_idle() and self.loop.clean(self.plan.operators):
                    pass
            except StoppedError:  # it ended while this waited for its turn; a step that failed is told by itself
                return
            except Exception as error:  # noqa: BLE001 -- it ends the query, as a failed epoch does
                failed(error)
                return

    def _is_idle(self) -> bool:
        rested = time.monotonic() - self.loop.last_end_s >= IDLE_AFTER_S or self.loop.last_was_cleaning
        if self.loop.stopping.is_set() or self.ended.is_set() or not rested:
            return False
        status = self.query.status
        return not status["isTriggerActive"] and not status["isDataAvailable"] and self.loop.may_clean()

    def _refuse_stopped(self) -> None:
        if self.ended.is_set() or self.loop.stopping.is_set():
            raise StoppedError(
                "the query was stopped before its cleanup was complete",
                why="results are still missing",
                how="start it again on the same checkpointLocation, and call cleanup() or use availableNow",
            )
