"""Moves instead of spills: a site that would have to spill although the sites together have room is relieved.

A spill puts results off and has to be cleaned up, a move touches no file. What moves are productive groups, as they
stay in memory for long. If the sites together have no room, it is left to spills.
"""

from collections.abc import Iterator

import numpy as np

from watersmeet.adapt.moving.memory import productive
from watersmeet.adapt.moving.pieces import Flags, Pieces
from watersmeet.adapt.policy import MemoryOptions, Suggestion


def relieved(pieces: Pieces, options: MemoryOptions, movable: Flags, policy: str) -> Iterator[Suggestion]:
    """Bring sites that exceed the budget down to the mean, if all can be."""
    budget = options.limit_bytes
    live = pieces.by_site(pieces.live_bytes)
    mean = float(live.mean())
    if budget is None or live.max() <= budget or mean > budget * (1 - options.fraction / 2):
        return
    site, chosen = pieces.site.copy(), np.zeros(0, np.int64)
    unspilled = (pieces.closed_bytes == 0) & pieces.is_whole & movable
    for _ in range(2 * pieces.sites):
        most, least = int(live.argmax()), int(live.argmin())
        amount = min(live[most] - mean, mean - live[least])
        some = productive(pieces, most, amount, unspilled & (site == pieces.site))
        if live[most] <= budget or not len(some):
            break
        moved = pieces.live_bytes[some].sum()
        live[most], live[least], site[some] = live[most] - moved, live[least] + moved, least
        chosen = np.concatenate([chosen, some])
    if len(chosen) and live.max() <= budget:
        reason = f"a site exceeds memoryBudget {budget}, and the mean of all holds {mean:.0f} bytes: no spill needed"
        yield from pieces.moves(chosen, site[chosen], policy, reason)
