"""The game that `adaptive` plays before it decides: does it go as the run itself does?"""

import numpy as np
import pytest

from watersmeet.adapt.spilling import choose
from watersmeet.adapt.spilling.candidates import Pool, Pressure, least_worth_first
from watersmeet.adapt.spilling.foresight import EPOCHS, HORIZONS, Game, best_horizon, played, still_there
from watersmeet.adapt.spilling.model import facts_of, live_of
from watersmeet.adapt.spilling.worth import worths
from watersmeet.lab.spill.settings import Setting, Size
from watersmeet.runners.counts import Limits, Simulation, simulate

SIZE = Size(epochs=36, rows=600, tuple_range=9000, groups=40)
START = 16
SHARE = 0.08


def run_until_the_start(kind, sites=1):
    workload = Setting(kind, (3, 2, 3)).workload(SIZE, 3)
    limits = Limits(int(simulate(workload).peak_bytes * SHARE), sites)
    run = Simulation(workload)
    for epoch in range(START + 1):
        run.step(epoch)
        if epoch < START:
            run.relieve(epoch, limits, lambda _, candidates, pressure: choose("adaptive", candidates, pressure))
    return run, limits


def of(run):
    candidates = run.candidates(np.ones(SIZE.groups))
    return facts_of(candidates), [live_of(candidate) for candidate in candidates]


def by_horizon(horizon):
    def decide(_, candidates, pressure):
        found = worths(facts_of(candidates), [live_of(candidate) for candidate in candidates], horizon)
        pool = Pool.of(candidates)
        return least_worth_first(pool, np.stack(found)[pool.place, pool.group], pressure)

    return decide


@pytest.mark.parametrize("horizon", [1.0, 4.0, 8.0])
def test_the_game_foresees_the_results_of_the_run(horizon):
    run, limits = run_until_the_start("independent")
    game = Game(limits.budget_bytes, limits.spill_fraction, np.ones(SIZE.epochs - START - 1))
    foreseen = sum(results for _, results in played(*of(run), horizon, game))
    run.relieve(START, limits, by_horizon(horizon))
    for epoch in range(START + 1, SIZE.epochs):
        run.step(epoch)
        run.relieve(epoch, limits, by_horizon(horizon))
    assert foreseen == pytest.approx(sum(run.produced[-1][START + 1 :]), rel=0.25)


def test_a_spill_in_the_game_frees_all_that_is_above_the_budget_however_much_an_epoch_brings():
    run, limits = run_until_the_start("independent")
    game = Game(limits.budget_bytes / 4, limits.spill_fraction, np.ones(EPOCHS))
    held = [sum(float(state.size.sum()) for state in live) for live, _ in played(*of(run), 1.0, game)]
    assert max(held) <= game.budget_bytes


def test_the_horizon_with_the_most_results_is_taken():
    run, limits = run_until_the_start("independent")
    candidates = run.candidates(np.ones(SIZE.groups))
    pressure = Pressure(limits.budget_bytes, run.live_bytes[-1], limits.spill_fraction, START)
    game = Game(limits.budget_bytes, limits.spill_fraction, still_there(START))
    facts, live = of(run)
    scores = {
        horizon: sum(
            count * made for count, (_, made) in zip(game.counts, played(facts, live, horizon, game), strict=True)
        )
        for horizon in HORIZONS
    }
    assert len({round(score) for score in scores.values()}) > 1
    assert scores[best_horizon(facts, live, candidates, pressure)] == max(scores.values())


def test_an_old_query_looks_further_ahead_than_a_young_one():
    young, old = still_there(age=6), still_there(age=200)
    assert young[0] == old[0] == 1.0
    assert young[-1] < 0.25
    assert old[-1] > 0.85
    assert still_there(age=0).tolist() == still_there(age=6).tolist()
