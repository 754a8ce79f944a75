"""Flux's memory-constrained policy (6.1): sites that are short of memory give groups to those that are not.

Rounds and pairs are those of load balancing. Instead of utilisation, sites are ranked by what they hold, on disk too,
above what they may: ``total_state_size - mem_avail``; ``th_imb`` is about their ratio. The donor's groups are gone
through by size, the largest first, those in memory before those with spilled generations; the first moves that brings
the two sites closer together. A receiver may be as busy as it likes: where all memory is used up, the number of groups
on disk is balanced.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.moving.flux import FluxPolicy
from watersmeet.adapt.moving.pieces import Pieces, allowed_bytes, room_bytes
from watersmeet.adapt.moving.rounds import first_that_levels, pairs
from watersmeet.adapt.policy import Suggestion


@dataclass
class FluxMemoryPolicy(FluxPolicy):
    """Suggests moves that make sites hold equally much, in memory and on disk."""

    name: str = "flux-memory"

    def decided(self, pieces: Pieces) -> Iterator[Suggestion]:
        """At most one move for each pair of sites."""
        return levelled(self, pieces)


def levelled(policy: FluxPolicy, pieces: Pieces) -> Iterator[Suggestion]:
    """The moves that level excess capacity."""
    sizes = pieces.live_bytes + pieces.closed_bytes
    held, live = pieces.by_site(sizes), pieces.by_site(pieces.live_bytes)
    room = room_bytes(policy.options, live, policy.memory_bytes)
    allowed = allowed_bytes(policy.options, pieces.sites, policy.memory_bytes)
    excess, pressure = (held - allowed, held / np.maximum(allowed, 1.0)) if np.isfinite(allowed).all() else (held, held)
    for donor, receiver in pairs(excess):
        if excess[donor] < excess.mean() or pressure[donor] < policy.th_imb * pressure[receiver]:
            return
        here = (pieces.site == donor) & pieces.is_free
        found = np.flatnonzero(here & (sizes > 0) & (pieces.live_bytes <= room[receiver]))
        found = found[np.lexsort((-sizes[found], pieces.closed_bytes[found] > 0))]
        left, come = excess[donor] - sizes[found], excess[receiver] + sizes[found]
        chosen = first_that_levels(found, left, come, excess[donor] - excess[receiver])
        if chosen is not None:
            amounts = f"{held[donor]:.0f} bytes in memory and on disk, site {receiver} {held[receiver]:.0f}"
            reason = f"site {donor} holds {amounts}"
            yield from pieces.moves(np.array([chosen]), [receiver], policy.name, reason)
