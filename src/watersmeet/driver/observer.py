"""Statistics of a query's groups for the policies, learned from the effects of tasks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from watersmeet.adapt.change import learn
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.statistics import Floats, Observation, Statistics
from watersmeet.driver.loads import load_of
from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Operator
from watersmeet.operators.costs import Cost, later
from watersmeet.site.counts import added
from watersmeet.site.effects import Effects
from watersmeet.state.applying import apply_all
from watersmeet.state.changes import AddRun, Change, CountOutput, DropRows, KeepStatistics, MergeRuns, SpillGroups
from watersmeet.state.manifest import Manifest
from watersmeet.state.sizes import arrived_bytes, live_bytes_by_input
from watersmeet.state.vectors import Vector

STATISTICS_EVERY = 16
"""Number of versions after which statistics are stored; a spill stores them, too."""


@dataclass
class Observer:
    """Statistics of one run of a query; without a budget they are not needed, and only results are counted.

    ``load`` is that of the last step, if it was an epoch and there is a policy that moves groups. ``costs`` are those
    of the operators' tests; nothing that has to come out the same depends on them.
    """

    is_limited: bool
    has_moves: bool = False
    load: EpochLoad | None = None
    statistics: dict[OperatorId, Statistics] = field(default_factory=dict)
    costs: dict[OperatorId, tuple[Cost, ...]] = field(default_factory=dict)

    def begin(self, manifest: Manifest) -> None:
        """Continue from a stored manifest, or with another plan: statistics of existing operators are kept."""
        operators = manifest.plan.operators
        self.statistics = {each.id: self.statistics.get(each.id) or _stored(manifest, each) for each in operators}
        count = {each.id: len(each.tests) for each in operators}
        self.costs = {name: known for name, known in self.costs.items() if len(known) == count.get(name)}
        self.weigh(manifest)

    def weigh(self, manifest: Manifest) -> None:
        """Learn the live bytes of all groups from the manifest; some may be live again."""
        for operator in manifest.plan.operators if self.is_limited else ():
            live = live_bytes_by_input(manifest, operator.id, [str(source.name) for source in operator.inputs])
            self.statistics[operator.id] = replace(self.statistics[operator.id], live_by_input=live)

    def observe(self, manifest: Manifest, effects: Sequence[Effects], duration_ms: float = 0.0) -> list[Change]:
        """Add the counts of a step's tasks; the manifest is the one that the step read."""
        is_epoch = manifest.cleaning is None
        self.load = load_of(manifest, effects, duration_ms) if self.has_moves and is_epoch else None
        for name in {name for each in effects for name in each.costs}:
            self.costs[name] = later(self.costs.get(name, ()), [each.costs.get(name, ()) for each in effects])
        changes: list[Change] = []
        seen: dict[OperatorId, Observation] = {}
        for operator in manifest.plan.operators:
            traced = added([each.traced for each in effects], manifest.groups, operator.id)
            inter = added([each.inter_bytes for each in effects], manifest.groups, operator.id)
            if traced.any() or inter.any():
                changes.append(CountOutput(operator.id, Vector.of(traced), Vector.of(inter)))
            if self.is_limited:
                local = added([each.local for each in effects], manifest.groups, operator.id)
                arrived = _arrived(operator, effects, manifest.groups)
                outputs = [counted.astype(np.float64) for counted in (local, traced, inter)]
                seen[operator.id] = Observation(arrived.sum(axis=0), outputs[0], outputs[1], outputs[2], arrived)
        if self.is_limited:
            self._learn(manifest, seen)
            told = [change for each in effects for change in each.changes]
            if any(isinstance(change, MergeRuns) and change.dropped for change in told):
                self.weigh(apply_all(manifest, told))
        return changes

    def settle(self, manifest: Manifest, decided: Iterable[Change]) -> list[Change]:
        """Reset the statistics of spilled groups; from time to time, store statistics with the next version.

        What was dropped is not there to be met any more.
        """
        decided = list(decided)
        drops = [change for change in decided if isinstance(change, DropRows)]
        if drops:
            self.weigh(apply_all(manifest, drops))
        spills = [change for change in decided if isinstance(change, SpillGroups)]
        for spill in spills:
            for name, groups in spill.groups.items():
                self.statistics[name] = self.statistics[name].without(groups.mask(manifest.groups))
        if not self.is_limited or not (spills or manifest.version % STATISTICS_EVERY == 0):
            return []
        return [KeepStatistics(name, known.stored()) for name, known in self.statistics.items()]

    def _learn(self, manifest: Manifest, seen: Mapping[OperatorId, Observation]) -> None:
        """Advance by an epoch; a step of cleanup is not an epoch, and only brings rows."""
        known = [self.statistics[name] for name in seen]
        if manifest.cleaning is None:
            known = learn(known, list(seen.values()), manifest.batch + 1)
        else:
            known = [each.holding(told) for each, told in zip(known, seen.values(), strict=True)]
        self.statistics.update(zip(seen, known, strict=True))


def _stored(manifest: Manifest, operator: Operator) -> Statistics:
    stored = manifest.operators[operator.id].statistics
    if stored:
        return Statistics.restored(stored, manifest.groups)
    return Statistics.cold(manifest.groups, len(operator.inputs))


def _arrived(operator: Operator, effects: Sequence[Effects], groups: int) -> Floats:
    """The bytes that became live, ``[input, group]``."""
    inputs = [source.name for source in operator.inputs]
    arrived = np.zeros((len(inputs), groups))
    for each in effects:
        for change in each.changes:
            is_live = isinstance(change, AddRun) and not change.closed and change.run.rows
            if is_live and change.run.operator == operator.id:
                arrived_bytes(change.run, arrived[inputs.index(change.run.input)])
    return arrived
