"""What an epoch took of every site, which of them were slow, and what of their work can be put off.

A site is *slow* if it takes more than `SLOW` times what ordinary ones take, those that take no more than the mean, and
holds up the epoch noticeably. More than half of the sites are never slow.

A row that comes costs as much as `ROW` results, as it is received, sorted, written and looked up. Of a group, the
results with what is stored can be put off. How many of an epoch's results these are is told by the rows: with L rows of
each input of which D are new, there are ``prod(L) - prod(L - D)`` combinations, and the ``prod(D)`` of new rows stay.
Groups with most of these go first, until their site is expected to be near the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.moving.levelling import Machines
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.pieces import Flags
from watersmeet.adapt.moving.splitting import Asked, by_site
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Operator, Plan
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest
from watersmeet.state.sizes import live_bytes, rows_and_bytes, total_bytes

ROW = 10.0
"""Results come out of a key's rows by the million in a second and process, rows come in by the hundred thousand."""

SLOW, NEAR = 2.0, 1.1
"""Times what ordinary sites take: when a site is slow, and how near it is brought."""

NOTICEABLE, LEAST_MS = 0.2, 50.0
"""A site holds up an epoch by at least this part of it, and by so long."""

WORTH = 0.5
"""At least this part of what a site is behind has to be work that can be put off."""

DRAIN_MS, DRAIN_MS_PER_BYTE = 100.0, 5e-6
"""What a step of cleanup costs: a job, and two hundred megabytes read in a second."""


@dataclass(frozen=True)
class Chosen:
    """Groups to be parked: what that saves their site of an epoch, gains of an epoch, and costs in cleanup."""

    groups: dict[OperatorId, GroupSet]
    saved_ms: float
    gain_ms: float
    cost_ms: float
    tuples: float
    rows: float
    live_bytes: int


