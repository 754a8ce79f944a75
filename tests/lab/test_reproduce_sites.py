"""Experiments on several sites: their data, the policies' thresholds, and how claims are judged."""

from dataclasses import replace

import numpy as np
import pytest

from watersmeet.adapt.moving.policies import ADAPTATIONS, policies_of
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.lab.grouping import engine_group
from watersmeet.lab.reproduce.experiment import Runs
from watersmeet.lab.reproduce.experiments import (
    EXPERIMENTS,
    flux_two_sites,
    lazy_06,
    lazy_07,
    lazy_14,
    lazy_15,
    lazy_16,
    lazy_17,
    lazy_20,
    lazy_21,
    psp_on_spark,
)
from watersmeet.lab.reproduce.experiments.relocation import cumulative
from watersmeet.lab.reproduce.experiments.sites import ALTERNATING, BY_SITE, NONE, SMALL, UNEVEN
from watersmeet.lab.reproduce.record import Cleanup, Fingerprint, Move, Record, Spill, record
from watersmeet.lab.reproduce.run import reproduce
from watersmeet.lab.reproduce.setting import Size, Treatment
from watersmeet.lab.reproduce.strategies import thresholds

SIZE = Size(epochs=12, rows=660, tuple_range=1_200, groups=30)
LAZY = (
    "lazy-06",
    "lazy-07",
    "lazy-14",
    "lazy-15",
    "lazy-16",
    "lazy-17",
    "lazy-20",
    "lazy-21",
    "flux-two-sites",
    "flux-two-sites-memory",
    "psp-on-spark",
)


def test_all_need_several_executors():
    assert [name for name, each in EXPERIMENTS.items() if each.needs_cluster] == list(LAZY)


