"""Active-disk: a site that yields little spills before it has to, so that better groups may come (Lazy/Active 6).

As lazy-disk, and besides (figure 19): where memory is balanced, the output rates of sites are compared, results of the
time since the last look for each group of a site. If ``rate_most / rate_least > theta_f``, the site of the least is
told to spill its groups of least worth. Then it has room, and memory balancing brings it productive groups of others.

A spill that was not needed is a loss. All that is forced out together is at most ``M_query - M_cluster``: what the
state has above the budgets of all sites, so that it would have had to be spilled somewhere. How much that was so far,
in earlier runs of the query as well, the manifest knows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.lazy_disk import LazyDiskPolicy
from watersmeet.adapt.moving.memory import SPAN_EPOCHS
from watersmeet.adapt.moving.pieces import Pieces
from watersmeet.adapt.policy import Suggestion, View
from watersmeet.adapt.spilling.policy import least_worthy
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import SiteId
from watersmeet.state.changes import SpillGroups

THETA_F = 2.0
"""So many times the results for a group is much; the papers leave it open."""


@dataclass
class ActiveDiskPolicy(LazyDiskPolicy):
    """Suggests moves as lazy-disk does, and spills at the site that yields least."""

    name: str = "active-disk"
    theta_f: float = THETA_F
    sample: int = SPAN_EPOCHS
    _results: Floats = field(default_factory=lambda: np.zeros(0))
    _sampled: int = 0

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A move if memory is uneven, else a spill if output is."""
        moves = list(super().suggest(view))
        yield from moves
        if view.load is None or view.manifest.sites == 1 or self.options.limit_bytes is None:
            return
        pieces = Pieces.of(view)
        results = pieces.by_piece(view.load.results)
        self._results = results if len(self._results) != len(results) else self._results + results
        self._sampled += 1
        if self._sampled >= self.sample:
            rates = self._rates(pieces)
            self._results, self._sampled = np.zeros(len(results)), 0
            if not moves and not self._is_uneven(pieces):
                yield from self._forced(view, pieces, rates)

    def _is_uneven(self, pieces: Pieces) -> bool:
        live = pieces.by_site(pieces.live_bytes)
        return bool(live.min() < self.theta_d * live.max())

    def _rates(self, pieces: Pieces) -> Floats:
        """The results of each site for each of its groups that hold anything."""
        groups = pieces.by_site((pieces.live_bytes > 0).astype(np.float64))
        return pieces.by_site(self._results) / np.maximum(groups, 1.0)

    def _forced(self, view: View, pieces: Pieces, rates: Floats) -> Iterator[Suggestion]:
        budget, live = self.options.limit_bytes or 0, pieces.by_site(pieces.live_bytes)
        most, least = int(rates.argmax()), int(rates.argmin())
        above = float((pieces.live_bytes + pieces.closed_bytes).sum()) - budget * pieces.sites
        allowed = above - view.manifest.forced_bytes
        amount = min(self.options.fraction * live[least], allowed)
        if rates[most] <= self.theta_f * rates[least] or amount <= 0 or live[least] > budget:
            return
        reason = (
            f"site {least} yields {rates[least]:.1f} results for a group, site {most} {rates[most]:.1f}, more than "
            f"{self.theta_f:g} times as many; room for better groups"
        )
        change = self._spill(view, pieces, least, amount, reason)
        if change.groups and change.spilled_bytes <= allowed:
            yield Suggestion(change, change.groups)

    def _spill(self, view: View, pieces: Pieces, site: int, amount: float, reason: str) -> SpillGroups:
        """The groups of least worth that have so many bytes together, or a little more."""
        sizes = np.where((pieces.site == site) & pieces.is_free, pieces.live_bytes, 0.0)
        here = dict(zip(pieces.operators, sizes.reshape(-1, pieces.groups), strict=True))
        groups = least_worthy(view, here, amount, self.options)
        live = pieces.live_bytes[pieces.site == site].sum()
        freed = sum(float(here[name][some.numbers].sum()) for name, some in groups.items())
        return SpillGroups(SiteId(site), groups, self.options.strategy, int(live), int(freed), reason, is_forced=True)
