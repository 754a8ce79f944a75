"""Which horizon serves best: step 3 of `watersmeet.adapt.spilling.adaptive`.

The model plays the epochs to come once for each horizon: rows arrive, operators join, and whenever the live bytes
exceed the budget the groups of least worth are spilled. The horizon with the most results wins.

All sites are played as one, with a budget in proportion. A query that has run for n epochs is expected to run for n
more, between `EPOCHS_MIN` and `EPOCHS_MAX`; what is further away is less certain and counts less.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.spilling.candidates import Candidate, Pressure
from watersmeet.adapt.spilling.model import Facts, Live, forecast
from watersmeet.adapt.spilling.worth import worths
from watersmeet.adapt.statistics import Floats

HORIZONS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""In epochs."""

EPOCHS_MIN, EPOCHS_MAX = 6, 24
"""How far the model plays: a few spills at least, and no further than its errors allow."""

CERTAINTY = 0.98
"""What a result counts less with every epoch that it is further away."""


@dataclass(frozen=True)
class Game:
    """For how many epochs, under which budget, and the part that each spill frees."""

    epochs: int
    budget_bytes: float
    fraction: float


def best_horizon(
    facts: Sequence[Facts], live: Sequence[Live], candidates: Sequence[Candidate], pressure: Pressure
) -> float:
    """The horizon whose play yields most; the shortest of equals."""
    game = Game(
        min(max(pressure.epoch, EPOCHS_MIN), EPOCHS_MAX),
        pressure.budget_bytes / max(_share_of_site(candidates), 1e-9),
        pressure.need_bytes / max(pressure.live_bytes, 1),
    )
    return max(HORIZONS, key=lambda horizon: _play(facts, live, horizon, game))


def _play(facts: Sequence[Facts], live: Sequence[Live], horizon: float, game: Game) -> float:
    results = 0.0
    for epoch in range(game.epochs):
        total = sum(float(state.size.sum()) for state in live)
        if total > game.budget_bytes:
            live = _spilled(live, worths(facts, live, horizon), total * game.fraction)
        arrived, made = forecast(facts, live, 1.0)
        results += CERTAINTY**epoch * float(made[-1].sum())
        live = [state.plus(new) for state, new in zip(live, arrived, strict=True)]
    return results


def _spilled(live: Sequence[Live], worth: Sequence[Floats], need_bytes: float) -> list[Live]:
    """Spill the groups of least worth, as `least_worth_first` would; chance has no part in it."""
    sizes = [state.size.sum(axis=0) for state in live]
    size = np.concatenate(sizes)
    order = np.argsort(np.concatenate(worth), kind="stable")
    freed_before = np.cumsum(size[order]) - size[order]
    gone = np.zeros(len(size), dtype=bool)
    gone[order[(freed_before < need_bytes) & (size[order] > 0)]] = True
    bounds = np.cumsum([len(each) for each in sizes])[:-1]
    return [state.without(mask) for state, mask in zip(live, np.split(gone, bounds), strict=True)]


def _share_of_site(candidates: Sequence[Candidate]) -> float:
    """The part of all arriving bytes that goes to this site; what other sites hold may just have been spilled."""
    arriving = [each.statistics.aged_bytes.sum(axis=0) for each in candidates]
    here = sum(float(got[each.live_bytes > 0].sum()) for got, each in zip(arriving, candidates, strict=True))
    return here / max(sum(float(got.sum()) for got in arriving), 1e-9)
