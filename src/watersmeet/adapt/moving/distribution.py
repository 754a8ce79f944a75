"""Where groups live at first (Lazy/Active 3.2): spread evenly, or by weights.

Neighbours are together, so that a run covers few ranges.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.model.ids import SiteId
from watersmeet.state.changes import Reroute
from watersmeet.state.groups import GroupSet


def even(groups: int, sites: int) -> tuple[SiteId, ...]:
    """Each site gets the same number of groups, give or take one.

    >>> even(5, 2)
    (0, 0, 0, 1, 1)
    """
    return tuple(SiteId(group * sites // groups) for group in range(groups))


def weighted(groups: int, weights: Sequence[float]) -> tuple[SiteId, ...]:
    """Each site gets groups in proportion to its weight, give or take one; none where it has none.

    >>> weighted(10, [9, 1])
    (0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
    >>> weighted(4, [0, 1, 1])
    (1, 1, 2, 2)
    """
    ends = np.cumsum(np.asarray(weights, np.float64)) / sum(weights) * groups
    found = np.searchsorted(ends, np.arange(groups) + 0.5, side="right")
    return tuple(SiteId(site) for site in np.minimum(found, len(weights) - 1).tolist())


def spread(groups: int, sites: int, weights: Sequence[float] = ()) -> tuple[SiteId, ...]:
    """By weights, if there is one for every site; else evenly."""
    return weighted(groups, weights) if len(weights) == sites else even(groups, sites)


@dataclass(frozen=True)
class ResizePolicy:
    """Spreads the groups of every operator anew when the number of sites has changed.

    >>> from watersmeet.model.plan import Plan
    >>> from watersmeet.state.manifest import Manifest, OperatorState
    >>> manifest = Manifest("q", Plan((), (), ()), groups=4, sites=2, operators={"join1": OperatorState(even(4, 2))})
    >>> [suggestion] = ResizePolicy(4).suggest(View("start", manifest))
    >>> suggestion.what.routing
    {'join1': (0, 1, 2, 3)}
    """

    sites: int
    weights: tuple[float, ...] = ()
    moments: frozenset[Moment] = frozenset({"start"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """The first distribution, if there is another number of sites."""
        manifest = view.manifest
        if manifest.sites != self.sites:
            routing = dict.fromkeys(manifest.operators, spread(manifest.groups, self.sites, self.weights))
            change = Reroute(routing, self.sites, "the number of sites has changed", manifest.sites)
            yield Suggestion(change, dict.fromkeys(routing, GroupSet.all(manifest.groups)))
