"""Where groups live at first (Lazy/Active 3.2): spread evenly, neighbours together, so that a run covers few ranges."""

from collections.abc import Iterator
from dataclasses import dataclass

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
    moments: frozenset[Moment] = frozenset({"start"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """An even distribution, if there is another number of sites."""
        manifest = view.manifest
        if manifest.sites != self.sites:
            routing = dict.fromkeys(manifest.operators, even(manifest.groups, self.sites))
            change = Reroute(routing, self.sites, "the number of sites has changed", manifest.sites)
            yield Suggestion(change, dict.fromkeys(routing, GroupSet.all(manifest.groups)))
