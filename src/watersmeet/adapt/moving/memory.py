"""Memory balancing: productive groups move from the fullest site to the emptiest (Lazy/Active 5.1).

1. When ``M_least / M_most < theta_d``, and at least ``span`` epochs have passed since the last time,
2. ``(M_most - M_least) / 2`` bytes go from the one site to the other,
3. of the groups with most results for their bytes, P_output / P_size, first: what moves stays in memory for long.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.pieces import Flags, Ints, Pieces, room_bytes
from watersmeet.adapt.moving.taken import Suggested
from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View

THETA_D = 0.8
"""The papers try 0.5 to 0.9, and find little difference: moves are nearly free."""

SPAN_EPOCHS = 5
"""An epoch stands for a span of arrivals; the papers let 15 to 45 seconds pass."""


@dataclass
class MemoryPolicy:
    """Suggests moves that make sites hold equally much."""

    options: MemoryOptions = field(default_factory=MemoryOptions)
    theta_d: float = THETA_D
    span: int = SPAN_EPOCHS
    name: str = "memory"
    moments: frozenset[Moment] = frozenset({"step"})
    _waited: int | None = None
    _suggested: Suggested = field(default_factory=Suggested)

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A move from the fullest site to the emptiest, if they are far apart and it is time."""
        if view.load is None or view.manifest.sites == 1:
            return
        self._waited = 0 if self._suggested.done(view.manifest) else self._waited
        self._waited = None if self._waited is None else self._waited + 1
        if self._waited is None or self._waited >= self.span:
            yield from self._suggested.remember(self.balanced(Pieces.of(view)))

    def balanced(self, pieces: Pieces, movable: Flags | None = None) -> Iterator[Suggestion]:
        """The move, if there is one, of some pieces or of any."""
        live = pieces.by_site(pieces.live_bytes)
        most, least = int(live.argmax()), int(live.argmin())
        if live[least] >= self.theta_d * live[most]:
            return
        amount = min((live[most] - live[least]) / 2, room_bytes(self.options, live)[least])
        chosen = productive(pieces, most, amount, movable)
        if len(chosen):
            reason = (
                f"site {least} holds {live[least]:.0f} bytes, less than {self.theta_d:g} of the {live[most]:.0f} "
                f"of site {most}"
            )
            yield from pieces.moves(chosen, np.full(len(chosen), least), self.name, reason)


def productive(pieces: Pieces, site: int, amount: float, movable: Flags | None = None) -> Ints:
    """Pieces of a site with so many bytes at most, the most productive first.

    >>> sizes, output = np.array([30.0, 30.0, 50.0, 0.0]), np.array([9.0, 3.0, 99.0, 0.0])
    >>> pieces = Pieces(("join1",), 4, 2, np.zeros(4, np.int64), sizes, np.zeros(4), output)
    >>> productive(pieces, site=0, amount=40).tolist()
    [0]
    """
    here = (pieces.site == site) & pieces.is_free
    wanted = here & (pieces.live_bytes > 0) & (pieces.live_bytes <= amount)
    found = np.flatnonzero(wanted if movable is None else wanted & movable)
    order = found[np.argsort(-pieces.productivity[found], kind="stable")]
    return order[np.cumsum(pieces.live_bytes[order]) <= amount]
