"""The game that `adaptive` plays before it decides: does it go as the run itself does?"""

import numpy as np
import pytest

from watersmeet.adapt.spilling import choose
from watersmeet.adapt.spilling.candidates import Pool, least_worth_first
from watersmeet.adapt.spilling.foresight import EPOCHS, HORIZONS, Game, best_horizon, played, still_there
from watersmeet.adapt.spilling.model import facts_of, live_of
from watersmeet.adapt.spilling.worth import worths
from watersmeet.lab.spill.settings import Setting, Size
from watersmeet.runners.counts import Limits, simulate

SIZE = Size(epochs=36, rows=600, tuple_range=9000, groups=40)
START = 16
SHARE = 0.08


class FromTheStart:
    """Spills by our own strategy until the start, and from then on by one horizon; keeps what is known at the start."""

    def __init__(self, horizon=1.0):
        self.horizon, self.candidates, self.pressure = horizon, None, None

    def __call__(self, _):
        return self.choose

    def choose(self, candidates, pressure):
        if pressure.epoch < START:
            return choose("adaptive", candidates, pressure)
        if self.candidates is None:
            self.candidates, self.pressure = candidates, pressure
        found = worths(facts_of(candidates), [live_of(candidate) for candidate in candidates], self.horizon)
        pool = Pool.of(candidates)
        return least_worth_first(pool, np.stack(found)[pool.place, pool.group], pressure)

    @property
    def known(self):
        return facts_of(self.candidates), [live_of(candidate) for candidate in self.candidates]


def run(kind, horizon=1.0):
    workload = Setting(kind, (3, 2, 3)).workload(SIZE, 3)
    limits = Limits(int(simulate(workload).peak_bytes * SHARE), sites=1)
    start = FromTheStart(horizon)
    return start, limits, simulate(workload, limits, start)


@pytest.mark.parametrize("horizon", [1.0, 4.0, 8.0])
def test_the_game_foresees_the_results_of_the_run(horizon):
    start, limits, outcome = run("independent", horizon)
    following = outcome.produced[-1][start.pressure.epoch + 1 :]
    game = Game(limits.budget_bytes, limits.spill_fraction, np.ones(len(following)))
    foreseen = sum(results for _, results in played(*start.known, horizon, game))
    assert len(following) > 12
    assert foreseen == pytest.approx(sum(following), rel=0.25)


def test_a_spill_in_the_game_frees_all_that_is_above_the_budget_however_much_an_epoch_brings():
    start, limits, _ = run("independent")
    game = Game(limits.budget_bytes / 4, limits.spill_fraction, np.ones(EPOCHS))
    held = [sum(float(state.size.sum()) for state in live) for live, _ in played(*start.known, 1.0, game)]
    assert max(held) <= game.budget_bytes


def test_the_horizon_with_the_most_results_is_taken():
    start, limits, _ = run("independent")
    game = Game(limits.budget_bytes, limits.spill_fraction, still_there(start.pressure.epoch))
    facts, live = start.known
    scores = {
        horizon: sum(
            count * made for count, (_, made) in zip(game.counts, played(facts, live, horizon, game), strict=True)
        )
        for horizon in HORIZONS
    }
    assert len({round(score) for score in scores.values()}) > 1
    assert scores[best_horizon(facts, live, start.candidates, start.pressure)] == max(scores.values())


def test_an_old_query_looks_further_ahead_than_a_young_one():
    young, old = still_there(age=6), still_there(age=200)
    assert young[0] == old[0] == 1.0
    assert young[-1] < 0.25
    assert old[-1] > 0.85
    assert still_there(age=0).tolist() == still_there(age=6).tolist()
