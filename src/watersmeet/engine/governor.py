"""Keeps the live state of every site within its budget (Spill 3; feature S1).

At the end of an epoch, when all it brought is counted, a site whose live state exceeds the budget gives up groups: at
least ``spillFraction`` of its live bytes, or all that is above the budget if that is more. Which ones is a strategy's
choice (`watersmeet.adapt.spilling`).

The decision is part of the version the epoch commits: so an epoch depends on nothing but its manifest and its rows, and
comes out the same if it has to be repeated, even under other options.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.spilling import Candidate, Pressure, choose
from watersmeet.adapt.statistics import Floats
from watersmeet.engine.memory import Memory
from watersmeet.model.ids import OperatorId
from watersmeet.state.changes import Change, SpillGroups
from watersmeet.state.events import Event
from watersmeet.state.groups import to_ranges
from watersmeet.state.manifest import Manifest

STATISTICS_EVERY = 16
"""Versions between two that keep statistics; a spill keeps them, too."""

Chosen = Mapping[OperatorId, tuple[int, ...]]


@dataclass
class Governor:
    """Decides what is spilled."""

    memory: Memory

    def decide(self, manifest: Manifest) -> tuple[list[Change], list[Event]]:
        """What must leave memory before the next epoch, given the manifest with all this epoch brought."""
        budget = self.memory.options.budget_bytes
        if budget is None or (manifest.cleaning is not None and manifest.cleaning.at_end):
            return [], []  # at the end nothing becomes live, and what is stored is a generation of this very version
        self.memory.ledger.keep(manifest)
        live = {name: self.memory.ledger.live(manifest, name) for name in manifest.operators}
        spills: list[SpillGroups] = []
        events: list[Event] = []
        for site in range(manifest.sites):
            here = {n: np.where(np.array(s.routing) == site, live[n], 0.0) for n, s in manifest.operators.items()}
            total = int(sum(sizes.sum() for sizes in here.values()))
            if total > budget:
                chosen = self._victims(manifest, here, total, budget)
                spills += [SpillGroups(name, to_ranges(groups)) for name, groups in chosen.items()]
                events.append(self._event(manifest, site, total, chosen, here))
        self.memory.forget(spills)
        keeps = spills or manifest.version % STATISTICS_EVERY == 0
        return [*spills, *(self.memory.kept() if keeps else [])], events

    def _victims(self, manifest: Manifest, here: Mapping[OperatorId, Floats], total: int, budget: int) -> Chosen:
        options, plan = self.memory.options, self.memory.plan
        parents = {str(i.operator): o.id for o in plan.operators for i in o.inputs if i.operator}
        known = self.memory.statistics
        candidates = [
            Candidate(o.id, o.level, parents.get(o.id), here[o.id], known[o.id], tuple(i.operator for i in o.inputs))
            for o in plan.operators
        ]
        pressure = Pressure(budget, total, options.fraction, manifest.batch + 1, options.seed, options.inactive_epochs)
        chosen = choose(options.strategy, candidates, pressure)
        return {name: groups for name, groups in chosen.items() if groups}

    def _event(
        self, manifest: Manifest, site: int, total: int, chosen: Chosen, here: Mapping[OperatorId, Floats]
    ) -> Event:
        options = self.memory.options
        spilled = int(sum(here[name][list(groups)].sum() for name, groups in chosen.items()))
        return {
            "epoch": manifest.version,
            "kind": "spill",
            "reason": f"live state of {total} bytes at site {site} exceeds memoryBudget {options.budget_bytes}",
            "before": {"liveBytes": total},
            "after": {"liveBytes": total - spilled},
            "site": site,
            "strategy": options.strategy,
            "bytes": spilled,
            "groups": {name: list(groups) for name, groups in chosen.items()},
        }
