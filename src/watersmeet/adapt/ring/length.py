"""How many sites a ring has: the least work, or the shortest wait, by the cost model with measured parameters (`cost`).

After each epoch the time that the sites of a ring were busy is compared with what they had to do: pairs of new and
stored rows, and new rows that all of them had to look at. Both prices follow by least squares, older epochs counting
less; both show because the state grows while new rows do not. An epoch is to the model what a row is to the paper: a
batch of probes that goes round together.

What an epoch takes beyond the busiest site's work is the time of its hops, and what Spark takes for any epoch. As long
as the ring had one length only, all of it is taken for hops; another length shows which part follows the sites. The
first epoch of a run does not count: it has a cold JVM.

A ring gets another length if that is better by `GAIN` in the model, at most every `HOLD` epochs. Its groups are then
spread evenly over so many sites; the others have none, so that new rows do not come to them. They go there at once or
step by step (`relocation`). While the length stays, its sites are kept level (`smoothing`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from watersmeet.adapt.moving.distribution import even
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.adapt.ring.cost import Goal, Step, Times, best_length, latency, output_gain
from watersmeet.adapt.ring.relocation import Relocation, moves, next_groups
from watersmeet.adapt.ring.smoothing import smoothed
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.model.plan import Operator
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest
from watersmeet.state.sizes import rows_and_bytes

GAIN = 0.1
HOLD = 8
LEARN = 3
AGED = 0.9
"""What an epoch counts after another one."""


@dataclass
class Fit:
    """Two prices that explain what was seen, by least squares; older observations count less.

    >>> fit = Fit()
    >>> fit.add(3, 1, 7.0)
    >>> fit.solved[1]
    0.0
    >>> fit.add(1, 1, 3.0)
    >>> [round(price, 6) for price in fit.solved]
    [2.0, 1.0]
    """

    _products: Floats = field(default_factory=lambda: np.zeros((2, 2)))
    _answers: Floats = field(default_factory=lambda: np.zeros(2))

    def add(self, first: float, second: float, seen: float) -> None:
        """So much of the one and of the other took so long together."""
        asked = np.array([first, second])
        self._products = AGED * self._products + np.outer(asked, asked)
        self._answers = AGED * self._answers + asked * seen

    @property
    def solved(self) -> tuple[float, float]:
        """The prices of which none is below 0 that explain most; the first alone where they cannot be told apart."""
        (a, b), (_, d) = self._products
        x, y = self._answers
        whole = a * d - b * b
        if whole <= 1e-9 * a * d:
            return float(x / a) if a else 0.0, 0.0
        if min(d * x - b * y, a * y - b * x) >= 0:
            return float((d * x - b * y) / whole), float((a * y - b * x) / whole)
        alone = [(float(x / a), 0.0), (0.0, float(y / d))]
        return max(alone, key=lambda each: each[0] * x + each[1] * y)


@dataclass
class Prices:
    """What a pair of rows and a row at a site take, learned from epochs.

    >>> prices = Prices()
    >>> for pairs in (1e3, 2e3, 4e3):
    ...     prices.learn(pairs, rows=100, sites=2, busy_s=pairs * 1e-6 + 100 * 2 * 1e-5, wait_s=0.1)
    >>> round(prices.pair_s * 1e6, 3), round(prices.send_s * 1e5, 3), prices.epochs
    (1.0, 1.0, 3)
    """

    epochs: int = 0
    _work: Fit = field(default_factory=Fit)
    _waits: Fit = field(default_factory=Fit)

    def learn(self, pairs: float, rows: float, sites: int, busy_s: float, wait_s: float) -> None:
        """An epoch has looked at so many pairs, and took so much longer than its busiest site."""
        self._work.add(pairs, rows * sites, busy_s)
        self._waits.add(sites, 1.0, wait_s)
        self.epochs += 1

    @property
    def pair_s(self) -> float:
        """T_j: of a pair."""
        return self._work.solved[0]

    @property
    def send_s(self) -> float:
        """T_s: of a row at a site."""
        return self._work.solved[1]

    @property
    def site_s(self) -> float:
        """What each site adds to an epoch's hops."""
        return self._waits.solved[0]

    @property
    def fixed_s(self) -> float:
        """What any epoch takes, on however many sites."""
        return self._waits.solved[1]


@dataclass(frozen=True)
class Model:
    """A ring as it was in its last epoch, in terms of the cost model."""

    steps: tuple[Step, ...]
    times: Times
    prices: Prices
    sites: int

    def epoch_s(self, sites: int) -> float:
        """How long an epoch takes on so many sites."""
        return self.prices.fixed_s + latency(self.steps, self.times, sites)


