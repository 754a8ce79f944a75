"""Flux's hybrid policy (6.3): memory comes first where anything is on disk, else it is load that counts.

If any group of any site has spilled generations, the memory-constrained policy decides, for what is on disk is late. If
all is in memory, load balancing does, and a group moves only where there is memory for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.adapt.moving.flux import FluxPolicy, balanced
from watersmeet.adapt.moving.flux_memory import levelled
from watersmeet.adapt.moving.pieces import Pieces
from watersmeet.adapt.policy import Suggestion


@dataclass
class FluxHybridPolicy(FluxPolicy):
    """Suggests moves for memory's sake or for load's."""

    name: str = "flux-hybrid"

    def decided(self, pieces: Pieces) -> Iterator[Suggestion]:
        """At most one move for each pair of sites."""
        if pieces.closed_bytes.any():
            return levelled(self, pieces)
        return balanced(self, pieces, self.rounds.utilisation, self.rounds.tuples)