class SiteTimes:
    """What an epoch took of every site, and for how many tuples; ``whole`` is what it would take with parked groups."""

    def __init__(self, manifest: Manifest, load: EpochLoad) -> None:
        self.manifest, self.load = manifest, load
        self.machines = Machines.of(load.executors, load.workers)
        self.site_ms: Floats = load.busy_ms.sum(axis=0)
        self.done = np.zeros(load.busy_ms.shape)
        for operator in manifest.plan.operators:
            self.done[operator.level] += by_site(manifest, operator, self._cost(operator.id))
        self.tuples: Floats = self.done.sum(axis=0)
        self.whole_ms, self.whole_tuples = self.site_ms.copy(), self.tuples.copy()

    def _cost(self, name: OperatorId) -> Asked:
        """What an epoch asks of an operator's groups, in results."""
        rows = self.load.rows[name]
        return Asked(ROW * rows, self.load.tuples[name] - rows.sum(axis=0))

    def would_take(self, site: int, put_off_ms: float, put_off_tuples: float) -> None:
        """Estimate the time without parking."""
        self.whole_ms[site] += put_off_ms
        self.whole_tuples[site] += put_off_tuples

    @property
    def ordinary_ms(self) -> float:
        """What sites take that take no more than the mean."""
        return self.ordinary_of(range(len(self.whole_ms)))

    def ordinary_of(self, sites: Sequence[int]) -> float:
        """What those of some sites take that take no more than their mean."""
        took = self.whole_ms[list(sites)] if len(sites) else self.whole_ms
        return max(float(took[took <= took.mean()].mean()), 1e-9)

    @property
    def slow(self) -> Flags:
        """Which sites are slow."""
        slow: Flags = self.site_ms > SLOW * self.ordinary_ms
        levelled = np.where(slow, self.ordinary_ms / np.maximum(self.site_ms, 1e-9), 1.0)
        is_held_up = self._gain_ms(self.load.busy_ms * levelled) > max(NOTICEABLE * self.load.duration_ms, LEAST_MS)
        return slow if is_held_up and 2 * slow.sum() <= len(slow) else np.zeros(len(slow), np.bool_)

    def rows_of(self, groups: Mapping[OperatorId, GroupSet]) -> float:
        """How many rows came for some groups."""
        count = self.manifest.groups
        return float(sum(self.load.rows[name][:, some.mask(count)].sum() for name, some in groups.items()))

    def chosen(self, site: int, generations_max: int) -> Chosen | None:
        """The groups of a site that are parked, the costliest first; None where that is not worth it."""
        parkable = [
            operator
            for operator in can_be_parked(self.manifest.plan)
            if len(self.manifest.generations(operator.id)) < generations_max
        ]
        if not parkable:
            return None
        saved_ms = np.array([self._put_off_ms(operator, site) for operator in parkable])
        behind_ms = float(self.site_ms[site]) - NEAR * self.ordinary_ms
        order = np.argsort(-saved_ms, axis=None, kind="stable")
        before = np.cumsum(saved_ms.flat[order]) - saved_ms.flat[order]
        taken = np.zeros(saved_ms.size, np.bool_)
        taken[order[(before < behind_ms) & (saved_ms.flat[order] > 0)]] = True
        masks = taken.reshape(saved_ms.shape)
        if saved_ms[masks].sum() < WORTH * behind_ms:
            return None
        return self._worth(parkable, masks, saved_ms, site)

    def _worth(self, operators: Sequence[Operator], masks: Flags, saved_ms: Floats, site: int) -> Chosen:
        busy_ms, read, freed, tuples = self.load.busy_ms.copy(), 0.0, 0.0, 0.0
        for operator, mask, saved in zip(operators, masks, saved_ms, strict=True):
            busy_ms[operator.level, site] -= saved[mask].sum()
            tuples += float(saved[mask].sum()) / self._ms_per_tuple(operator.level, site)
            read += float(total_bytes(self.manifest, operator.id)[mask].sum())
            freed += float(live_bytes(self.manifest, operator.id)[mask].sum())
        pairs = zip(operators, masks, strict=True)
        groups = {operator.id: GroupSet.within(mask) for operator, mask in pairs if mask.any()}
        cost_ms = DRAIN_MS + DRAIN_MS_PER_BYTE * read / self.machines.at_once
        saved = float(saved_ms[masks].sum())
        return Chosen(groups, saved, self._gain_ms(busy_ms), cost_ms, tuples, self.rows_of(groups), int(freed))

    def _put_off_ms(self, operator: Operator, site: int) -> Floats:
        """What each group of an operator costs a site for results with what is stored; 0 of those that stay."""
        state, name = self.manifest.operators[operator.id], operator.id
        may: Flags = np.asarray(state.routing) == site
        may[[split.group for split in state.splits]] = False
        may &= ~self.manifest.parked(name).mask(self.manifest.groups)
        ms_per_tuple = self._ms_per_tuple(operator.level, site)
        put_off: Floats = np.where(may, self._cost(name).results * self._with_stored(operator) * ms_per_tuple, 0.0)
        return put_off

    def _ms_per_tuple(self, level: int, site: int) -> float:
        return float(self.load.busy_ms[level, site]) / max(float(self.done[level, site]), 1.0) or 1e-9

    def _with_stored(self, operator: Operator) -> Floats:
        """Which part of each group's results have a row that was there before."""
        slices = [part for part in self.manifest.operators[operator.id].slices if part.tier == "memory"]
        live = np.array(
            [
                rows_and_bytes(self.manifest, (p for p in slices if self.manifest.runs[p.run].input == source.name))[0]
                for source in operator.inputs
            ],
            np.float64,
        )
        new = np.minimum(self.load.rows[operator.id], live)
        made = live.prod(axis=0) - (live - new).prod(axis=0)
        among_new = np.divide(new.prod(axis=0), made, out=np.ones(len(made)), where=made > 0)
        with_stored: Floats = 1.0 - among_new
        return with_stored

    def _gain_ms(self, busy_ms: Floats) -> float:
        """By how much an epoch is shorter if sites are busy for so long."""
        return sum(
            float(self.machines.times(before).max() - self.machines.times(after).max())
            for before, after in zip(self.load.busy_ms, busy_ms, strict=True)
        )


def can_be_parked(plan: Plan) -> list[Operator]:
    """The operators whose results may come later than the epoch of their rows."""
    if any(each.kind == "aggregate" and (each.mode == "update" or each.history) for each in plan.operators):
        return []
    return [each for each in plan.operators if each.kind in ("join", "outer")]
