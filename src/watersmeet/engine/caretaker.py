"""Sees to it that missing results are produced: which groups to clean next, and what becomes of them.

The policy is in `watersmeet.adapt.cleaning`; this brings it together with the manifest and what is known of memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt import cleaning
from watersmeet.engine.effects import Effects
from watersmeet.engine.memory import Memory
from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Operator
from watersmeet.state.changes import Change, CleanGroups, apply_all
from watersmeet.state.events import Event
from watersmeet.state.groups import members, to_ranges
from watersmeet.state.manifest import Cleaning, Manifest, Tier


@dataclass
class Caretaker:
    """Decides what is cleaned; ``slice_bytes`` is how much at a time while the query runs."""

    memory: Memory
    slice_bytes: int = cleaning.SLICE_FIRST_BYTES

    def missing_groups(self, manifest: Manifest) -> int:
        """How many groups have results missing."""
        return sum(len(manifest.spilled(operator.id)) for operator in self.memory.plan.operators)

    def next_step(
        self, manifest: Manifest, operators: Sequence[Operator], closed_by: int | None = None, *, at_end: bool = False
    ) -> Cleaning | None:
        """The next step of cleanup among some operators; of generations closed up to a version, where one is given."""
        dirty = [self._dirty(manifest, operator, closed_by) for operator in operators]
        piece, budget = None if at_end else self.slice_bytes, self.memory.options.budget_bytes
        root = self.memory.plan.root.id
        allowed = {o.id: cleaning.allowance(piece, budget, is_root=o.id == root) for o in operators}
        return cleaning.choose(dirty, allowed, at_end=at_end)

    def cleaned(self, manifest: Manifest, step: Cleaning) -> list[Change]:
        """What becomes of groups that were cleaned: live again as far as there is room, else closed.

        At the end they stay closed, so that an operator that is done holds no memory while those above are cleaned.
        """
        returning = frozenset[int]() if step.at_end else self._returning(manifest, step.operator, step.groups)
        tiers: tuple[tuple[Tier, frozenset[int]], ...]
        tiers = (("memory", returning), ("disk", frozenset(step.groups) - returning))
        return [CleanGroups(step.operator, to_ranges(some), tier) for tier, some in tiers if some]

    def revived(self, manifest: Manifest) -> list[Change]:
        """Let groups that are closed and complete be live again as far as there is room, the most productive first."""
        changes: list[Change] = []
        for operator in reversed(self.memory.plan.operators):
            state, sizes = manifest.operators[operator.id], self.memory.group_bytes(manifest, operator.id)
            output = state.output or (0,) * manifest.groups
            closed = frozenset(g for part in state.slices if part.tier == "disk" for g in members(part.groups))
            complete = closed - manifest.spilled(operator.id)
            order = sorted(complete, key=lambda group: -output[group] / max(1.0, sizes[group]))
            returning = self._returning(apply_all(manifest, changes), operator.id, order)
            if returning:
                changes.append(CleanGroups(operator.id, to_ranges(returning), "memory"))
        return changes

    def event(self, manifest: Manifest, step: Cleaning, effects: Sequence[Effects]) -> Event:
        """What a step of cleanup did, for the record."""
        missing = len(manifest.spilled(step.operator))
        return {
            "epoch": manifest.version,
            "kind": "cleanup",
            "reason": f"results of {len(step.groups)} spilled groups of {step.operator} were missing",
            "before": {"groups": missing},
            "after": {"groups": missing - len(step.groups)},
            "operator": step.operator,
            "groups": sorted(step.groups),
            "bytes": sum(each.cleaned_bytes for each in effects),
            "results": sum(each.cleaned_results for each in effects),
        }

    def _dirty(self, manifest: Manifest, operator: Operator, closed_by: int | None) -> cleaning.Dirty:
        spilled = manifest.spilled(operator.id)
        if closed_by is not None:
            old = (part for part in manifest.operators[operator.id].slices if part.tier == "disk")
            spilled &= frozenset(g for part in old if part.generation <= closed_by for g in members(part.groups))
        groups = sorted(spilled)
        if not groups:
            return cleaning.Dirty(operator.id, (), np.empty(0), np.empty(0))
        inputs = [str(source.name) for source in operator.inputs]
        sizes = self.memory.ledger.by_generation(manifest, operator.id, inputs)
        known = self.memory.statistics[operator.id]
        promise = cleaning.expected_missing(sizes, (known.aged_local + 1.0) / (known.aged_exposure + 1.0))
        read = np.sum([each.sum(axis=0) for each in sizes.values()], axis=0)
        return cleaning.Dirty(operator.id, tuple(groups), read[groups], promise[groups])

    def _returning(self, manifest: Manifest, operator: OperatorId, groups: Sequence[int]) -> frozenset[int]:
        options = self.memory.options
        if options.budget_bytes is None:
            return frozenset(groups)
        sizes, routing = self.memory.group_bytes(manifest, operator), manifest.operators[operator].routing
        room = options.budget_bytes * (1 - options.fraction) - self.memory.live_by_site(manifest)
        fitting = [
            cleaning.fits_again({group: sizes[group] for group in groups if routing[group] == site}, float(room[site]))
            for site in range(manifest.sites)
        ]
        return frozenset().union(*fitting)
