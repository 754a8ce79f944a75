"""Where groups live at first (Lazy/Active 3.2): spread evenly, neighbours together, so that a run covers few ranges."""

from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.state.changes import Reroute
from watersmeet.state.manifest import Manifest


def even(groups: int, sites: int) -> tuple[SiteId, ...]:
    """Each site gets the same number of groups, give or take one.

    >>> even(5, 2)
    (0, 0, 0, 1, 1)
    """
    return tuple(SiteId(group * sites // groups) for group in range(groups))


def resize(manifest: Manifest, sites: int) -> list[Reroute]:
    """Spread the groups of every operator anew when the number of sites has changed.

    >>> from watersmeet.state.manifest import OperatorState
    >>> operators = {OperatorId("join1"): OperatorState(even(4, 2))}
    >>> resize(Manifest("q", {}, groups=4, sites=2, operators=operators), 4)
    [Reroute(operator='join1', routing=(0, 1, 2, 3), sites=4)]
    """
    if manifest.sites == sites:
        return []
    routing = even(manifest.groups, sites)
    return [Reroute(OperatorId(operator), routing, sites) for operator in manifest.operators]
