"""What has to leave memory is chosen among all sites, and not by each for itself.

Where one site has to spill and another holds groups that yield less, the wrong ones would go. Active-disk (Lazy/Active
6) pushes groups of the site that yields least now and then, by a threshold, so that memory balancing may bring better
ones. Here it is one decision, made when something has to go anyway:

1. What is *due* are the bytes that the sites above their limit would spill (`bytes_to_free`).
2. The spill strategy chooses as many among the groups of all sites, and, for comparison, at each of these for itself.
3. If what goes had clearly more results in the second case, the first is done: groups of least worth are spilled where
   they are, and productive ones of sites that are too full move to where more was freed than was due.

It is left to ordinary spills if that would bring any site above its limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from watersmeet.adapt.moving.memory import productive
from watersmeet.adapt.moving.pieces import Flags, Ints, Pieces
from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.adapt.spilling.candidates import bytes_to_free
from watersmeet.adapt.spilling.lasting import Lasting
from watersmeet.adapt.spilling.policy import busy_groups, disposable_bytes, least_worthy
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import SiteId
from watersmeet.state.changes import SpillGroups
from watersmeet.state.groups import GroupSet

CLEARLY = 1.1
"""So many times the results: what is alike is not moved about."""


@dataclass
class ExchangePolicy:
    """Suggests spills at sites that yield least, and moves of better groups to these."""

    options: MemoryOptions = field(default_factory=MemoryOptions)
    name: str = "auto"
    lasting: Lasting = field(default_factory=Lasting)
    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """An exchange, if a spill is due and it makes a difference where."""
        limit, load, manifest = self.options.limit_bytes, view.load, view.manifest
        if limit is None or load is None or manifest.sites == 1 or not load.is_shared:
            return
        self.lasting.see(manifest)
        sizes = np.concatenate([disposable_bytes(manifest, name) for name in manifest.operators])
        pieces = replace(Pieces.of(view), live_bytes=sizes)
        due = due_bytes(pieces.by_site(sizes), limit, self.options.fraction)
        if due.any():
            yield from self._exchanged(view, pieces, due, limit)

    def _exchanged(self, view: View, pieces: Pieces, due: Floats, limit: int) -> Iterator[Suggestion]:
        free = ~np.concatenate([busy_groups(view, name) for name in pieces.operators])
        least = self._least(view, pieces, free & pieces.is_whole, float(due.sum()))
        over = [(free & (pieces.site == site), due[site]) for site in np.flatnonzero(due).tolist()]
        alone = [self._least(view, pieces, among, amount) for among, amount in over]
        lost, saved = (float(pieces.output[some].sum()) for some in (np.any(alone, axis=0), least))
        if lost <= CLEARLY * saved:
            return
        site = _placed(pieces, least, due, free & ~least & pieces.is_whole & (pieces.closed_bytes == 0))
        moved = np.flatnonzero(site != pieces.site)
        after = np.bincount(site, np.where(least, 0.0, pieces.live_bytes), minlength=pieces.sites)
        if len(moved) and after.max() <= limit:
            why = f"of the groups of all sites, those that go had {saved:.0f} results; by each site alone, {lost:.0f}"
            yield from self._spills(pieces, least, f"sites exceed memoryBudget {limit}: {why}")
            yield from pieces.moves(moved, site[moved], self.name, f"groups that yield less made room: {why}")

    def _least(self, view: View, pieces: Pieces, among: Flags, amount: float) -> Flags:
        """The pieces of least worth that have so many bytes together."""
        sizes = np.where(among, pieces.live_bytes, 0.0).reshape(-1, pieces.groups)
        here = dict(zip(pieces.operators, sizes, strict=True))
        chosen = least_worthy(view, here, amount, self.options, self.lasting.epochs(view.manifest))
        return np.concatenate([chosen.get(name, GroupSet()).mask(pieces.groups) for name in pieces.operators])

    def _spills(self, pieces: Pieces, chosen: Flags, reason: str) -> Iterator[Suggestion]:
        live = pieces.by_site(pieces.live_bytes)
        for site in sorted(set(pieces.site[chosen].tolist())):
            here = (chosen & (pieces.site == site)).reshape(-1, pieces.groups)
            found = {name: GroupSet.within(mask) for name, mask in zip(pieces.operators, here, strict=True)}
            groups = {name: some for name, some in found.items() if some}
            freed = int(pieces.live_bytes[here.ravel()].sum())
            change = SpillGroups(SiteId(site), groups, self.options.strategy, int(live[site]), freed, reason)
            yield Suggestion(change, groups)


def due_bytes(live: Floats, limit: float, fraction: float) -> Floats:
    """What every site has to spill.

    >>> due_bytes(np.array([110.0, 90.0]), limit=100, fraction=0.3).tolist()
    [33.0, 0.0]
    """
    return np.array([bytes_to_free(each, limit, fraction) if each > limit else 0.0 for each in live.tolist()])


def _placed(pieces: Pieces, spilled: Flags, due: Floats, movable: Flags) -> Ints:
    """Where pieces are once those of sites that freed too little have gone to those that freed more than was due."""
    spare = pieces.by_site(np.where(spilled, pieces.live_bytes, 0.0)) - due
    site = pieces.site.copy()
    for donor in np.flatnonzero((spare < 0) & (due > 0)).tolist():
        for receiver in np.argsort(-spare).tolist():
            amount = min(-spare[donor], spare[receiver])
            if amount > 0:
                some = productive(pieces, donor, amount, movable & (site == pieces.site))
                moved = pieces.live_bytes[some].sum()
                site[some], spare[donor], spare[receiver] = receiver, spare[donor] + moved, spare[receiver] - moved
    return site
