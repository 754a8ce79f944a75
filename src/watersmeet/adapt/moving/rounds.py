"""Rounds of Flux (5.3): statistics are collected for a while, then at most one group moves for every pair of sites.

- Sites are ranked, and paired from the ends: the one with most to do or to hold, the *donor*, with the one with least,
  the *receiver*; and so on towards the middle, until a pair fails the threshold test.
- A round's moves take effect together with the next version. The *move phase* is the epoch after that, in which the
  receivers open what they were given; its duration is how long the next collection phase lasts at least. So even if
  all decisions are poor, no more than half the time is spent on them.
- Where nothing moved, the next phase is half as long. It never is shorter than ``delta_min``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.pieces import Ints, Pieces
from watersmeet.adapt.statistics import Floats

DELTA_MIN_MS = 250.0
"""The paper's figure 8: shorter phases thrash; from here on moves beat a static distribution."""

TH_IMB, TH_UTIL = 1.2, 0.9
"""The paper's: donors have so many times the utilisation of receivers, and receivers are not busier than this."""


@dataclass
class Rounds:
    """Where a policy is in its round, and what it has collected; idle times and tuples are sums."""

    delta_min_ms: float = DELTA_MIN_MS
    delta_ms: float = 0.0
    collected_ms: float = 0.0
    idle_ms: Floats = field(default_factory=lambda: np.zeros(0))
    tuples: Floats = field(default_factory=lambda: np.zeros(0))
    is_moving: bool = False

    def collect(self, pieces: Pieces, load: EpochLoad) -> bool:
        """Take in an epoch; whether the collection phase is over.

        >>> nothing = np.zeros(2)
        >>> pieces = Pieces(("join1",), 2, 2, np.array([0, 1]), nothing, nothing, nothing)
        >>> load, rounds = EpochLoad(100.0, np.array([[90.0, 10.0]]), {}, (), {}), Rounds()
        >>> [rounds.collect(pieces, load) for _ in range(3)], rounds.utilisation.round(3).tolist()
        ([False, False, True], [0.9, 0.1])
        """
        if len(self.idle_ms) != pieces.sites or len(self.tuples) != len(pieces.site):
            self._begin(pieces)
        if self.is_moving:
            self.delta_ms, self.is_moving = max(load.duration_ms, self.delta_min_ms), False
            return False
        self.collected_ms += load.duration_ms
        self.idle_ms = self.idle_ms + load.duration_ms * (1.0 - load.utilisation)
        self.tuples = self.tuples + pieces.by_piece(load.tuples)
        return self.collected_ms >= max(self.delta_ms, self.delta_min_ms)

    def finish(self, pieces: Pieces, *, has_moved: bool) -> None:
        """End a round."""
        self.is_moving = has_moved
        self.delta_ms = self.delta_ms if has_moved else max(self.delta_ms / 2, self.delta_min_ms)
        self._begin(pieces)

    @property
    def utilisation(self) -> Floats:
        """U of every site, 1 - idle / delta."""
        return 1.0 - self.idle_ms / max(self.collected_ms, 1e-9)

    def _begin(self, pieces: Pieces) -> None:
        self.collected_ms, self.idle_ms, self.tuples = 0.0, np.zeros(pieces.sites), np.zeros(len(pieces.site))


def pairs(ranks: Floats) -> Iterator[tuple[int, int]]:
    """Donors and receivers, from the ends towards the middle.

    >>> list(pairs(np.array([5.0, 9.0, 1.0, 7.0])))
    [(1, 2), (3, 0)]
    """
    order = np.argsort(-ranks, kind="stable").tolist()
    yield from zip(order[: len(order) // 2], reversed(order), strict=False)


def first_that_levels(pieces: Ints, donor: Floats, receiver: Floats, gap: float) -> int | None:
    """The first piece after whose move the two sites are less far apart; ``donor`` and ``receiver`` are what they have.

    >>> first_that_levels(np.array([7, 8]), np.array([0.1, 0.5]), np.array([0.9, 0.6]), gap=0.6)
    8
    """
    found = np.flatnonzero(np.abs(donor - receiver) < gap)
    return int(pieces[found[0]]) if len(found) else None
