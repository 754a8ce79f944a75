"""Whether what a policy has suggested was done.

A policy suggests, and the coordinator may refuse: groups are being cleaned, another policy was first, spills are not
registered. So a policy that goes on from its own decisions does not take them for granted, but looks for them in the
next manifest it is shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.policy import Suggestion
from watersmeet.state.changes import MoveGroups, SplitGroup
from watersmeet.state.manifest import Manifest

Placed = MoveGroups | SplitGroup


@dataclass
class Suggested:
    """What a policy has suggested last of moves and splits, until it asks what was done.

    >>> from watersmeet.model.plan import Plan
    >>> from watersmeet.state.groups import GroupSet
    >>> from watersmeet.state.manifest import OperatorState
    >>> manifest = Manifest("q", Plan((), (), ()), 4, 2, {"join1": OperatorState((0, 0, 1, 1))})
    >>> refused, taken = MoveGroups("join1", GroupSet.of([0]), 0, 1), MoveGroups("join1", GroupSet.of([2]), 0, 1)
    >>> suggested = Suggested()
    >>> made = suggested.remember([Suggestion(refused), Suggestion(taken)])
    >>> suggested.done(manifest) == [taken], suggested.has_any
    (True, False)
    """

    _changes: list[Placed] = field(default_factory=list)

    @property
    def has_any(self) -> bool:
        """Whether it is not known yet what became of some suggestions."""
        return bool(self._changes)

    def remember(self, found: Iterable[Suggestion]) -> list[Suggestion]:
        """Suggestions that are about to be made."""
        found = list(found)
        self._changes = [each.what for each in found if isinstance(each.what, Placed)]
        return found

    def done(self, manifest: Manifest) -> list[Placed]:
        """Those that were done; the next time there are none, unless some were suggested again."""
        found, self._changes = [each for each in self._changes if is_done(manifest, each)], []
        return found


def is_done(manifest: Manifest, change: Placed) -> bool:
    """Whether groups are where a change puts them."""
    state = manifest.operators.get(change.operator)
    if state is None:
        return False
    if isinstance(change, MoveGroups):
        return bool((np.asarray(state.routing)[change.groups.numbers] == change.after).all())
    sites = next((split.sites for split in state.splits if split.group == change.group), None)
    return sites == change.after if len(change.after) > 1 else sites is None
