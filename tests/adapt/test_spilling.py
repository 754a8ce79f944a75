from dataclasses import replace

import numpy as np
import pytest

from watersmeet.adapt.spilling import DEFAULT_STRATEGY, STRATEGIES, Candidate, Pressure, choose
from watersmeet.adapt.spilling.candidates import Pool
from watersmeet.adapt.spilling.model import facts_of, live_of, prior_results
from watersmeet.adapt.spilling.worth import worths
from watersmeet.adapt.spread import differences, mean_rate
from watersmeet.adapt.statistics import Observation, Statistics
from watersmeet.model.errors import OptionError
from watersmeet.model.ids import OperatorId

GROUPS = 8
PAPERS = ("local-output", "global-output", "global-output-with-penalty")


def statistics(sizes, local=0.0, final=0.0, inter=0.0, epoch=3):
    values = [np.broadcast_to(np.asarray(each, dtype=np.float64), (len(sizes),)) for each in (local, final, inter)]
    return Statistics.cold(len(sizes)).after(Observation(np.asarray(sizes, dtype=np.float64), *values), epoch)


def candidate(name, level, known, parent=None, here=None):
    live = known.size_bytes if here is None else known.size_bytes * np.asarray(here)
    return Candidate(OperatorId(name), level, parent, live, known)


def pressure(need, epoch=3, seed=0, **more):
    return Pressure(budget_bytes=1200 - need, live_bytes=1200, fraction=0.0, epoch=epoch, seed=seed, **more)


def two_operators(rng):
    low = statistics(rng.integers(0, 50, GROUPS) * 10, *(rng.integers(0, 9, GROUPS) for _ in range(3)))
    high = statistics(rng.integers(0, 50, GROUPS) * 10, *(rng.integers(0, 9, GROUPS) for _ in range(3)))
    return [candidate("join1", 0, low, OperatorId("join2")), candidate("join2", 1, high)]


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestEveryStrategy:
    @pytest.mark.parametrize("need", [1, 300, 1500])
    def test_frees_what_is_needed_with_no_group_more_than_it_takes(self, strategy, need):
        candidates = two_operators(np.random.default_rng(need))
        chosen = choose(strategy, candidates, pressure(need))
        sizes = [float(each.live_bytes[group]) for each in candidates for group in chosen[each.operator]]
        assert sum(sizes) >= need
        assert sum(sizes) - max(sizes) < need

    def test_takes_all_there_is_where_that_is_not_enough(self, strategy):
        candidates = two_operators(np.random.default_rng(1))
        chosen = choose(strategy, candidates, pressure(10**9))
        for each in candidates:
            assert chosen[each.operator] == tuple(np.flatnonzero(each.live_bytes).tolist())

    def test_never_takes_an_empty_group_or_one_of_another_site(self, strategy):
        known = statistics([100, 0, 100, 100], local=1, final=1)
        chosen = choose(strategy, [candidate("join1", 0, known, here=[1, 1, 1, 0])], pressure(10**9))
        assert chosen == {"join1": (0, 2)}

    def test_decides_the_same_for_the_same_seed(self, strategy):
        candidates = two_operators(np.random.default_rng(2))
        assert choose(strategy, candidates, pressure(400, seed=5)) == choose(
            strategy, candidates, pressure(400, seed=5)
        )

    def test_copes_with_operators_of_which_nothing_is_known(self, strategy):
        cold = replace(statistics([10, 10]), aged_bytes=np.zeros((2, 2)))
        assert sum(map(len, choose(strategy, [candidate("join1", 0, cold)], pressure(5)).values())) == 1
        assert choose(strategy, [], pressure(5)) == {}

    def test_takes_idle_groups_first_where_asked_to(self, strategy):
        idle = statistics([100, 100], local=1000, final=1000, epoch=1)
        seen = Observation(np.array([0.0, 1.0]), np.zeros(2), np.zeros(2), np.zeros(2))
        known = idle.after(seen, epoch=9)
        chosen = choose(strategy, [candidate("join1", 0, known)], pressure(50, epoch=9, inactive_epochs=5))
        assert chosen == {"join1": (0,)}


def test_adaptive_is_the_default():
    assert DEFAULT_STRATEGY == "adaptive"


