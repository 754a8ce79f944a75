"""Keeps the live state of every site within its budget (Spill 3).

At the end of a step, when all it brought is counted, a site whose live state exceeds the budget gives up groups: at
least ``spillFraction`` of its live bytes, or all that is above the budget if that is more. Which ones is a strategy's
choice (`strategies`). Sites are asked one after the other, and each knows what those before it give up: it is not there
to be met any more.

The decision is part of the version the step commits: so a step depends on nothing but its manifest and its rows, and
comes out the same if it has to be repeated, even under other options.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.adapt.spilling.candidates import Candidate, Pressure
from watersmeet.adapt.spilling.lasting import Lasting
from watersmeet.adapt.spilling.strategies import choose
from watersmeet.adapt.statistics import Floats, Statistics
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.model.plan import Plan
from watersmeet.state.changes import SpillGroups
from watersmeet.state.groups import GroupSet, Mask
from watersmeet.state.manifest import Manifest
from watersmeet.state.sizes import live_bytes

Choice: TypeAlias = Mapping[OperatorId, Sequence[int]]
Choose: TypeAlias = Callable[[Sequence[Candidate], Pressure], Choice]


@dataclass
class SpillPolicy:
    """Suggests what must leave memory; ``choose`` takes the place of the strategy that the options name."""

    options: MemoryOptions
    choose: Choose | None = None
    lasting: Lasting = field(default_factory=Lasting)
    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A spill for every site that holds too much, of groups of which nothing else was taken: others go for them."""
        budget, manifest = self.options.limit_bytes, view.manifest
        if budget is None:
            return
        self.lasting.see(manifest)
        live = {name: disposable_bytes(manifest, name) for name in manifest.operators}
        known = dict(view.statistics)
        for site in range(manifest.sites):
            here = {n: np.where(np.array(s.routing) == site, live[n], 0.0) for n, s in manifest.operators.items()}
            total = int(sum(sizes.sum() for sizes in here.values()))
            if total > budget:
                free = {name: np.where(busy_groups(view, name), 0.0, sizes) for name, sizes in here.items()}
                candidates = candidates_of(manifest.plan, free, known, self.lasting.epochs(manifest))
                spill = self._spill(SiteId(site), candidates, total, manifest.batch + 1)
                if spill.groups:
                    yield Suggestion(spill, spill.groups)
                for name, groups in spill.groups.items():
                    known[name] = known[name].without(groups.mask(manifest.groups))

    def _spill(self, site: SiteId, candidates: Sequence[Candidate], total: int, epoch: int) -> SpillGroups:
        options = self.options
        budget = options.limit_bytes or 0
        pressure = Pressure(budget, total, options.fraction, epoch, options.seed, options.inactive_epochs)
        chosen = self.choose(candidates, pressure) if self.choose else choose(options.strategy, candidates, pressure)
        groups = {name: GroupSet.of(some) for name, some in chosen.items() if len(some)}
        here = {candidate.operator: candidate.live_bytes for candidate in candidates}
        freed = sum(here[name][some.numbers].sum() for name, some in groups.items())
        part = "" if options.share == 1 else f", {options.share:.0%} of {options.budget_bytes}"
        reason = f"live state of {total} bytes at site {site} exceeds memoryBudget {budget}{part}"
        return SpillGroups(site, groups, options.strategy, total, int(freed), reason)


def busy_groups(view: View, operator: OperatorId) -> Mask:
    """The groups of an operator that are busy."""
    return view.busy.get(operator, GroupSet()).mask(view.manifest.groups)


def disposable_bytes(manifest: Manifest, operator: OperatorId) -> Floats:
    """The live bytes of each group; those being cleaned find their place when that is done, as far as there is room.

    At the end nothing becomes live but in rings, and what is stored is a generation of this very version.
    """
    cleaning = manifest.cleaning
    if cleaning is not None and cleaning.at_end and not manifest.is_ring(operator):
        return np.zeros(manifest.groups)
    sizes: Floats = live_bytes(manifest, operator)
    if cleaning is not None and cleaning.operator == operator:
        sizes[list(cleaning.groups)] = 0.0
    return sizes


def least_worthy(
    view: View,
    here: Mapping[OperatorId, Floats],
    amount: float,
    options: MemoryOptions,
    lasts: Mapping[OperatorId, Floats] | None = None,
) -> dict[OperatorId, GroupSet]:
    """Of groups with some live bytes, those of least worth that have ``amount`` together, or a little more."""
    total = max(int(sum(sizes.sum() for sizes in here.values())), 1)
    epoch = view.manifest.batch + 1
    pressure = Pressure(total, total, amount / total, epoch, options.seed, options.inactive_epochs)
    candidates = candidates_of(view.manifest.plan, here, view.statistics, lasts)
    chosen = choose(options.strategy, candidates, pressure)
    return {name: GroupSet.of(some) for name, some in chosen.items() if len(some)}


def candidates_of(
    plan: Plan,
    here: Mapping[OperatorId, Floats],
    known: Mapping[OperatorId, Statistics],
    lasts: Mapping[OperatorId, Floats] | None = None,
) -> list[Candidate]:
    """The operators of a plan as a site sees them, given the live bytes it has of each group."""
    parents = {source.operator: operator.id for operator in plan.operators for source in operator.inputs}
    return [
        Candidate(
            operator.id,
            operator.level,
            parents.get(operator.id),
            here[operator.id],
            known[operator.id],
            tuple(source.operator for source in operator.inputs),
            (lasts or {}).get(operator.id),
        )
        for operator in plan.operators
    ]


def budget_room(manifest: Manifest, options: MemoryOptions, live_by_site: Floats) -> Floats:
    """The bytes each site may take on without bringing about the next spill."""
    if options.limit_bytes is None:
        return np.full(manifest.sites, np.inf)
    room: Floats = options.limit_bytes * (1 - options.fraction) - live_by_site
    return room
