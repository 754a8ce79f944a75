"""Which horizon serves best: step 3 of `watersmeet.adapt.spilling.adaptive`.

The model plays the epochs to come once for each horizon: rows arrive, operators join, and whenever the live bytes
exceed the budget the groups of least worth are spilled. The horizon with the most results wins.

All sites are played as one, with a budget in proportion. Nobody knows for how long a query will go on. As a rule things
last about as long again as they have lasted: one that has run for n epochs is still there after m more with a chance of
n / (n + m), and by that the results of that epoch count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.spilling.candidates import Candidate, Pressure, bytes_to_free
from watersmeet.adapt.spilling.model import Facts, Live, forecast
from watersmeet.adapt.spilling.worth import worths
from watersmeet.adapt.statistics import Floats

HORIZONS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""In epochs."""

EPOCHS = 24
"""How far the model plays. Longer games invest more, in what is paid back only where the query goes on for as long."""

AGE_MIN = 6
"""A query is taken to have lasted for so many epochs at least."""


@dataclass(frozen=True)
class Game:
    """Under which budget, the part that each spill frees at least, and what a result of each epoch counts."""

    budget_bytes: float
    fraction: float
    counts: Floats


def best_horizon(
    facts: Sequence[Facts], live: Sequence[Live], candidates: Sequence[Candidate], pressure: Pressure
) -> float:
    """The horizon whose play yields most; the shortest of equals."""
    budget = pressure.budget_bytes / max(_share_of_site(candidates), 1e-9)
    game = Game(budget, pressure.fraction, still_there(pressure.epoch))
    return max(HORIZONS, key=lambda horizon: _score(facts, live, horizon, game))


def still_there(age: int) -> Floats:
    """The chance that a query which has run for so many epochs goes on for one more, two more, and so on.

    >>> still_there(age=10)[[0, 1, 10]].round(2).tolist()
    [1.0, 0.91, 0.5]
    """
    lasted = max(age, AGE_MIN)
    chances: Floats = lasted / (lasted + np.arange(EPOCHS))
    return chances


def played(
    facts: Sequence[Facts], live: Sequence[Live], horizon: float, game: Game
) -> Iterator[tuple[Sequence[Live], float]]:
    """Epoch by epoch, what is live when its rows arrive, and the final results they make."""
    for _ in game.counts:
        total = sum(float(state.size.sum()) for state in live)
        if total > game.budget_bytes:
            need = bytes_to_free(total, game.budget_bytes, game.fraction)
            live = _spilled(live, worths(facts, live, horizon), need)
        arrived, made = forecast(facts, live, 1.0)
        yield live, float(made[-1].sum())
        live = [state.plus(new) for state, new in zip(live, arrived, strict=True)]


def _score(facts: Sequence[Facts], live: Sequence[Live], horizon: float, game: Game) -> float:
    made = [results for _, results in played(facts, live, horizon, game)]
    return float(game.counts @ made)


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