@dataclass
class RingPolicy:
    """Gives rings the number of sites that is best for a goal."""

    goal: Goal
    relocation: Relocation = "aggressive"
    moments: frozenset[Moment] = frozenset({"step"})
    models: dict[OperatorId, Model] = field(default_factory=dict)
    _prices: dict[OperatorId, Prices] = field(default_factory=dict)
    _changed: dict[OperatorId, int] = field(default_factory=dict)
    _targets: dict[OperatorId, tuple[tuple[SiteId, ...], str]] = field(default_factory=dict)
    _is_warm: bool = False

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Moves that make a ring longer or shorter."""
        load, manifest = view.load, view.manifest
        if load is None or not load.is_shared:  # one process does the work of all sites: their number does not matter
            return
        if not self._is_warm:
            self._is_warm = True
            return
        for ring in (each for each in manifest.plan.operators if each.kind == "ring"):
            if max(self._targets.get(ring.id, ((), ""))[0], default=-1) >= manifest.sites:
                del self._targets[ring.id]  # a site on the way to which groups were is gone
            if ring.id not in self._targets:
                self._decide(manifest, ring, load)
            yield from self._moves(manifest, ring)

    def holds(self, manifest: Manifest) -> dict[OperatorId, GroupSet]:
        """The groups of rings: others that level sites would undo their length."""
        return {each.id: GroupSet.all(manifest.groups) for each in manifest.plan.operators if each.kind == "ring"}

    def _decide(self, manifest: Manifest, ring: Operator, load: EpochLoad) -> None:
        """Learn from an epoch, and set where groups are to go; while they go, a ring has no length to learn from."""
        model = self._measured(manifest, ring, load)
        if model is None:
            return
        self.models[ring.id] = model
        epoch = model.prices.epochs
        best = best_length(model.steps, model.times, manifest.sites, self.goal)
        if epoch < LEARN or epoch - self._changed.get(ring.id, -HOLD) < HOLD:
            return
        if self._pays(model, best):
            told = (
                f"{best} sites are better for {self.goal} than {model.sites}: a pair takes {model.prices.pair_s:.2g} s"
            )
            self._targets[ring.id] = even(manifest.groups, min(best, manifest.groups)), told
            self._changed[ring.id] = epoch
        elif level := smoothed(manifest.operators[ring.id].routing, _rows_by_group(manifest, ring.id)):
            self._targets[ring.id] = tuple(level), "sites of the ring store about as many rows then"
            self._changed[ring.id] = epoch

    def _moves(self, manifest: Manifest, ring: Operator) -> Iterator[Suggestion]:
        """The next groups on their way."""
        if ring.id not in self._targets:
            return
        target, reason = self._targets[ring.id]
        now = manifest.operators[ring.id].routing
        groups = next_groups(now, target, _rows_by_group(manifest, ring.id), self.relocation)
        if not groups:
            del self._targets[ring.id]
        for change in moves(ring.id, groups, now, target, f"ring-{self.goal}", f"{reason} ({self.relocation})"):
            yield Suggestion(change, {ring.id: change.groups})

    def lines(self, manifest: Manifest) -> Iterator[str]:
        """The numbers, for people."""
        yield f"ringGoal {self.goal}, {self.relocation} relocation"
        for name, model in self.models.items():
            best = best_length(model.steps, model.times, manifest.sites, self.goal)
            now, then, prices = model.epoch_s(model.sites), model.epoch_s(best), model.prices
            yield (
                f"    {name}: {prices.pair_s * 1e9:.0f} ns a pair, {prices.send_s * 1e6:.1f} us a row and site, "
                f"{prices.site_s * 1e3:.0f} ms a site for hops, {prices.fixed_s * 1e3:.0f} ms for any epoch"
            )
            yield (
                f"    {name}: on {model.sites} of {manifest.sites} sites an epoch takes {now * 1e3:.0f} ms by these, "
                f"on {best}, the best number, {then * 1e3:.0f} ms"
            )

    def _measured(self, manifest: Manifest, ring: Operator, load: EpochLoad) -> Model | None:
        rows = [float(load.came.get((ring.id, source.name), 0)) for source in ring.inputs]
        stored = [_live_rows(manifest, ring.id, source.name) for source in ring.inputs]
        pairs = rows[0] * stored[1] + rows[1] * stored[0]
        if not pairs:
            return None
        sites = len(set(manifest.operators[ring.id].routing))
        busy_s = float(load.busy_ms[ring.level].sum()) / 1e3
        wait_s = max(0.0, load.duration_ms - float(load.busy_ms.sum(axis=0).max())) / 1e3
        prices = self._prices.setdefault(ring.id, Prices())
        prices.learn(pairs, sum(rows), sites, busy_s, wait_s)
        steps = (Step(pairs / sum(rows), 0.0),)
        hop_s = prices.site_s / (len(steps) + 1)
        return Model(steps, Times(prices.pair_s * sum(rows), prices.send_s * sum(rows), hop_s), prices, sites)

    def _pays(self, model: Model, best: int) -> bool:
        if best == model.sites:
            return False
        if self.goal == "output":
            now, then = (output_gain(model.steps, model.times, sites) for sites in (model.sites, best))
            return then > now * (1 + GAIN)
        return model.epoch_s(best) * (1 + GAIN) < model.epoch_s(model.sites)


def _live_rows(manifest: Manifest, operator: OperatorId, source: str) -> float:
    """How many rows of an input are live."""
    parts = (part for part in manifest.operators[operator].slices if part.tier == "memory")
    mine = ((manifest.runs[part.run], part.groups) for part in parts if manifest.runs[part.run].input == source)
    return float(sum(run.rows * len(groups) / max(1, len(run.groups)) for run, groups in mine))


def _rows_by_group(manifest: Manifest, operator: OperatorId) -> npt.NDArray[np.int64]:
    """How many rows of all inputs are live in each group."""
    live = (part for part in manifest.operators[operator].slices if part.tier == "memory")
    return rows_and_bytes(manifest, live)[0]
