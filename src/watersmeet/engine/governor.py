"""Keeps the live state within its budget: takes in what an epoch's tasks counted, and decides what the next one finds.

Decisions are made at the end of an epoch and are part of the version it commits: so an epoch depends on nothing but its
manifest and its rows, and comes out the same if it has to be repeated, even under other options.

    observe   counts of the tasks  -> statistics by operator and group, output and intermediate bytes in the manifest
    spill     live bytes of a site -> the groups a strategy gives up, if the budget is exceeded
    clean     closed generations   -> the groups to clean next, and which of them may be live again
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from watersmeet.adapt import cleaning
from watersmeet.adapt.spilling import Candidate, Pressure, choose
from watersmeet.adapt.statistics import Floats, Observation, Statistics
from watersmeet.engine.effects import Effects
from watersmeet.engine.tally import added
from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Operator, Plan
from watersmeet.state.changes import AddRun, Change, CleanGroups, CountOutput, KeepStatistics, SpillGroups, apply_all
from watersmeet.state.events import Event
from watersmeet.state.groups import members, to_ranges
from watersmeet.state.ledger import Ledger
from watersmeet.state.manifest import LIVE, Cleaning, Manifest
from watersmeet.storage.base import Storage

STATISTICS_EVERY = 16
"""Versions between two that keep statistics; a spill keeps them, too."""


@dataclass(frozen=True)
class MemoryOptions:
    """What the user allows: bytes of live state per site (None: any number), and how to keep to it."""

    budget_bytes: int | None = None
    strategy: str = "adaptive"
    fraction: float = 0.3
    seed: int = 0
    inactive_epochs: int | None = None


@dataclass
class Governor:
    """Statistics and decisions of one run of a query."""

    plan: Plan
    storage: Storage
    groups: int
    options: MemoryOptions
    statistics: dict[OperatorId, Statistics] = field(default_factory=dict)
    ledger: Ledger = field(init=False)
    slice_bytes: int = cleaning.SLICE_LEAST_BYTES * 4

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.storage, self.groups)

    def begin(self, manifest: Manifest) -> None:
        """Go on from a stored manifest."""
        for operator in self.plan.operators:
            stored = manifest.operators[operator.id].statistics
            known = Statistics.restored(stored, self.groups) if stored else self._cold(operator)
            self.statistics[operator.id] = replace(known, live_by_input=self._live(manifest, operator))

    def observe(self, manifest: Manifest, effects: Sequence[Effects]) -> list[Change]:
        """Take in what the tasks of an epoch counted; the manifest is the one the epoch has read."""
        changes: list[Change] = []
        for operator in self.plan.operators:
            traced, inter = (
                added(parts, self.groups, operator.id)
                for parts in ([each.traced for each in effects], [each.inter_bytes for each in effects])
            )
            if traced.any() or inter.any():
                changes.append(CountOutput(operator.id, tuple(traced.tolist()), tuple(inter.tolist())))
            if self.options.budget_bytes is not None:
                local = added([each.local for each in effects], self.groups, operator.id)
                arrived = self._arrived(operator, effects)
                seen = Observation(
                    arrived.sum(axis=0), local.astype(float), traced.astype(float), inter.astype(float), arrived
                )
                known = self.statistics[operator.id]
                self.statistics[operator.id] = known.after(seen, manifest.version)
        return changes

    def spill(self, manifest: Manifest) -> tuple[list[Change], list[Event]]:
        """What must leave memory before the next epoch, given the manifest with all this epoch brought."""
        if self.options.budget_bytes is None:
            return [], []
        self.ledger.keep(manifest)
        live = {name: self.ledger.live(manifest, name) for name in manifest.operators}
        changes: list[Change] = []
        events: list[Event] = []
        for site in range(manifest.sites):
            here = {
                name: np.where(np.array(s.routing) == site, live[name], 0.0) for name, s in manifest.operators.items()
            }
            total = int(sum(sizes.sum() for sizes in here.values()))
            if total > self.options.budget_bytes:
                chosen = self._victims(manifest, here, total)
                changes += [SpillGroups(name, to_ranges(groups)) for name, groups in chosen.items()]
                events.append(self._event(manifest, site, total, chosen, here))
        return [*changes, *self._kept(manifest, changes)], events

    def next_cleaning(
        self, manifest: Manifest, operators: Sequence[Operator], closed_by: int | None = None, *, at_end: bool = False
    ) -> Cleaning | None:
        """The next step of cleanup among some operators; of generations closed up to a version, where one is given."""
        dirty = [self._dirty(manifest, operator, closed_by) for operator in operators]
        piece, budget = None if at_end else self.slice_bytes, self.options.budget_bytes
        allowed = {o.id: cleaning.allowance(piece, budget, is_root=o == self.plan.root) for o in operators}
        return cleaning.choose(dirty, allowed, at_end=at_end)

    def cleaned(self, manifest: Manifest, groups: Sequence[int]) -> list[Change]:
        """What becomes of groups that were cleaned: live again as far as there is room, else closed.

        At the end they stay closed, as one generation, for a later run to go on with.
        """
        if manifest.cleaning is None or not groups:
            return []
        operator = manifest.cleaning.operator
        returning = frozenset[int]() if manifest.cleaning.at_end else self._returning(manifest, operator, groups)
        tiers = (("memory", returning), ("disk", frozenset(groups) - returning))
        return [CleanGroups(operator, to_ranges(some), tier) for tier, some in tiers if some]  # type: ignore[arg-type]

    def relive(self, manifest: Manifest, operator_id: OperatorId) -> None:
        """Groups of an operator are live again: learn their sizes."""
        operator = self.plan.operator(operator_id)
        known = self.statistics.get(operator_id, self._cold(operator))
        self.statistics[operator_id] = replace(known, live_by_input=self._live(manifest, operator))

    def revive(self, manifest: Manifest) -> list[Change]:
        """Let groups that are closed and complete be live again as far as there is room, the most productive first."""
        changes: list[Change] = []
        for operator in reversed(self.plan.operators):
            after = apply_all(manifest, changes)
            state, sizes = manifest.operators[operator.id], self.group_bytes(manifest, operator.id)
            output = state.output or (0,) * self.groups
            closed = frozenset(g for part in state.slices if part.tier == "disk" for g in members(part.groups))
            complete = closed - manifest.spilled(operator.id)
            order = sorted(complete, key=lambda group: -output[group] / max(1.0, sizes[group]))
            returning = self._returning(after, operator.id, order)
            if returning:
                changes.append(CleanGroups(operator.id, to_ranges(returning), "memory"))
        return changes

    def missing_groups(self, manifest: Manifest) -> int:
        """How many groups have results missing."""
        return sum(len(manifest.spilled(operator.id)) for operator in self.plan.operators)

    def live_by_site(self, manifest: Manifest) -> list[int]:
        """The live bytes of every site."""
        total = np.zeros(manifest.sites)
        for name, state in manifest.operators.items():
            np.add.at(total, np.array(state.routing), self.ledger.live(manifest, name))
        return [int(size) for size in total.tolist()]

    def metrics(self, manifest: Manifest) -> dict[str, object]:
        """How memory stands, for progress reports; nothing where there is no budget."""
        if self.options.budget_bytes is None:
            return {}
        return {
            "memoryBudget": self.options.budget_bytes,
            "liveBytes": self.live_by_site(manifest),
            "spilledGroups": self.missing_groups(manifest),
        }

    def note_sizes(self, effects: Iterable[Effects]) -> None:
        """Learn the sizes of the groups of new runs."""
        for each in effects:
            for change in each.changes:
                self.ledger.add(change.run, each.sizes.get(change.run.id, ()))

    def group_bytes(self, manifest: Manifest, operator: OperatorId) -> dict[int, float]:
        """The bytes of all generations of each group."""
        inputs = [source.name for source in self.plan.operator(operator).inputs]
        found = self.ledger.by_generation(manifest, operator, [str(name) for name in inputs])
        total = np.sum([np.zeros(self.groups), *(sizes.sum(axis=0) for sizes in found.values())], axis=0)
        return dict(enumerate(total.tolist()))

    def _cold(self, operator: Operator) -> Statistics:
        return Statistics.cold(self.groups, len(operator.inputs))

    def _live(self, manifest: Manifest, operator: Operator) -> Floats:
        inputs = [str(source.name) for source in operator.inputs]
        nothing = np.zeros((len(inputs), self.groups))
        return self.ledger.by_generation(manifest, operator.id, inputs).get(LIVE, nothing)

    def _arrived(self, operator: Operator, effects: Sequence[Effects]) -> Floats:
        inputs = [source.name for source in operator.inputs]
        arrived = np.zeros((len(inputs), self.groups))
        for each in effects:
            for change in each.changes:
                if isinstance(change, AddRun) and change.run.operator == operator.id:
                    sizes = each.sizes.get(change.run.id, ())
                    arrived[inputs.index(change.run.input)][sorted(members(change.run.groups))] += sizes
        return arrived

    def _victims(
        self, manifest: Manifest, here: Mapping[OperatorId, Floats], total: int
    ) -> dict[OperatorId, tuple[int, ...]]:
        budget = int(self.options.budget_bytes or 0)
        need = max(int(total * self.options.fraction), total - budget)
        parents = {str(i.operator): o.id for o in self.plan.operators for i in o.inputs if i.operator}
        candidates = [
            Candidate(o.id, o.level, parents.get(o.id), here[o.id], self.statistics[o.id]) for o in self.plan.operators
        ]
        pressure = Pressure(
            budget, total, need, manifest.version, self.options.seed, inactive_epochs=self.options.inactive_epochs
        )
        chosen = choose(self.options.strategy, candidates, pressure)
        return {name: groups for name, groups in chosen.items() if groups}

    def _kept(self, manifest: Manifest, spills: Sequence[Change]) -> list[Change]:
        """Begin the statistics of spilled groups anew, and keep all of them now and then."""
        for change in spills:
            if isinstance(change, SpillGroups):
                gone = np.zeros(self.groups, dtype=np.bool_)
                gone[list(members(change.groups))] = True
                self.statistics[change.operator] = self.statistics[change.operator].without(gone)
        if not spills and manifest.version % STATISTICS_EVERY:
            return []
        stored = {name: known.stored() for name, known in self.statistics.items()}
        return [KeepStatistics(n, {key: tuple(v) for key, v in kept.items()}) for n, kept in stored.items()]

    def _dirty(self, manifest: Manifest, operator: Operator, closed_by: int | None) -> cleaning.Dirty:
        spilled = manifest.spilled(operator.id)
        if closed_by is not None:
            old = (part for part in manifest.operators[operator.id].slices if part.tier == "disk")
            spilled &= frozenset(g for part in old if part.generation <= closed_by for g in members(part.groups))
        groups = sorted(spilled)
        if not groups:
            return cleaning.Dirty(operator.id, (), np.empty(0), np.empty(0))
        inputs = [str(source.name) for source in operator.inputs]
        sizes = self.ledger.by_generation(manifest, operator.id, inputs)
        known = self.statistics.get(operator.id, self._cold(operator))
        yields = (known.aged_local + 1.0) / (known.aged_exposure + 1.0)
        promise = cleaning.expected_missing(sizes, yields)
        read = np.sum([each.sum(axis=0) for each in sizes.values()], axis=0)
        return cleaning.Dirty(operator.id, tuple(groups), read[groups], promise[groups])

    def _returning(self, manifest: Manifest, operator: OperatorId, groups: Sequence[int]) -> frozenset[int]:
        if self.options.budget_bytes is None:
            return frozenset(groups)
        sizes = self.group_bytes(manifest, operator)
        returning: frozenset[int] = frozenset()
        for site in range(manifest.sites):
            routing = manifest.operators[operator].routing
            live = sum(
                float(self.ledger.live(manifest, name)[np.array(state.routing) == site].sum())
                for name, state in manifest.operators.items()
            )
            room = self.options.budget_bytes * (1 - self.options.fraction) - live
            returning |= cleaning.fits_again({g: sizes[g] for g in groups if routing[g] == site}, room)
        return returning

    def _event(
        self,
        manifest: Manifest,
        site: int,
        total: int,
        chosen: Mapping[OperatorId, tuple[int, ...]],
        here: Mapping[OperatorId, Floats],
    ) -> Event:
        spilled = int(sum(here[name][list(groups)].sum() for name, groups in chosen.items()))
        return {
            "epoch": manifest.version,
            "kind": "spill",
            "reason": f"live state of {total} bytes at site {site} exceeds memoryBudget {self.options.budget_bytes}",
            "before": {"liveBytes": total},
            "after": {"liveBytes": total - spilled},
            "site": site,
            "strategy": self.options.strategy,
            "bytes": spilled,
            "groups": {name: list(groups) for name, groups in chosen.items()},
        }
