"""Flux's load balancing (5.3): busy sites give groups to idle ones, at most one for a pair in a round.

Of a pair of sites with utilisations U_d and U_r nothing moves if

- ``U_d < mean(U)``: the donor is no donor, or
- ``U_d / U_r < th_imb``: it is not worth it, or
- ``U_r > th_util``: the receiver has enough to do.

Else the donor's groups are gone through, those with most tuples N_p first. The first moves that brings the two closer:
``U_d' = U_d (1 - N_p / T_d)`` and ``U_r' = U_r (1 + N_p / T_r)``, where T are the tuples of the whole site, provided
that ``U_r' <= 1``. A receiver that has had nothing to do at all is taken to work as fast as the donor.

The paper's assumption that memory is ample is checked: no site is given what it would have to spill.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.pieces import Flags, Pieces, room_bytes
from watersmeet.adapt.moving.rounds import TH_IMB, TH_UTIL, Rounds, first_that_levels, pairs
from watersmeet.adapt.moving.taken import Suggested
from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.adapt.statistics import Floats


@dataclass
class FluxPolicy:
    """Suggests moves that make sites equally busy."""

    options: MemoryOptions = field(default_factory=MemoryOptions)
    rounds: Rounds = field(default_factory=Rounds)
    th_imb: float = TH_IMB
    th_util: float = TH_UTIL
    name: str = "flux"
    memory_bytes: Floats | None = None
    _suggested: Suggested = field(default_factory=Suggested)
    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """The moves of a round, when its collection phase is over."""
        if view.load is None or view.manifest.sites == 1:
            return
        pieces, self.memory_bytes = Pieces.of(view), view.load.memory_bytes
        if self._suggested.has_any:
            self.rounds.finish(pieces, has_moved=bool(self._suggested.done(view.manifest)))
        if self.rounds.collect(pieces, view.load):
            found = self._suggested.remember(self.decided(pieces))
            if not found:
                self.rounds.finish(pieces, has_moved=False)
            yield from found

    def decided(self, pieces: Pieces) -> Iterator[Suggestion]:
        """At most one move for each pair of sites."""
        return balanced(self, pieces, self.rounds.utilisation, self.rounds.tuples)


def balanced(policy: FluxPolicy, pieces: Pieces, used: Floats, tuples: Floats) -> Iterator[Suggestion]:
    """The moves that level utilisation."""
    done = pieces.by_site(tuples)
    room = room_bytes(policy.options, pieces.by_site(pieces.live_bytes), policy.memory_bytes)
    for donor, receiver in pairs(used):
        if fails(policy, used, donor, receiver) or done[donor] <= 0:
            return
        here = (pieces.site == donor) & pieces.is_free
        found = np.flatnonzero(here & (tuples > 0) & (pieces.live_bytes <= room[receiver]))
        found = found[np.argsort(-tuples[found], kind="stable")]
        left = used[donor] * (1 - tuples[found] / done[donor])
        per_tuple = used[receiver] / done[receiver] if done[receiver] > 0 else used[donor] / done[donor]
        come = used[receiver] + per_tuple * tuples[found]
        fits: Flags = come <= 1.0
        chosen = first_that_levels(found[fits], left[fits], come[fits], used[donor] - used[receiver])
        if chosen is not None:
            reason = (
                f"site {donor} was busy for {used[donor]:.0%} of the time, site {receiver} for {used[receiver]:.0%}"
            )
            yield from pieces.moves(np.array([chosen]), [receiver], policy.name, reason)


def fails(policy: FluxPolicy, used: Floats, donor: int, receiver: int) -> bool:
    """The threshold test."""
    is_level = used[donor] < policy.th_imb * used[receiver]
    return bool(used[donor] < used.mean() or is_level or used[receiver] > policy.th_util)
