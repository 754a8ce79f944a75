"""Every policy in every experiment: settings on counts, scores and verdicts."""

import pytest

from watersmeet.adapt.moving.policies import NAMES
from watersmeet.lab.reproduce.counted import Tuned, counted, workload_of
from watersmeet.lab.reproduce.experiments import flux_two_sites_memory
from watersmeet.lab.reproduce.experiments.policies import FIGURES, Compared, judge, mean_scores
from watersmeet.lab.reproduce.experiments.sites import BY_SITE, SPILLING, UNEVEN
from watersmeet.lab.reproduce.run import reproduce

TUNED = Tuned(0.8, 1, SPILLING)


def test_counts_give_the_results_that_spark_gives():
    """As told of lazy-17 and lazy-21 in the report."""
    for setting, results in ((UNEVEN, 432_000), (BY_SITE, 565_272)):
        free = counted(setting, workload_of(setting, setting.full), "none", TUNED)
        assert (free.results, free.spills, free.moves) == (results, 0, 0)


def test_policies_on_counts_do_as_on_sites():
    workload = workload_of(UNEVEN, UNEVEN.full)
    free = counted(UNEVEN, workload, "none", TUNED)
    budget = round(free.live_bytes * 4 / 9)
    still, moved, auto = (counted(UNEVEN, workload, name, TUNED, budget) for name in ("none", "memory", "auto"))
    assert still.spills
    assert still.results < free.results
    assert (moved.spills, moved.results) == (auto.spills, auto.results) == (0, free.results)
    assert counted(UNEVEN, workload, "auto", TUNED, budget) == auto, "the same each time"


def compared(name, auto, other=100.0, **options):
    return Compared(name, "results", dict.fromkeys(NAMES, 50.0) | {"flux": other, "auto": auto}, **options)


def test_the_default_is_near_the_best_in_each_and_ahead_in_the_mean_or_not():
    assert [each.held for each in judge([compared("a", 96.0), compared("b", 200.0)])] == [True, True]
    near, mean = judge([compared("a", 94.0), compared("b", 100.0)])
    assert (near.held, near.seen) == (False, "behind in a 0.94")
    assert (mean.held, mean.seen.split(";")[0]) == (False, "auto 0.97, flux 1.00")
    assert mean_scores([compared("a", 25.0, is_less_better=True)])["auto"] == 1.0


def test_all_figures_of_lazy_active_are_there():
    assert [each.name for each in FIGURES] == [f"lazy-{number}" for number in (14, 15, 16, 17, 20, 21)]


@pytest.mark.long
def test_the_experiment_needs_no_spark(tmp_path):
    told = reproduce(None, {"policies": tmp_path}, lambda _: None, quick=True)
    assert told.ok
    lines = (tmp_path / "scores.csv").read_text().splitlines()
    assert len(lines) == 1 + len(NAMES) * (len(FIGURES) + 5)


def test_in_the_simulator_the_fuller_site_gives_groups_until_both_are_near():
    assert flux_two_sites_memory.simulated(20) == [(0, 1)] * 5