def test_a_strategy_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(OptionError, match="id you mean 'global-output'"):
        choose("global_output", [], pressure(1))


def test_bottom_up_takes_operators_from_the_bottom():
    candidates = [
        candidate("join3", 2, statistics([100] * 3)),
        candidate("join1", 0, statistics([100] * 3), OperatorId("join2")),
        candidate("join2", 1, statistics([100] * 3), OperatorId("join3")),
    ]
    assert choose("bottom-up", candidates, pressure(300)) == {"join3": (), "join1": (0, 1, 2), "join2": ()}
    assert len(choose("bottom-up", candidates, pressure(400))["join2"]) == 1


def test_random_and_bottom_up_depend_on_the_seed():
    candidates = [candidate("join1", 0, statistics([10] * 50))]
    for strategy in ("random", "bottom-up"):
        assert len({choose(strategy, candidates, pressure(100, seed=seed))["join1"] for seed in range(5)}) > 1


def test_lru_takes_the_group_that_was_used_longest_ago():
    known = statistics([100, 100, 100], local=[9, 0, 5])
    for epoch, used in ((4, 0), (5, 2), (6, 0)):
        arrived = np.zeros(3)
        arrived[used] = 1
        known = known.after(Observation(arrived, np.zeros(3), np.zeros(3), np.zeros(3)), epoch)
    order = [choose("lru", [candidate("join1", 0, known)], pressure(need)) for need in (1, 101)]
    assert order == [{"join1": (1,)}, {"join1": (1, 2)}]


@pytest.mark.parametrize(
    ("strategy", "first"), [("local-output", 0), ("global-output", 1), ("global-output-with-penalty", 2)]
)
def test_productivity_is_as_the_paper_defines_it(strategy, first):
    """Group 0 gives least of its own, group 1 least of the query's, group 2 least of it for what it causes."""
    known = statistics([100, 100, 100], local=[1, 5, 9], final=[5, 4, 6], inter=[0, 0, 900])
    assert choose(strategy, [candidate("join1", 0, known, OperatorId("join2"))], pressure(1)) == {"join1": (first,)}


def test_productivity_compares_groups_of_all_operators():
    low = statistics([100, 100], local=[1, 50], final=[1, 50])
    high = statistics([100, 100], local=[2, 60], final=[2, 60])
    candidates = [candidate("join1", 0, low, OperatorId("join2")), candidate("join2", 1, high)]
    for strategy in PAPERS:
        assert choose(strategy, candidates, pressure(200)) == {"join1": (0,), "join2": (0,)}


def run_of(results, epochs=12, size=4096.0):
    """An operator of two inputs whose groups make so many results of a pair of KiB."""
    known = Statistics.cold(len(results))
    for epoch in range(epochs):
        pairs = (epoch + 1) ** 2 - epoch**2
        made = np.asarray(results, dtype=np.float64) * pairs * (size / 2048) ** 2
        by_input = np.full((2, len(results)), size / 2)
        known = known.after(Observation(by_input.sum(axis=0), made, made, np.zeros(len(results)), by_input), epoch)
    return known


def test_adaptive_gives_up_what_yields_least():
    known = run_of([1.0, 5.0, 0.1, 3.0])
    assert choose("adaptive", [candidate("join1", 0, known)], pressure(1)) == {"join1": (2,)}


def test_adaptive_knows_a_group_again_that_was_spilled():
    """Young generations of a good and a bad group have hardly yielded anything; the papers cannot tell them apart."""
    known = run_of([5.0, 0.1]).without(np.array([True, True]))
    nothing = np.zeros(2)
    young = known.after(Observation(np.full(2, 4096.0), nothing, nothing, nothing), 12)
    worth = worths(facts_of([candidate("join1", 0, young)]), [live_of(candidate("join1", 0, young))], 4.0)[0]
    assert worth[0] > 10 * worth[1]


