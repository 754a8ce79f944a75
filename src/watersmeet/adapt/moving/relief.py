"""Moves instead of spills: a site that would have to spill although the sites together have room is relieved.

A spill puts results off and has to be cleaned up, a move touches no file. What moves are productive groups, as they
stay in memory for long, until all sites are equally full. If the sites together have no room, it is left to spills.

Where sites tell how much memory each has, as Flux's do, what they have on disk comes back as soon as there is room: it
counts as held, and room is made for it. What was announced to a site counts as held there, too: it will be.
"""

from collections.abc import Iterator

import numpy as np

from watersmeet.adapt.moving.memory import productive
from watersmeet.adapt.moving.pieces import Flags, Pieces, allowed_bytes
from watersmeet.adapt.policy import MemoryOptions, Suggestion, View


def relieved(view: View, pieces: Pieces, options: MemoryOptions, movable: Flags, policy: str) -> Iterator[Suggestion]:
    """Bring sites that hold more than they may down to the mean, if all can be."""
    memory_bytes = None if view.load is None else view.load.memory_bytes
    allowed = np.maximum(allowed_bytes(options, pieces.sites, memory_bytes), 1.0)
    held = pieces.by_site(pieces.live_bytes if memory_bytes is None else pieces.live_bytes + pieces.closed_bytes)
    for each in view.manifest.announced:
        held[each.after] += each.bytes
    level = float(held.sum() / allowed.sum())
    if (held <= allowed).all() or level > 1 - options.fraction / 2:
        return
    site, chosen = pieces.site.copy(), np.zeros(0, np.int64)
    unspilled = (pieces.closed_bytes == 0) & pieces.is_whole & movable
    first, most_held = int((held / allowed).argmax()), float((held / allowed).max())
    for _ in range(2 * pieces.sites):
        most, least = int((held / allowed).argmax()), int((held / allowed).argmin())
        amount = min(held[most] - level * allowed[most], level * allowed[least] - held[least])
        some = productive(pieces, most, amount, unspilled & (site == pieces.site))
        if held[most] <= allowed[most] or not len(some):
            break
        moved = pieces.live_bytes[some].sum()
        held[most], held[least], site[some] = held[most] - moved, held[least] + moved, least
        chosen = np.concatenate([chosen, some])
    if len(chosen) and (held <= allowed).all():
        limit = "its memory of" if options.limit_bytes is None else "memoryBudget"
        reason = (
            f"site {first} exceeds {limit} {allowed[first]:.0f} by {most_held - 1:.0%}, and {level:.0%} of all that "
            "sites may hold is used: no spill needed"
        )
        yield from pieces.moves(chosen, site[chosen], policy, reason)
