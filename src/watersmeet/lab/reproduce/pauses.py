"""Input that comes in bursts with pauses between them, and the results that have come by the end of each."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.api.query import Query
from watersmeet.lab.reproduce.record import Fingerprint

LOOK_EVERY_S = 0.2
PATIENCE_S = 300.0


@dataclass(frozen=True)
class Burst:
    """How many results there were when a burst had been taken in, and at the end of the pause that followed."""

    taken_in: int
    pause_over: int


@dataclass(frozen=True)
class Paused:
    """A run with pauses; ``total`` are all its results, after the cleanup at the end."""

    bursts: tuple[Burst, ...]
    total: int
    fingerprint: Fingerprint

    @property
    def in_pauses(self) -> int:
        """The results that came while there was no input."""
        return sum(burst.pause_over - burst.taken_in for burst in self.bursts)


@dataclass(frozen=True)
class Pauses:
    """So many bursts of as many epochs, with pauses of so many seconds."""

    bursts: int
    pause_s: float

    def burst(self, query: Query, epochs: int) -> Burst:
        """Wait until a number of epochs is taken in, and for the pause after them."""
        deadline = time.monotonic() + PATIENCE_S
        while sum(1 for _ in _epochs(query)) < epochs:
            if time.monotonic() > deadline or not query.isActive:
                raise TimeoutError(f"{epochs} epochs were not taken in within {PATIENCE_S:g} s")
            time.sleep(LOOK_EVERY_S)
        taken_in = results_so_far(query)
        time.sleep(self.pause_s)
        return Burst(taken_in, results_so_far(query))


def results_so_far(query: Query) -> int:
    """All results that a query of one operator has given, in epochs and in cleanups."""
    return sum(each["cleanup"]["results"] if "cleanup" in each else each["rowsOut"] for each in _metrics(query))


def _epochs(query: Query) -> Iterator[Mapping[str, Any]]:
    return (each for each in _metrics(query) if "cleanup" not in each)


def _metrics(query: Query) -> Iterator[Mapping[str, Any]]:
    return (report["customMetrics"] for report in query.recentProgress if "idle" not in report["customMetrics"])
