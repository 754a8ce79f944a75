"""What each suite of benchmarks asks of its outcomes."""

from typing import get_args

import pytest
from tests.lab.outcomes import outcomes, restarts, run_of, unmet

from watersmeet.lab.bench import burst, cluster, growth, restart, ring, sinks, soak, threeway, windows
from watersmeet.lab.bench.contenders import WAYS, Contender
from watersmeet.lab.bench.outcome import Outcome
from watersmeet.lab.bench.suites import SUITES


def test_the_three_way_run_meets_all_targets_or_names_those_it_misses():
    assert unmet(threeway.judge(threeway.SUITE.full, outcomes())[0]) == []
    slow = Outcome("watersmeet", 13.0, 150_000 * 6**3, (1000.0, 2500.0), state_bytes=151)
    comparisons, counts = threeway.judge(threeway.SUITE.full, outcomes(ours=slow))
    assert unmet(comparisons) == [
        "whole run, Spark in-heap",
        "last epoch, Spark in-heap",
        "last epoch, Spark RocksDB",
        "state, Spark in-heap",
        "whole run, one join in DuckDB",
    ]
    assert all(count.right for count in counts)


def test_growth_compares_the_means_of_windows_with_one_and_ten_times_the_state():
    size = growth.SUITE.full
    epoch_ms = tuple(100.0 + epoch / 10 for epoch in range(size.epochs))
    run = Outcome("watersmeet", 20.0, 0, epoch_ms, (size.rows,) * size.epochs)
    comparisons, [count] = growth.judge(size, {"watersmeet": run})
    assert comparisons[0].ratio == pytest.approx(119.55 / 101.95)
    assert count.right


def test_on_a_cluster_the_epochs_after_the_first_are_judged_by_themselves():
    results = 150_000 * 6**3
    ours = run_of("watersmeet", 20.0, results, (14_000.0, 2000.0, 4000.0))
    theirs = run_of("spark", 70.0, results, (10_000.0, 12_000.0, 24_000.0))
    comparisons, [count] = cluster.judge_threeway(cluster.THREEWAY.full, ours | theirs)
    ratios = {each.what: each.ratio for each in comparisons if each.target}
    assert ratios == {"whole run, Spark in-heap": 3.5, "epochs after the first, Spark in-heap": 6.0}
    assert unmet(comparisons) == []
    assert count.right
    slower = run_of("watersmeet", 20.1, results, (14_000.0, 2000.0, 4001.0))
    assert unmet(cluster.judge_threeway(cluster.THREEWAY.full, slower | theirs)[0]) == list(ratios)


def test_a_burst_may_take_three_tenths_longer_than_without_the_shortcut():
    names = burst.SUITE.contenders
    epoch_ms = dict(zip(names, (1300.0, 1000.0, 2601.0, 2000.0), strict=True))
    made = {name: Outcome(name, 9.0, 57 * 10_000 * 8, (5.0, epoch_ms[name])) for name in names}
    comparisons, [count] = burst.judge(burst.SUITE.full, made)
    assert unmet(comparisons) == ["burst as rows, without the shortcut"]
    assert count.right


def test_every_sink_is_compared_with_the_same_of_spark_s():
    whole_s = dict(zip(sinks.SUITE.contenders, (10.0, 40.0, 20.0, 59.0), strict=True))
    made = {name: Outcome(name, time_s, 16_000) for name, time_s in whole_s.items()}
    comparisons, [count] = sinks.judge(sinks.SUITE.quick, made)
    assert unmet(comparisons) == ["whole run into a function, Spark in-heap"]
    assert count.right


def test_a_restart_may_take_two_seconds_more_with_state_than_without():
    size = restart.SUITE.full
    assert unmet(restart.judge(size, restarts())[0]) == []
    [missed] = unmet(restart.judge(size, restarts(later_s=2.1))[0])
    assert missed == "first epoch, empty checkpoint and 2 s"
    [missed] = unmet(restart.judge(size, restarts(remote_later_s=2.1))[0])
    assert missed == "first epoch, remote, empty and 2 s"


