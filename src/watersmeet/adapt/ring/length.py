"""How many sites a ring has: the least work, or the shortest wait, by the cost model with measured parameters (`cost`).

After each epoch the time that the sites of a ring were busy is compared with what they had to do: pairs of new and
stored rows, and new rows that all of them had to look at. Both prices follow by least squares, older epochs counting
less; both show because the state grows while new rows do not. What an epoch takes beyond the busiest site's work is the
time of its hops. An epoch is to the model what a row is to the paper: a batch of probes that goes round together.

A ring gets another length if that is better by `GAIN` in the model, at most every `HOLD` epochs. Its groups are then
spread evenly over so many sites; the others have none, so that new rows do not come to them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.distribution import even
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.adapt.ring.cost import Goal, Step, Times, best_length, latency, output_gain
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.model.plan import Operator
from watersmeet.state.changes import MoveGroups
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest

GAIN = 0.1
HOLD = 8
LEARN = 3
AGED = 0.9
"""What an epoch counts after another one."""


@dataclass
class Prices:
    """What a pair of rows and a row at a site take, learned from epochs.

    >>> prices = Prices()
    >>> for pairs in (1e3, 2e3, 4e3):
    ...     prices.learn(pairs, rows=100, sites=2, busy_s=pairs * 1e-6 + 100 * 2 * 1e-5, hops_s=0.1)
    >>> round(prices.pair_s * 1e6, 3), round(prices.send_s * 1e5, 3), prices.epochs
    (1.0, 1.0, 3)
    """

    epochs: int = 0
    hops_s: float = 0.0
    _products: Floats = field(default_factory=lambda: np.zeros((2, 2)))
    _answers: Floats = field(default_factory=lambda: np.zeros(2))

    def learn(self, pairs: float, rows: float, sites: int, busy_s: float, hops_s: float) -> None:
        """An epoch has looked at so many pairs."""
        asked = np.array([pairs, rows * sites])
        self._products = AGED * self._products + np.outer(asked, asked)
        self._answers = AGED * self._answers + asked * busy_s
        self.hops_s = hops_s if not self.epochs else AGED * self.hops_s + (1 - AGED) * hops_s
        self.epochs += 1

    @property
    def pair_s(self) -> float:
        """T_j: of a pair."""
        return self._solved[0]

    @property
    def send_s(self) -> float:
        """T_s: of a row at a site."""
        return self._solved[1]

    @property
    def _solved(self) -> tuple[float, float]:
        """The prices of which none is below 0 that explain most."""
        (a, b), (_, d) = self._products
        x, y = self._answers
        whole = a * d - b * b
        if whole > 1e-9 * a * d and min(d * x - b * y, a * y - b * x) >= 0:
            return float((d * x - b * y) / whole), float((a * y - b * x) / whole)
        alone = [(x / a if a else 0.0, 0.0), (0.0, y / d if d else 0.0)]
        return max(alone, key=lambda each: each[0] * x + each[1] * y)


@dataclass(frozen=True)
class Model:
    """A ring as it was in its last epoch, in terms of the cost model."""

    steps: tuple[Step, ...]
    times: Times
    prices: Prices
    sites: int


@dataclass
class RingPolicy:
    """Gives rings the number of sites that is best for a goal."""

    goal: Goal
    moments: frozenset[Moment] = frozenset({"step"})
    models: dict[OperatorId, Model] = field(default_factory=dict)
    _prices: dict[OperatorId, Prices] = field(default_factory=dict)
    _changed: dict[OperatorId, int] = field(default_factory=dict)

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Moves that make a ring longer or shorter."""
        load, manifest = view.load, view.manifest
        if load is None or not load.is_shared:  # one process does the work of all sites: their number does not matter
            return
        for ring in (each for each in manifest.plan.operators if each.kind == "ring"):
            model = self._measured(manifest, ring, load)
            if model is None:
                continue
            self.models[ring.id] = model
            epoch = model.prices.epochs
            best = best_length(model.steps, model.times, manifest.sites, self.goal)
            if epoch >= LEARN and epoch - self._changed.get(ring.id, -HOLD) >= HOLD and self._pays(model, best):
                self._changed[ring.id] = epoch
                yield from self._moves(manifest, ring, model, best)

    def lines(self, manifest: Manifest) -> Iterator[str]:
        """The numbers, for people."""
        yield f"ringGoal {self.goal}"
        for name, model in self.models.items():
            best = best_length(model.steps, model.times, manifest.sites, self.goal)
            now, then = (latency(model.steps, model.times, sites) for sites in (model.sites, best))
            yield (
                f"    {name}: {model.prices.pair_s * 1e9:.0f} ns a pair, {model.prices.send_s * 1e6:.1f} us a row and "
                f"site, {model.prices.hops_s * 1e3:.0f} ms for hops; {model.sites} sites, best are {best} of "
                f"{manifest.sites}: {then * 1e3:.0f} ms an epoch, now {now * 1e3:.0f}"
            )

    def _measured(self, manifest: Manifest, ring: Operator, load: EpochLoad) -> Model | None:
        rows = [float(load.came.get((ring.id, source.name), 0)) for source in ring.inputs]
        stored = [_live_rows(manifest, ring.id, source.name) for source in ring.inputs]
        pairs = rows[0] * stored[1] + rows[1] * stored[0]
        if not pairs:
            return None
        sites = len(set(manifest.operators[ring.id].routing))
        busy_s = float(load.busy_ms[ring.level].sum()) / 1e3
        hops_s = max(0.0, load.duration_ms - float(load.busy_ms.sum(axis=0).max())) / 1e3
        prices = self._prices.setdefault(ring.id, Prices())
        prices.learn(pairs, sum(rows), sites, busy_s, hops_s)
        steps = (Step(pairs / sum(rows), 0.0),)
        hop_s = prices.hops_s / ((len(steps) + 1) * sites)
        return Model(steps, Times(prices.pair_s * sum(rows), prices.send_s * sum(rows), hop_s), prices, sites)

    def _pays(self, model: Model, best: int) -> bool:
        if best == model.sites:
            return False
        if self.goal == "output":
            now, then = (output_gain(model.steps, model.times, sites) for sites in (model.sites, best))
            return then > now * (1 + GAIN)
        now, then = (latency(model.steps, model.times, sites) for sites in (model.sites, best))
        return then * (1 + GAIN) < now

    def _moves(self, manifest: Manifest, ring: Operator, model: Model, best: int) -> Iterator[Suggestion]:
        before, after = manifest.operators[ring.id].routing, even(manifest.groups, min(best, manifest.groups))
        pairs: dict[tuple[SiteId, SiteId], list[int]] = {}
        for group, pair in enumerate(zip(before, after, strict=True)):
            if pair[0] != pair[1]:
                pairs.setdefault(pair, []).append(group)
        reason = f"{best} sites are better for {self.goal} than {model.sites}: a pair takes {model.prices.pair_s:.2g} s"
        for (old, new), numbers in pairs.items():
            groups = GroupSet.of(numbers)
            change = MoveGroups(ring.id, groups, old, new, f"ring-{self.goal}", reason=reason)
            yield Suggestion(change, {ring.id: groups})


def _live_rows(manifest: Manifest, operator: OperatorId, source: str) -> float:
    """How many rows of an input are live."""
    parts = (part for part in manifest.operators[operator].slices if part.tier == "memory")
    mine = ((manifest.runs[part.run], part.groups) for part in parts if manifest.runs[part.run].input == source)
    return float(sum(run.rows * len(groups) / max(1, len(run.groups)) for run, groups in mine))
