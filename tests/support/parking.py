"""A policy that parks what a test tells it to."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.state.changes import SpillGroups
from watersmeet.state.groups import GroupSet


@dataclass
class Parking:
    """Parks what it is told to after the next epoch, as far as nothing else is done to it."""

    groups: dict[OperatorId, list[int]] = field(default_factory=dict)
    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        for name, group in [(name, group) for name, some in self.groups.items() for group in some]:
            if view.manifest.cleaning is None:
                chosen = {name: GroupSet.of([group])}
                change = SpillGroups(SiteId(0), chosen, "test", reason="a test does", epoch_ms=(2, 1))
                yield Suggestion(change, chosen)
        self.groups = self.groups if view.manifest.cleaning else {}
