"""Queries, on Spark too, whose groups move, are split and are parked by lot, beside whatever else their driver does."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from watersmeet.adapt.cleaning.draining import Draining
from watersmeet.adapt.moving.put_off import can_be_parked
from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.adapt.spilling.policy import SpillPolicy
from watersmeet.driver.coordinator import Coordinator
from watersmeet.model.ids import SiteId
from watersmeet.model.plan import Operator
from watersmeet.state.changes import Change, MoveGroups, SpillGroups, SplitGroup
from watersmeet.state.groups import GroupSet
from watersmeet.state.splits import dealable

MOST = 8
"""So many groups of an operator are touched in a step at most."""


@dataclass
class Disturbing:
    """Moves, splits, makes whole and parks groups by lot; some that are parked are held."""

    chance: random.Random
    draining: Draining
    suggested: Counter[str] = field(default_factory=Counter)
    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Something for some groups of every operator."""
        groups = range(view.manifest.groups)
        for operator in view.manifest.plan.operators:
            for group in self.chance.sample(groups, min(len(groups), MOST)):
                change = self._change(view, operator, group)
                if change is not None:
                    self.suggested[type(change).__name__] += 1
                    yield Suggestion(change, {operator.id: GroupSet.of([group])})

    def _change(self, view: View, operator: Operator, group: int) -> Change | None:
        manifest, kind = view.manifest, self.chance.choice(["move", "split", "park", "nothing"])
        own = manifest.operators[operator.id].routing[group]
        others = [SiteId(site) for site in range(manifest.sites) if site != own]
        some = GroupSet.of([group])
        if kind == "move" and others:
            return MoveGroups(operator.id, some, own, self.chance.choice(others), "test", reason="a test does")
        if kind == "split" and others and dealable(operator):
            sites = (own, *self.chance.sample(others, self.chance.randint(0, len(others))))
            before = next(
                (each.sites for each in manifest.operators[operator.id].splits if each.group == group), (own,)
            )
            source = self.chance.choice(dealable(operator))
            return SplitGroup(operator.id, group, source, before, sites, "test", reason="a test does")
        if kind == "park" and operator in can_be_parked(manifest.plan) and manifest.cleaning is None:
            held = self.draining.held.get(operator.id, GroupSet())
            if self.chance.random() < 0.7:
                self.draining.held = {**self.draining.held, operator.id: held | some}
            return SpillGroups(own, {operator.id: some}, "test", reason="a test does", epoch_ms=(2, 1))
        return None


@contextmanager
def disturbed(seed: int) -> Iterator[Counter[str]]:
    """Drivers that start in this block have such a policy before that which spills; gives what it suggests."""
    shipped, suggested = Coordinator.of, Counter[str]()

    def of(*args: object, **named: object) -> Coordinator:
        coordinator = shipped(*args, **named)
        policy = Disturbing(random.Random(seed), coordinator.cleaning.draining, suggested)
        at = next(n for n, each in enumerate(coordinator.policies) if isinstance(each, SpillPolicy))
        coordinator.policies = [*coordinator.policies[:at], policy, *coordinator.policies[at:]]
        return coordinator

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Coordinator, "of", of)
        yield suggested