def test_a_restart_that_has_lost_its_state_is_found_by_its_results():
    size = restart.SUITE.full
    assert [count.right for count in restart.judge(size, restarts())[1]] == [True, True]
    assert [count.right for count in restart.judge(size, restarts(with_state=1000))[1]] == [True, False]


def soaked(files=(100,) * 40, epoch_ms=(400.0,) * 40, results=800) -> Outcome:
    return Outcome("watersmeet-soak", 20.0, results, epoch_ms, gauges={"files": files, "driver_bytes": (5,) * 40})


def test_a_soak_is_flat_where_the_last_tenth_is_like_the_second():
    size = soak.SUITE.quick
    assert unmet(soak.judge(size, {"watersmeet-soak": soaked()})[0]) == []
    leaky = soaked(files=tuple(range(100, 140)), epoch_ms=(900.0,) * 4 + (400.0,) * 33 + (461.0,) * 3)
    comparisons, [count] = soak.judge(size, {"watersmeet-soak": leaky})
    assert unmet(comparisons) == [
        "files of the state, last tenth against the second",
        "time of an epoch, last tenth against the second",
    ]
    assert comparisons[0].ratio == pytest.approx(137.5 / 105.5)
    assert count.right
    assert not soak.judge(size, {"watersmeet-soak": soaked(results=799)})[1][0].right


def windowed(later_ms, epoch_results=(5, 10, 20)) -> dict[str, Outcome]:
    """Runs of the contenders that take so long after the first epoch; Spark gives some results in every epoch."""
    made = {}
    for name, whole_ms in zip(windows.INNER.contenders, later_ms, strict=False):
        results = epoch_results if name == "watersmeet" else (5, 10, 20)
        made[name] = Outcome(name, whole_ms / 1000, 35, (9000.0, whole_ms / 4, whole_ms * 3 / 4), results)
    return made


def test_windows_are_judged_by_the_epochs_after_the_first():
    size = windows.INNER.full
    assert unmet(windows.judge_two_way(size, windowed((1000, 3000, 6000)))[0]) == []
    assert unmet(windows.judge_chain(size, windowed((1000, 5000, 10_000)))[0]) == []
    slow = windowed((1000, 2990, 5990))
    missed = ["epochs after the first, Spark in-heap", "epochs after the first, Spark RocksDB"]
    assert unmet(windows.judge_left(size, slow)[0]) == missed
    assert unmet(windows.judge_chain(size, slow)[0]) == missed


@pytest.mark.parametrize(
    ("given", "behind"),
    [((5, 10, 20), 0), ((8, 17, 10), 0), ((5, 9, 21), 1), ((4, 10, 21), 2), ((4, 10, 20, 1), 3)],
)
def test_rows_without_a_match_may_come_earlier_than_spark_s_but_no_epoch_later(given, behind):
    _, [results, late] = windows.judge_left(windows.LEFT.full, windowed((1, 9, 9), given))
    assert results.right
    assert late.right is (behind == 0)
    assert late.found == {"spark": behind, "spark-rocksdb": behind}


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_every_contender_of_a_suite_is_known(suite):
    assert set(suite.contenders) <= set(WAYS)
    assert WAYS.keys() == set(get_args(Contender))


def test_a_ring_is_compared_with_stored_tables_by_its_last_epoch_and_with_duckdb_as_a_whole():
    runs = [
        Outcome("watersmeet", 10.0, 7, (1000.0, 500.0)),
        Outcome("spark-foreachbatch", 20.0, 7, (1000.0, 4000.0)),
        Outcome("duckdb-memory", 3.0, 7),
    ]
    comparisons, [count] = ring.judge(ring.BAND_SUITE.full, {each.contender: each for each in runs})
    assert unmet(comparisons) == ["last epoch, Spark with stored tables", "whole run, one join in DuckDB in memory"]
    assert count.right
