"""What is known of a query's memory: the bytes and the statistics of every group, learnt from what tasks tell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from watersmeet.adapt.change import learn
from watersmeet.adapt.statistics import Floats, Observation, Statistics
from watersmeet.engine.effects import Effects
from watersmeet.engine.tally import added
from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Operator, Plan
from watersmeet.state.changes import AddRun, Change, CountOutput, KeepStatistics, SpillGroups
from watersmeet.state.groups import members
from watersmeet.state.ledger import Ledger
from watersmeet.state.manifest import Manifest
from watersmeet.storage.base import Storage


@dataclass(frozen=True)
class MemoryOptions:
    """What the user allows: bytes of live state per site (None: any number), and how to keep to it."""

    budget_bytes: int | None = None
    strategy: str = "adaptive"
    fraction: float = 0.3
    seed: int = 0
    inactive_epochs: int | None = None


@dataclass
class Memory:
    """Sizes and statistics of one run of a query; without a budget, only what is produced is counted."""

    plan: Plan
    storage: Storage
    groups: int
    options: MemoryOptions
    statistics: dict[OperatorId, Statistics] = field(default_factory=dict)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.storage, self.groups)

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget."""
        return self.options.budget_bytes is not None

    def begin(self, manifest: Manifest) -> None:
        """Go on from a stored manifest."""
        for operator in self.plan.operators:
            stored = manifest.operators[operator.id].statistics
            cold = Statistics.cold(self.groups, len(operator.inputs))
            self.statistics[operator.id] = Statistics.restored(stored, self.groups) if stored else cold
            if self.is_limited:
                self.weigh(manifest, operator)

    def weigh(self, manifest: Manifest, operator: Operator) -> None:
        """Learn the live bytes of an operator's groups from its runs; some may be live again."""
        inputs = [str(source.name) for source in operator.inputs]
        live = self.ledger.live_by_input(manifest, operator.id, inputs)
        self.statistics[operator.id] = replace(self.statistics[operator.id], live_by_input=live)

    def observe(self, manifest: Manifest, effects: Sequence[Effects]) -> list[Change]:
        """Take in what the tasks of a step counted; the manifest is the one the step has read."""
        changes: list[Change] = []
        seen: dict[OperatorId, Observation] = {}
        for operator in self.plan.operators:
            traced = added([each.traced for each in effects], self.groups, operator.id)
            inter = added([each.inter_bytes for each in effects], self.groups, operator.id)
            if traced.any() or inter.any():
                changes.append(CountOutput(operator.id, tuple(traced.tolist()), tuple(inter.tolist())))
            if self.is_limited:
                local = added([each.local for each in effects], self.groups, operator.id)
                arrived = self._arrived(operator, effects)
                outputs = [counted.astype(np.float64) for counted in (local, traced, inter)]
                seen[operator.id] = Observation(arrived.sum(axis=0), outputs[0], outputs[1], outputs[2], arrived)
        if self.is_limited:
            self._learn(manifest, seen)
            self._note_sizes(effects)
        return changes

    def _learn(self, manifest: Manifest, seen: Mapping[OperatorId, Observation]) -> None:
        """One epoch later; a step of cleanup is none, and only brings rows."""
        known = [self.statistics[name] for name in seen]
        if manifest.cleaning is None:
            known = learn(known, list(seen.values()), manifest.batch + 1)
        else:
            known = [each.holding(told) for each, told in zip(known, seen.values(), strict=True)]
        self.statistics.update(zip(seen, known, strict=True))

    def forget(self, spills: Iterable[SpillGroups]) -> None:
        """Begin the statistics of spilled groups anew."""
        for spill in spills:
            gone = np.zeros(self.groups, dtype=np.bool_)
            gone[list(members(spill.groups))] = True
            self.statistics[spill.operator] = self.statistics[spill.operator].without(gone)

    def kept(self) -> list[Change]:
        """The statistics, for a manifest to keep."""
        stored = {name: known.stored() for name, known in self.statistics.items()}
        return [KeepStatistics(n, {key: tuple(values) for key, values in s.items()}) for n, s in stored.items()]

    def live_by_site(self, manifest: Manifest) -> Floats:
        """The live bytes of every site."""
        total = np.zeros(manifest.sites)
        for name, state in manifest.operators.items():
            np.add.at(total, np.array(state.routing), self.ledger.live(manifest, name))
        return total

    def group_bytes(self, manifest: Manifest, operator_id: OperatorId) -> dict[int, float]:
        """The bytes of all generations of each group."""
        return dict(enumerate(self.ledger.total(manifest, operator_id).tolist()))

    def _note_sizes(self, effects: Iterable[Effects]) -> None:
        for each in effects:
            for change in each.changes:
                if change.run.rows:
                    self.ledger.add(change.run, each.sizes[change.run.id])

    def _arrived(self, operator: Operator, effects: Sequence[Effects]) -> Floats:
        """The bytes that became live, ``[input, group]``."""
        inputs = [source.name for source in operator.inputs]
        arrived = np.zeros((len(inputs), self.groups))
        for each in effects:
            for change in each.changes:
                if isinstance(change, AddRun) and change.run.operator == operator.id and not change.closed:
                    into = sorted(members(change.run.groups))
                    arrived[inputs.index(change.run.input)][into] += each.sizes[change.run.id]
        return arrived
