import numpy as np
import pytest

from watersmeet.adapt.change import CHANGE_FROM, GROUPS_MIN, learn, surprise
from watersmeet.adapt.spilling import STRATEGIES, Candidate, Pressure, choose
from watersmeet.adapt.statistics import AGEING, Observation, Statistics
from watersmeet.model.ids import OperatorId

GROUPS = 50
ARRIVED = np.full(GROUPS, 2048.0)
NOTHING = np.zeros(GROUPS)
FACTORS = (0.25, 0.5, 1.0, 2.0, 3.0)


def observed(results):
    return Observation(ARRIVED, np.asarray(results, dtype=np.float64), NOTHING, NOTHING)


def exposed(known):
    held = known.live_by_input[0] / 1024
    return (held + 1) ** 2 - held**2


def poisson(known, rates, rng, bunch=1):
    """Results come by so many at once."""
    return observed(rng.poisson(rates * exposed(known) / bunch) * bunch)


def settled(rates, rng, epochs=20, bunch=1):
    known = Statistics.cold(GROUPS)
    for epoch in range(epochs):
        known = known.after(poisson(known, rates, rng, bunch), epoch)
    return known


def dealt_out(rng):
    return rng.permutation(np.resize(np.asarray(FACTORS), GROUPS))


@pytest.mark.parametrize("bunch", [1, 5])
@pytest.mark.parametrize("seed", range(5))
def test_settled_data_raise_no_alarm(seed, bunch):
    rng = np.random.default_rng(seed)
    rates, known, surprises = dealt_out(rng), Statistics.cold(GROUPS), []
    for epoch in range(50):
        seen = poisson(known, rates, rng, bunch)
        surprises.append(surprise(known, seen))
        known = known.after(seen, epoch)
        if epoch % 3 == 2:
            known = known.without(rng.random(GROUPS) < 0.5)
    assert max(surprises) < CHANGE_FROM
    assert np.mean(surprises[25:]) == pytest.approx(1, abs=0.4)


@pytest.mark.parametrize("bunch", [1, 5])
def test_rates_that_are_dealt_out_anew_are_noticed_at_once_and_soon_known(bunch):
    rng = np.random.default_rng(1)
    known = slow = settled(dealt_out(rng), rng, bunch=bunch)
    now = dealt_out(rng)
    assert surprise(known, poisson(known, now, rng, bunch)) > 1.5 * CHANGE_FROM
    for epoch in range(20, 24):
        seen = poisson(known, now, rng, bunch)
        [known], slow = learn([known], [seen], epoch), slow.after(seen, epoch)
    errors = [np.abs(each.aged_local / each.aged_exposure - now).mean() for each in (known, slow)]
    assert errors[0] < 0.5 * errors[1]


def test_one_group_alone_raises_no_alarm():
    rng = np.random.default_rng(2)
    rates = dealt_out(rng)
    known = settled(rates, rng)
    rates[7] *= 100
    assert surprise(known, poisson(known, rates, rng)) < CHANGE_FROM


@pytest.mark.parametrize("times", [0.2, 5.0])
def test_more_or_fewer_results_of_all_groups_raise_no_alarm(times):
    rng = np.random.default_rng(3)
    rates = dealt_out(rng)
    known = settled(rates, rng)
    assert surprise(known, observed(rates * exposed(known) * times)) < CHANGE_FROM


def test_all_operators_forget_with_the_one_that_noticed():
    rng = np.random.default_rng(4)
    rates = dealt_out(rng)
    changed, silent = settled(rates, rng), Statistics.cold(GROUPS).after(observed(np.ones(GROUPS)), 0)
    calm = learn([changed, silent], [poisson(changed, rates, rng), observed(NOTHING)], 20)
    moved = learn([changed, silent], [poisson(changed, rates[::-1], rng), observed(NOTHING)], 20)
    assert calm[1].aged_local[0] == pytest.approx(AGEING)
    assert moved[1].aged_local[0] < 0.6 * AGEING


def test_a_few_groups_do_not_tell():
    few = GROUPS_MIN - 1
    known = Statistics.cold(few)
    for epoch, results in enumerate([100.0, 300.0]):
        seen = Observation(np.full(few, 2048.0), np.full(few, results), np.zeros(few), np.zeros(few))
        known = known.after(seen, epoch)
    turned = Observation(np.full(few, 2048.0), np.arange(few) * 500.0, np.zeros(few), np.zeros(few))
    assert surprise(known, turned) == 0


def test_a_query_without_operators_learns_nothing():
    assert learn([], [], 1) == []


def test_how_much_groups_differ_outlives_what_they_were():
    rng = np.random.default_rng(5)
    known = settled(dealt_out(rng), rng)
    forgotten = known.after(observed(NOTHING), 20, trust=0.0)
    assert forgotten.aged_local.sum() == 0
    assert forgotten.spread == pytest.approx(known.spread)
    assert known.spread == pytest.approx(np.var(FACTORS) / np.mean(FACTORS) ** 2, rel=0.2)


def test_a_change_is_not_taken_for_chance_from_then_on():
    rng = np.random.default_rng(6)
    known = settled(dealt_out(rng), rng)
    [turned] = learn([known], [poisson(known, dealt_out(rng) * 10, rng)], 20)
    assert known.dispersion <= turned.dispersion < 3 * known.dispersion


@pytest.mark.slow
def test_results_that_stay_away_for_days_leave_numbers_that_can_be_stored_and_decided_by():
    known = Statistics.cold(groups=20)
    some = Observation(np.full(20, 2048.0), np.arange(20.0), np.zeros(20), np.zeros(20))
    none = Observation(np.full(20, 2048.0), np.zeros(20), np.zeros(20), np.zeros(20))
    with np.errstate(all="raise", under="ignore"):
        [known] = learn([known], [some], 0)
        for epoch in range(1, 9000):
            [known] = learn([known], [none], epoch)
            if epoch % 500 == 0:
                join = Candidate(OperatorId("join"), 0, None, known.size_bytes, known)
                pressure = Pressure(1000, int(known.size_bytes.sum()), 0.3, epoch)
                assert all(choose(strategy, [join], pressure)["join"] for strategy in STRATEGIES)
            known = known.without(np.full(20, epoch % 5 == 0))
    assert all(np.isfinite(values.array).all() for values in known.stored().values())
    assert np.isfinite(known.spread)
    assert known.aged_local.sum() == 0


@pytest.mark.slow
def test_one_group_that_gets_no_more_rows_does_not_make_all_others_equal():
    """Its exposure ages to nothing, while the others go on as ever."""
    rng = np.random.default_rng(7)
    rates = dealt_out(rng)
    active = np.arange(len(rates)) > 0
    known = Statistics.cold(len(rates))
    first = np.full(len(rates), 2048.0)
    with np.errstate(all="raise", under="ignore"):
        for epoch in range(8000):
            arrived = first if epoch == 0 else first * active
            made = rates * arrived / 2048.0 * 10
            [known] = learn([known], [Observation(arrived, made, np.zeros_like(made), np.zeros_like(made))], epoch)
            known = known.without(np.ones(len(rates), dtype=bool))
    assert known.spread > 0.1
    assert np.isfinite(known.spread)
