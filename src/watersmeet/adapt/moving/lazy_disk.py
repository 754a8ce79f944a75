"""Lazy-disk: memory is balanced as long as any site has room, and what is too much even so is spilled (Lazy/Active 6).

Two decisions that know nothing of each other (figure 18): sites are balanced as `memory` does, and a site whose live
state exceeds the budget spills, as with every policy. Two rules keep them apart:

1. Never both at one site at once. A move is decided first, and a site that is within its budget thanks to it does not
   spill; one that would have to spill even so does that, and nothing moves away from it in that epoch.
2. What has been spilled is not moved: groups that have closed generations stay where they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.moving.memory import MemoryPolicy
from watersmeet.adapt.moving.pieces import Flags, Pieces
from watersmeet.adapt.policy import Suggestion
from watersmeet.state.changes import MoveGroups


@dataclass
class LazyDiskPolicy(MemoryPolicy):
    """Suggests moves that put off spills."""

    name: str = "lazy-disk"

    def balanced(self, pieces: Pieces, movable: Flags | None = None) -> Iterator[Suggestion]:
        """The move of memory balancing, where the sender need not spill as well."""
        unspilled = pieces.closed_bytes == 0
        found = list(super().balanced(pieces, unspilled if movable is None else movable & unspilled))
        if found and not self._spills_even_so(pieces, found):
            yield from found

    def _spills_even_so(self, pieces: Pieces, found: list[Suggestion]) -> bool:
        budget, live = self.options.limit_bytes, pieces.by_site(pieces.live_bytes)
        for each in found:
            if isinstance(each.what, MoveGroups):
                live[each.what.before] -= each.what.bytes
        senders = {each.what.before for each in found if isinstance(each.what, MoveGroups)}
        return budget is not None and bool(np.any(live[list(senders)] > budget))
