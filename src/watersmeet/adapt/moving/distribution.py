"""Where groups live at first (Lazy/Active 3.2): spread evenly, or by weights.

Neighbours are together, so that a run covers few ranges. If the number of sites changes between two runs, all groups
are spread again; if it changes while the query runs, as executors come and go, as few of them move as can.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.load import Executors
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


def resized(routing: Sequence[SiteId], before: int, sites: int) -> tuple[SiteId, ...]:
    """The same groups on more or fewer sites: new ones get their share of the sites that have most, no others move.

    Groups of sites that are gone are dealt out to those that have fewest.

    >>> resized((0, 0, 0, 0, 1, 1), 2, 3)
    (0, 0, 2, 2, 1, 1)
    >>> resized((0, 0, 0, 1, 2, 2), 3, 2)
    (0, 0, 0, 1, 1, 1)
    """
    table = list(routing)
    held: dict[int, list[int]] = {site: [] for site in range(max(sites, before))}
    for group, own in enumerate(table):
        held[own].append(group)
    homeless = [group for site in range(sites, before) for group in held.pop(site)]
    fewest = [(len(held[site]), site) for site in range(sites)]
    heapq.heapify(fewest)
    for group in homeless:
        count, least = heapq.heappop(fewest)
        table[group] = SiteId(least)
        heapq.heappush(fewest, (count + 1, least))
    most = [(-len(held[site]), site) for site in range(min(sites, before))]
    heapq.heapify(most)
    for new in range(before, sites):
        for _ in range(len(table) // sites):
            count, donor = heapq.heappop(most)
            table[held[donor].pop()] = SiteId(new)
            heapq.heappush(most, (count + 1, donor))
    return tuple(table)


SETTLED, SETTLED_MOST = 3, 96
"""So many epochs another number of tasks has to be possible before there are as many sites: an executor that is lost is
often replaced at once. After each change it is twice as many, and after twice as long without one half as many."""


@dataclass
class ResizePolicy:
    """Spreads groups over another number of sites: the one that a run is started with, or follows.

    If it ``follows``, there are as many sites as tasks that can run at once, once that number has settled. A run begins
    with as many as there were, or more: not all executors may be there yet.

    >>> from watersmeet.model.plan import Plan
    >>> from watersmeet.state.manifest import Manifest, OperatorState
    >>> manifest = Manifest("q", Plan((), (), ()), groups=4, sites=2, operators={"join1": OperatorState(even(4, 2))})
    >>> [suggestion] = ResizePolicy(4).suggest(View("start", manifest))
    >>> suggestion.what.routing
    {'join1': (0, 1, 2, 3)}
    """

    sites: int
    weights: tuple[float, ...] = ()
    follows: bool = False
    moments: frozenset[Moment] = frozenset({"start", "step"})
    _slots: int = 0
    _epochs: int = 0
    _wanted: int = field(default_factory=lambda: SETTLED)
    _before: int = 0

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Another distribution, if there is another number of sites; in a step, if it was refused at the start."""
        manifest = view.manifest
        if self._is_told(view):
            routing = dict.fromkeys(manifest.operators, spread(manifest.groups, self.sites, self.weights))
            change = Reroute(routing, self.sites, "the number of sites has changed", manifest.sites)
            yield Suggestion(change, dict.fromkeys(routing, GroupSet.all(manifest.groups)))
        elif view.moment == "step" and self.follows and self._has_settled(view.executors, manifest.sites):
            tables = {name: state.routing for name, state in manifest.operators.items()}
            routing = {name: resized(table, manifest.sites, self._slots) for name, table in tables.items()}
            touched = {name: _moved(table, routing[name]) for name, table in tables.items()}
            reason = f"{self._slots} tasks can run at once, for {self._epochs} epochs now"
            yield Suggestion(Reroute(routing, self._slots, reason, manifest.sites), touched)

    def _is_told(self, view: View) -> bool:
        """Whether the number that the run was started with is another one, and is to be taken."""
        sites = view.manifest.sites
        return (view.moment == "start" and sites < self.sites) if self.follows else sites != self.sites

    def _has_settled(self, executors: Executors | None, sites: int) -> bool:
        """Whether another number than that of the sites has been possible for some epochs."""
        if executors is None:
            return False
        if self._before not in (0, sites):
            self._wanted, self._epochs = min(2 * self._wanted, SETTLED_MOST), 0
        self._before = sites
        self._epochs = self._epochs + 1 if executors.slots == self._slots else 1
        self._slots = executors.slots
        if executors.slots == sites and self._epochs >= 2 * self._wanted:
            self._wanted, self._epochs = max(self._wanted // 2, SETTLED), 0
        return executors.slots != sites and self._epochs >= self._wanted


def _moved(before: Sequence[SiteId], after: Sequence[SiteId]) -> GroupSet:
    return GroupSet.within(np.array(before) != np.array(after))
