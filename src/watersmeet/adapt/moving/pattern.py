"""Whether the load has another pattern than before: a hot spot has come, gone or wandered.

Counts are exact, so one epoch tells, where clocks need several. An epoch is compared with what is known by the *total
variation* of two distributions of tuples over pieces: the part of all tuples that is elsewhere, ``0.5 sum |p - q|``.
Small counts scatter, and some loads are never twice the same. So the pattern has changed if that is `CLEARLY` times
what is usual, a low quantile of the last epochs, as some of these may have been changes themselves.

Counts have to explain times, or they tell nothing of the load: by the rates that were known before, the same executor
has to be slowest, and by about as much as it was.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.watching import Epoch
from watersmeet.adapt.statistics import Floats

CLEARLY, LEAST = 2.0, 0.1
"""How many times what is usual, and which part of all tuples at least, have to be elsewhere."""

REMEMBERED, LOW = 8, 0.25
"""So many epochs tell what is usual, and which quantile of them."""

NEAR = 0.2
"""By which part of the slowest executor's time counts and times may differ."""


@dataclass
class Pattern:
    """The distances of the last epochs from what was known before each."""

    distances: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def changes(self, known: Floats, epoch: Epoch, ms_per_tuple: Floats) -> bool:
        """Whether an epoch is of another pattern than what was known; its distance is remembered."""
        if known.sum() <= 0 or epoch.tuples.sum() <= 0:
            return False
        seen = ~epoch.parked  # most of what these ask for is put off
        distance, usual = elsewhere(known[seen], epoch.tuples[seen]), self.usual
        self.distances.append(distance)
        return usual is not None and distance > max(CLEARLY * usual, LEAST) and _explains(epoch, ms_per_tuple)

    @property
    def usual(self) -> float | None:
        """Which part of all tuples is usually elsewhere, if that is known."""
        return float(np.quantile(self.distances, LOW)) if self.distances else None


def elsewhere(before: Floats, now: Floats) -> float:
    """The part of all tuples that would have to go elsewhere for the one to be as the other.

    >>> elsewhere(np.array([1.0, 1.0]), np.array([30.0, 10.0]))
    0.25
    """
    total = max(float(before.sum()), 1e-9), max(float(now.sum()), 1e-9)
    return 0.5 * float(np.abs(before / total[0] - now / total[1]).sum())


def _explains(epoch: Epoch, ms_per_tuple: Floats) -> bool:
    """Whether what executors took follows from their counts."""
    expected = _shares(epoch, epoch.done * ms_per_tuple)
    took = _shares(epoch, epoch.busy_ms)
    near = NEAR * took.max()
    return bool(took.max() - took[expected.argmax()] <= near and abs(expected.max() - took.max()) <= near)


def _shares(epoch: Epoch, busy_ms: Floats) -> Floats:
    times: Floats = np.sum([epoch.machines.times(each) for each in busy_ms], axis=0)
    return times / max(float(times.sum()), 1e-9)