def test_each_half_of_the_groups_has_ten_times_the_tuples_in_turn():
    tables = replace(ALTERNATING, phase=4).streams(SIZE)["B"]
    first = [np.mean(engine_group(table["b1"].to_numpy(), SIZE.groups) < SIZE.groups // 2) for table in tables]
    assert np.round(np.array(first) * 11).tolist() == [10, 10, 1, 1, 1, 1, 10, 10, 10, 10, 1, 1]


def test_groups_of_the_first_site_have_its_ratio():
    keys = np.concatenate([table["a1"].to_numpy() for table in BY_SITE.streams(SIZE)["A"]])[: SIZE.tuple_range]
    values, times = np.unique(keys, return_counts=True)
    site = engine_group(values, SIZE.groups) * 3 // SIZE.groups
    assert np.array_equal(times, np.array([4, 1, 1])[site])


def test_thresholds_are_the_experiment_s_only_while_it_runs():
    usual = dict(ADAPTATIONS)
    with thresholds(0.5, 3):
        [memory], [active] = (policies_of(name, MemoryOptions()) for name in ("memory", "active-disk"))
    assert (memory.theta_d, memory.span, active.theta_d, active.span, active.sample) == (0.5, 3, 0.5, 3, 3)
    assert usual == ADAPTATIONS
    assert str(Treatment(adaptation="memory", theta_d=0.5, span=3)) == "unlimited, memory at 0.5 every 3"


def made(output=(5, 5), memory=((10, 20), (10, 20)), **rest) -> Record:
    """A run of few epochs."""
    spills, cleanup = rest.pop("spills", ()), rest.pop("cleanup", Cleanup(0, 0, 0, 0, 0))
    total = sum(output) + cleanup.results
    quick = {"epoch_ms": (9000, 1000)} | rest
    return Record(
        output, memory, spills, cleanup, Fingerprint(total, 1), (1,) * len(output), (1,) * len(output), **quick
    )


def held(judge, runs) -> list[bool | None]:
    return [finding.held for finding in judge(runs)]


def test_moves_are_read_from_events():
    metrics = {"rowsOut": 3, "stateRows": 3, "liveBytes": [4, 6], "sites": [{"busyMs": 1}]}
    event = {"kind": "move", "epoch": 0, "before": {"site": 1}, "after": {"site": 0}, "groups": [1, 2], "bytes": 9}
    report = {"customMetrics": metrics, "batchDuration": 70}
    found = record([report], [event], Fingerprint(3, 1), sites=2)
    assert (found.moves, found.decisions, found.epoch_ms) == ((Move(1, 1, 0, 2, 9),), 1, (70,))
    assert found.evenness == [4 / 6]


def test_a_small_query_must_keep_up_on_any_number_of_sites():
    def runs(slow_ms):
        return Runs(SMALL[1], 1, made(), {"2": made(), "5": made(epoch_ms=(9000, slow_ms))})

    assert held(lazy_06._judge, runs(1200)) == [True, True]  # noqa: SLF001
    assert held(lazy_06._judge, runs(1300)) == [True, False]  # noqa: SLF001
    assert held(lazy_06._judge, runs(12_001)) == [False, False]  # noqa: SLF001


def test_a_large_query_stops_when_a_site_is_full():
    def runs(two, four, five):
        by_sites = {"2": two, "4": four, "5": five}
        fuller = {name: made((5,) * 10, (tuple(range(1, 11)), (most,) * 10)) for name, most in by_sites.items()}
        return Runs(SMALL[1], 10, made((5,) * 10), fuller)

    assert held(lazy_07._judge, runs(10, 10, 10)) == [False, True]  # noqa: SLF001
    assert held(lazy_07._judge, runs(11, 10, 11)) == [False, False]  # noqa: SLF001
    late = made((5,) * 10, ((*range(1, 9), 11, 12),))
    assert lazy_07.lasts(late, 10) == 8
    kept = {"4": made((5,) * 10), "5": made((5,) * 10)}
    assert held(lazy_07._judge, Runs(SMALL[1], 20, late, {"2": made((5,) * 10, ((*range(1, 10), 21),)), **kept})) == [  # noqa: SLF001
        True,
        True,
    ]


def moved(times, slow_ms=1000) -> Record:
    """A run in which groups move after each of some epochs; those that follow take a certain time."""
    moves = tuple(Move(epoch, 0, 1, 1, 1) for epoch in range(3, 3 + times))
    epoch_ms = [9000] * 3 + [slow_ms] * times + [1000] * 2
    return made((5,) * len(epoch_ms), ((1,) * len(epoch_ms),) * 2, moves=moves, epoch_ms=tuple(epoch_ms))


def test_relocation_is_nearly_free_or_not():
    def runs(names, counts, slow_ms=1100):
        treated = {name: moved(count, slow_ms) for name, count in zip(names, counts, strict=True)}
        return Runs(ALTERNATING, 1, made(), {NONE: made(), **treated})

    differences, spans = lazy_14.DIFFERENCES, lazy_15.SPANS
    assert held(lazy_14._judge, runs(differences, (2, 24))) == [True, True]  # noqa: SLF001
    assert held(lazy_14._judge, runs(differences, (0, 24), 1101)) == [False, False]  # noqa: SLF001
    assert held(lazy_14._judge, runs(differences, (0, 0))) == [False, False]  # noqa: SLF001
    assert held(lazy_15._judge, runs(spans, (31, 27, 24))) == [True, True]  # noqa: SLF001
    assert held(lazy_15._judge, runs(spans, (31, 27, 27))) == [True, False]  # noqa: SLF001
    assert cumulative(runs(spans, (1, 1, 1)))[NONE] == ([0.0, 0.0, 1.0], (0, 5, 10))


@pytest.mark.parametrize(("levels", "verdict"), [(((10, 10), (9, 8)), True), (((10, 10), (7, 7)), False)])
def test_memory_is_level_or_not(levels, verdict):
    uneven = made(memory=((10, 10), (1, 5)))
    runs = Runs(ALTERNATING, 1, uneven, {NONE: uneven, lazy_16.OFTEN: made(memory=levels)})
    assert held(lazy_16._judge, runs) == [verdict]  # noqa: SLF001


def spilled(output, *sites, cleanup_ms=100) -> Record:
    spills = tuple(Spill(1, site, 9, 5, {"join1": 1}) for site in sites)
    cleanup = Cleanup(100 - sum(output), 0, 0, 1, cleanup_ms)
    return made(output, ((1, 2),) * 3, spills=spills, cleanup=cleanup)


def test_relocation_keeps_all_in_memory_or_not():
    free, still, all_in = made((50, 50)), spilled((50, 20), 0), made((50, 50))
    runs = Runs(UNEVEN, 9, free, dict(zip(lazy_17.TREATMENTS, (still, all_in, all_in), strict=True)))
    assert held(lazy_17._judge, runs) == [True, True, True]  # noqa: SLF001
    runs = Runs(UNEVEN, 9, free, dict(zip(lazy_17.TREATMENTS, (free, still, spilled((40, 20))), strict=True)))
    assert held(lazy_17._judge, runs) == [False, False, False]  # noqa: SLF001


def test_lazy_disk_is_far_ahead_or_not():
    free, still, lazy = made((50, 50)), spilled((40, 10), 0, cleanup_ms=201), spilled((40, 30), 0, 1, 2)
    runs = Runs(UNEVEN, 9, free, dict(zip(lazy_20.TREATMENTS, (still, lazy, lazy), strict=True)))
    assert held(lazy_20._judge, runs) == [True, True, True, True]  # noqa: SLF001
    runs = Runs(UNEVEN, 9, free, dict(zip(lazy_20.TREATMENTS, (lazy, spilled((50, 21), 1), still), strict=True)))
    assert held(lazy_20._judge, runs) == [False, False, False, False]  # noqa: SLF001


def test_active_disk_overtakes_or_not():
    free, lazy, active = made((50, 50)), spilled((40, 10)), spilled((35, 25))
    runs = Runs(BY_SITE, 9, free, dict(zip(lazy_21.TREATMENTS, (lazy, active, lazy), strict=True)))
    assert held(lazy_21._judge, runs) == [True, True, True]  # noqa: SLF001
    runs = Runs(BY_SITE, 9, free, dict(zip(lazy_21.TREATMENTS, (lazy, lazy, spilled((40, 9))), strict=True)))
    assert held(lazy_21._judge, runs) == [False, False, False]  # noqa: SLF001


def test_simulator_and_engine_make_the_same_moves_or_not():
    ways = flux_two_sites.simulated(20)
    assert ways == [(0, 1)] * 4
    assert [finding.held for finding in flux_two_sites.judge(ways, ways)] == [True, True, True]
    there_and_back = [*ways, (0, 1), (1, 0)]
    assert [finding.held for finding in flux_two_sites.judge(there_and_back, ways)] == [True, False, True]
    assert [finding.held for finding in flux_two_sites.judge([], ways)] == [False, False, False]


def test_a_ring_holds_nothing_twice_and_shares_its_work_or_not():
    def runs(rows, busiest_ms):
        one = replace(made(), state_rows=(100, 100), busiest_ms=(99, 80))
        return Runs(SMALL[1], 0, one, {"4": replace(one, state_rows=(rows, rows), busiest_ms=(99, busiest_ms))})

    assert held(psp_on_spark._judge, runs(102, 25)) == [True, True]  # noqa: SLF001
    assert held(psp_on_spark._judge, runs(103, 26)) == [False, False]  # noqa: SLF001


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_experiments_are_exact_and_write_their_files(spark, tmp_path):
    names = ("lazy-16", "lazy-17", "lazy-20")
    told = reproduce(spark, {name: tmp_path / name for name in names}, lambda _: None, quick=True)
    assert told.ok
    files = {"runs.csv", "output.csv", "memory.csv", "moves.csv", "report.json"}
    for name in names:
        assert {file.name for file in (tmp_path / name).iterdir()} == files | {f"{name}.png", f"{name}.svg"}