def test_adaptive_follows_drift():
    known = run_of([5.0, 0.5])
    turned = run_of([0.5, 5.0])
    for epoch in range(12, 40):
        pairs = (epoch + 1) ** 2 - epoch**2
        made = np.array([0.5, 5.0]) * pairs * 4
        by_input = np.full((2, 2), 2048.0)
        known = known.after(Observation(by_input.sum(axis=0), made, made, np.zeros(2), by_input), epoch)
    assert choose("global-output", [candidate("join1", 0, run_of([5.0, 0.5]))], pressure(1)) == {"join1": (1,)}
    assert choose("adaptive", [candidate("join1", 0, known)], pressure(1)) == {"join1": (0,)}
    assert choose("adaptive", [candidate("join1", 0, turned)], pressure(1)) == {"join1": (0,)}


def test_groups_that_differ_by_chance_are_taken_for_equal_and_others_are_not():
    rng = np.random.default_rng(1)
    by_chance, by_nature = Statistics.cold(50), Statistics.cold(50)
    rates = rng.choice([2.0, 20.0], 50)
    for epoch in range(20):
        arrived = np.full(50, 2048.0)
        pairs = 2.0 * epoch + 1
        for_all = [arrived, rng.poisson(10 * pairs, 50).astype(float), np.zeros(50), np.zeros(50)]
        by_chance = by_chance.after(Observation(*for_all), epoch)
        for_each = [arrived, rng.poisson(rates * pairs).astype(float), np.zeros(50), np.zeros(50)]
        by_nature = by_nature.after(Observation(*for_each), epoch)
    assert prior_results(by_chance) > 1000
    assert prior_results(by_nature) < 20


def chain(fed_by, order, trust=1.0):
    """Join2 joins a stream with what Join1 sends; the inputs come in the order given.

    ``trust`` is the part of what was known that still counted in the last epoch.
    """
    low, high = Statistics.cold(2), Statistics.cold(2)
    for epoch in range(10):
        streams = np.full((2, 2), 1024.0)
        made = np.array([2.0, 20.0]) * (2 * epoch + 1)
        sent = np.full(2, made.sum() * 100 / 2)
        counts = trust if epoch == 9 else 1.0
        low = low.after(Observation(streams.sum(axis=0), made, made / 2, made * 100, streams), epoch, counts)
        by_input = np.stack([np.full(2, 1024.0), sent])[order]
        high = high.after(Observation(by_input.sum(axis=0), made, made, np.zeros(2), by_input), epoch, counts)
    return [
        candidate("join1", 0, low, OperatorId("join2")),
        replace(candidate("join2", 1, high), fed_by=fed_by),
    ]


def test_the_model_finds_the_input_that_comes_from_below():
    join1 = OperatorId("join1")
    usual, given, turned = chain((), [0, 1]), chain((None, join1), [0, 1]), chain((join1, None), [1, 0])
    assert [facts_of(each)[1].feeders for each in (usual, given, turned)] == [((1, 0),), ((1, 0),), ((0, 0),)]
    found = [worths(facts_of(each), [live_of(one) for one in each], 4.0) for each in (usual, given, turned)]
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, two)


@pytest.mark.parametrize("trust", [1.0, 0.1])
def test_a_change_of_rates_changes_nothing_in_what_a_row_weighs(trust):
    assert facts_of(chain((), [0, 1], trust))[1].row_bytes.tolist() == [0.0, pytest.approx(100.0)]


def test_groups_that_are_spilled_count_in_the_mean_and_in_the_spread_as_much_as_those_that_are_kept():
    """What is kept is good and much alike: by its exposure it would hide that half of the groups are bad."""
    exposure, rate = np.array([1000.0] * 10 + [100.0] * 10), np.array([10.0] * 10 + [1.0] * 10)
    spread, weight = differences(exposure, exposure * rate, dispersion=1.0)
    mean = mean_rate(exposure, exposure * rate, dispersion=1.0, spread=spread)
    assert mean == pytest.approx(5.5, rel=0.02)
    assert spread == pytest.approx(4.5**2 / 5.5**2, rel=0.1)
    assert weight == pytest.approx(20, rel=0.02)


def test_a_pool_has_only_what_can_be_spilled():
    pool = Pool.of([candidate("join1", 0, statistics([0, 7])), candidate("join2", 1, statistics([5, 0]))])
    assert (pool.place.tolist(), pool.group.tolist(), pool.live_bytes.tolist()) == ([0, 1], [1, 0], [7, 5])
