import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import get_args

import duckdb
import msgspec
import psutil
import pytest

from watersmeet import WatersmeetError
from watersmeet.lab.bench import burst, cluster, growth, restart, ring, run, sinks, soak, threeway, windows
from watersmeet.lab.bench.contenders import EPOCHS, WAYS, Contender
from watersmeet.lab.bench.data import write_streams
from watersmeet.lab.bench.measure import run_contender
from watersmeet.lab.bench.outcome import Outcome, Task
from watersmeet.lab.bench.report import Comparison, Count, Report, Section, Target
from watersmeet.lab.bench.run import run_bench
from watersmeet.lab.bench.suite import gain, share
from watersmeet.lab.bench.suites import SUITES, choose
from watersmeet.lab.bench.watch import Watch


def outcomes(**changes: Outcome) -> dict[str, Outcome]:
    """A three-way run that meets every target, with some contenders replaced."""
    results = 150_000 * 6**3
    made = {
        "watersmeet": Outcome("watersmeet", 10.0, results, (1000.0, 2000.0), state_bytes=100),
        "watersmeet-rows": Outcome("watersmeet-rows", 15.0, results, (1000.0, 4000.0), state_bytes=100),
        "spark": Outcome("spark", 50.0, results, (1000.0, 12_000.0), state_bytes=3000),
        "spark-rocksdb": Outcome("spark-rocksdb", 150.0, results, (1000.0, 40_000.0)),
        "duckdb": Outcome("duckdb", 5.0, results),
        "duckdb-memory": Outcome("duckdb-memory", 2.0, results),
    }
    return made | {outcome.contender: outcome for outcome in changes.values()}


def report(comparisons: list[Comparison], counts: list[Count]) -> Report:
    section = Section("threeway", "three streams", tuple(outcomes().values()), tuple(comparisons), tuple(counts))
    return Report((section,), {"python": "3"})


def unmet(comparisons: list[Comparison]) -> list[str]:
    return [each.what for each in comparisons if each.met is False]


def test_a_gain_says_how_many_times_less_ours_is():
    assert gain("time", 2, 10, "s", at_least=5).ratio == 5
    assert gain("time", 2, 10, "s", at_least=5).met
    assert not gain("time", 2, 9, "s", at_least=5).met


def test_a_share_says_what_part_of_theirs_ours_is():
    assert share("time", 5, 4, "s", at_most=1.25).ratio == 1.25
    assert share("time", 5, 4, "s", at_most=1.25).met
    assert not share("time", 5.1, 4, "s", at_most=1.25).met


def test_a_comparison_without_a_target_is_neither_met_nor_missed():
    assert gain("time", 2, 1, "s").met is None
    assert report([gain("time", 2, 1, "s")], []).ok


def test_nothing_to_divide_by_is_no_error():
    assert gain("time", 0, 1, "s", at_least=4).met
    assert not share("time", 1, 0, "s", at_most=4).met


@pytest.mark.parametrize(
    ("found", "expected", "right"),
    [
        ({"a": 3, "b": 3}, None, True),
        ({"a": 3, "b": 3}, 3, True),
        ({"a": 3, "b": 4}, None, False),
        ({"a": 3, "b": 3}, 4, False),
        ({}, None, False),
    ],
)
def test_counts_are_right_where_all_agree_and_are_as_expected(found, expected, right):
    assert Count("results", found, expected).right is right
    assert report([], [Count("results", found, expected)]).ok is right


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


def test_one_missing_result_is_found():
    lost = Outcome("watersmeet", 10.0, 150_000 * 6**3 - 1, (1000.0, 2000.0), state_bytes=100)
    comparisons, counts = threeway.judge(threeway.SUITE.full, outcomes(ours=lost))
    found = report(comparisons, counts)
    assert not found.ok
    assert "WRONG: watersmeet 32,399,999" in found.text()
    assert "expected 32,400,000" in found.text()


def test_growth_compares_the_means_of_windows_with_one_and_ten_times_the_state():
    size = growth.SUITE.full
    epoch_ms = tuple(100.0 + epoch / 10 for epoch in range(size.epochs))
    run = Outcome("watersmeet", 20.0, 0, epoch_ms, (size.rows,) * size.epochs)
    comparisons, [count] = growth.judge(size, {"watersmeet": run})
    assert comparisons[0].ratio == pytest.approx(119.55 / 101.95)
    assert count.right


def test_the_report_shows_ratio_target_and_verdict():
    text = report([gain("whole run", 10, 50, "s", at_least=4)], [Count("results", {"a": 7, "b": 7})]).text()
    [line] = [line for line in text.splitlines() if "whole run " in line and "at least" in line]
    assert line.split() == ["whole", "run", "10.0", "s", "50.0", "s", "5.00", "at", "least", "4", "yes"]
    assert text.endswith("All targets were met, and all counts are right.")
    assert report([gain("whole run", 10, 30, "s", at_least=4)], []).text().endswith("were met, or counts differ.")


def test_the_report_as_json_has_ratios_and_verdicts():
    found = json.loads(report([gain("whole run", 10, 50, "s", at_least=4)], [Count("results", {"a": 7})]).to_json())
    assert found["ok"] is True
    [suite] = found["suites"]
    assert suite["comparisons"][0]["ratio"] == 5
    assert suite["comparisons"][0]["met"] is True
    assert suite["counts"][0]["right"] is True
    assert suite["outcomes"][0]["whole_s"] == 10


def test_sizes_that_are_too_small_to_judge_have_no_targets():
    section = report([gain("whole run", 10, 30, "s", at_least=4)], [Count("results", {"a": 7})]).sections[0]
    assert section.without_targets().ok
    assert not section.ok


def test_a_target_reads_like_a_sentence():
    assert str(Target(4, at_least=True)) == "at least 4"
    assert str(Target(2 / 3, at_least=False)) == "at most 0.667"


def test_a_name_that_no_benchmark_has_is_refused_with_the_nearest():
    with pytest.raises(WatersmeetError, match="id you mean 'growth'"):
        run_bench(["growht"], quick=True, progress=print)


def results_by_duckdb(suite, epochs, folder) -> int:
    """How many results some epochs of a suite's data have."""
    write_streams(folder, {name: tables[epochs] for name, tables in suite.tables(suite.quick).items()})
    database = duckdb.connect()
    for stream in suite.pipeline.streams:
        database.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{folder}/{stream}/*.parquet')")
    [(results,)] = database.execute(f"SELECT count(*) FROM ({suite.pipeline.sql})").fetchall()
    return results


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if not suite.prepared_by])
def test_the_data_yield_what_the_suite_expects(name, tmp_path):
    suite = SUITES[name]
    results = results_by_duckdb(suite, slice(None), tmp_path)
    run = {
        contender: Outcome(contender, 1.0, results, (1.0,) * suite.quick.epochs, (suite.quick.rows,))
        for contender in suite.contenders
    }
    assert all(count.right for count in suite.judge(suite.quick, run)[1])


def test_the_data_of_a_restart_have_results_only_in_the_last_epoch_with_state_and_without(tmp_path):
    found = {name: results_by_duckdb(restart.SUITE, epochs, tmp_path / name) for name, epochs in EPOCHS.items()}
    assert found == {"all": 2 * 50, "but last": 0, "last": 50}


def test_every_epoch_of_growth_completes_as_many_results():
    size = growth.SUITE.quick
    tables = growth.tables(size)
    a, b = tables["A"], tables["B"]
    seen: set[int] = set()
    for epoch in range(size.epochs):
        assert sorted(a[epoch]["k"].to_pylist()) == sorted(b[epoch]["k"].to_pylist())
        assert not seen.intersection(a[epoch]["k"].to_pylist())
        seen |= set(a[epoch]["k"].to_pylist())
        assert seen.issuperset(tables["C"][epoch]["k"].to_pylist())


def test_memory_of_a_process_and_its_children_is_seen():
    grandchild = "x = bytearray(60_000_000); input()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE) as process:
        watch = Watch(psutil.Process(process.pid))
        while watch.peak_bytes < 60_000_000 and watch.age_s < 60:
            watch.look()
            time.sleep(0.01)
        watch.end()
    assert watch.peak_bytes > 60_000_000
    assert watch.others_share >= 0


def test_a_contender_that_fails_is_reported_with_its_log(tmp_path):
    task = Task("threeway", "duckdb", str(tmp_path / "nowhere"), str(tmp_path / "work"), "1g")
    with pytest.raises(WatersmeetError, match=r"contender duckdb .* failed(.|\n)*nowhere"):
        run_contender(task)


def test_the_median_of_several_short_runs_counts_and_a_long_run_is_not_repeated(monkeypatch):
    times = {"watersmeet": [12.0, 16.0, 13.0], "spark-rocksdb": [140.0]}
    rest = outcomes()

    def told(task: Task) -> Outcome:
        left = times.get(task.contender)
        whole_s = left.pop(0) if left else 50.0
        return msgspec.structs.replace(rest[task.contender], whole_s=whole_s, epoch_ms=(whole_s, 100 - whole_s))

    monkeypatch.setattr(run, "run_contender", told)
    monkeypatch.setattr(run, "write_streams", lambda *_: None)
    [section] = run_bench(["threeway"], quick=False, progress=lambda _: None).sections
    found = {outcome.contender: outcome for outcome in section.outcomes}
    assert (found["watersmeet"].whole_s, found["watersmeet"].runs_s) == (13.0, (12.0, 16.0, 13.0))
    assert found["watersmeet"].epoch_ms == (13.0, 87.0), "of every epoch the median"
    assert (found["spark-rocksdb"].whole_s, found["spark-rocksdb"].runs_s) == (140.0, ())
    assert "13.0 s (of 3: 12.0 s to 16.0 s)" in Report((section,), {}).text()


def test_runs_that_disagree_on_the_results_are_refused(monkeypatch):
    counts = iter([1, 1, 2])
    monkeypatch.setattr(run, "run_contender", lambda task: Outcome(task.contender, 5.0, next(counts)))
    monkeypatch.setattr(run, "write_streams", lambda *_: None)
    with pytest.raises(WatersmeetError, match="1, 1, 2 results"):
        run_bench(["threeway"], quick=False, progress=lambda _: None)


def run_of(name, whole_s=10.0, results=0, epoch_ms=(), **rest) -> dict[str, Outcome]:
    return {name: Outcome(name, whole_s, results, epoch_ms, **rest)}


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


def test_the_last_epoch_of_a_burst_has_fifty_times_the_rows_of_the_one_before():
    tables = burst.tables(burst.SUITE.full)
    for epochs in tables.values():
        *small, last = [table.num_rows for table in epochs]
        assert set(small) == {last // 50}


def test_every_sink_is_compared_with_the_same_of_spark_s():
    whole_s = dict(zip(sinks.SUITE.contenders, (10.0, 40.0, 20.0, 59.0), strict=True))
    made = {name: Outcome(name, time_s, 16_000) for name, time_s in whole_s.items()}
    comparisons, [count] = sinks.judge(sinks.SUITE.quick, made)
    assert unmet(comparisons) == ["whole run into a function, Spark in-heap"]
    assert count.right


def restarts(later_s=2.0, remote_later_s=2.0, with_state=2000) -> dict[str, Outcome]:
    made = run_of("watersmeet-built", 60.0) | run_of("watersmeet-empty", 5.0, 1000)
    made |= run_of("watersmeet-restarted", 5.0 + later_s, with_state) | run_of("watersmeet-remote-empty", 6.0, 1000)
    made |= run_of("watersmeet-remote-restarted", 6.0 + remote_later_s, 2000)
    return made | run_of("watersmeet-remote-moved", 30.0, 2000)


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


def test_what_one_contender_prepares_is_made_once_and_kept_for_the_others(monkeypatch):
    tasks: list[Task] = []
    folders: list[bool] = []

    def told(task: Task) -> Outcome:
        if task.contender == "watersmeet-built":
            Path(task.work).mkdir()
        tasks.append(task)
        folders.append(Path(task.prepared).is_dir())
        return restarts()[task.contender]

    monkeypatch.setattr(run, "run_contender", told)
    monkeypatch.setattr(run, "write_streams", lambda *_: None)
    monkeypatch.setitem(SUITES, "restart", replace(restart.SUITE, tables=lambda _: {}))
    [section] = run_bench(["restart"], quick=False, progress=lambda _: None).sections
    assert [outcome.contender for outcome in section.outcomes] == ["watersmeet-built", *restart.SUITE.contenders]
    assert [task.contender for task in tasks].count("watersmeet-built") == 1
    assert {task.prepared for task in tasks} == {tasks[0].work}
    assert all(folders)


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


@pytest.mark.parametrize("suite", [windows.INNER, windows.CHAIN], ids=["two", "three"])
def test_rows_of_windows_come_late_but_not_later_than_the_watermark_allows(suite):
    for tables in suite.tables(suite.quick).values():
        latest, late = None, 0
        for table in tables:
            times = table["ts"].cast("int64").to_numpy()
            if latest is not None:
                assert times.min() >= latest - windows.DELAY_S * 1_000_000
                late += int((times < latest).sum())
            latest = max(times.max(), latest or 0)
        assert late


def test_some_rows_of_windows_have_no_match_and_most_have_a_few(tmp_path):
    inner, left = (
        results_by_duckdb(suite, slice(None), tmp_path / suite.name) for suite in (windows.INNER, windows.LEFT)
    )
    size = windows.LEFT.quick
    rows = size.rows * (size.epochs - windows.LAST_EPOCHS)
    assert 0.1 * rows < left - inner < 0.5 * rows
    assert inner > rows


@pytest.mark.parametrize("suite", [ring.BAND_SUITE, ring.OVERLAP_SUITE], ids=["band", "overlap"])
def test_rows_of_rings_have_a_few_partners_each(suite, tmp_path):
    results = results_by_duckdb(suite, slice(None), tmp_path)
    rows = suite.quick.rows * suite.quick.epochs
    assert rows < results < 2 * ring.MATCHES * rows


def test_a_family_of_suites_is_run_by_its_name():
    assert [suite.name for suite in choose(["ring"])] == ["ring-band", "ring-overlap"]
    assert [suite.name for suite in choose(["windows"])] == ["windows-inner", "windows-left", "windows-chain"]
    assert [suite.name for suite in choose(["cluster"])] == ["cluster-threeway", "cluster-fiveway"]
    assert [suite.name for suite in choose(["cluster-fiveway", "floor"])] == ["floor", "cluster-fiveway"]
    with pytest.raises(WatersmeetError, match="id you mean 'cluster'"):
        choose(["clustr"])


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_every_contender_of_a_suite_is_known(suite):
    assert set(suite.contenders) <= set(WAYS)
    assert WAYS.keys() == set(get_args(Contender))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", ["cluster-threeway", "sinks", "burst", "restart", "soak", "windows-inner", "windows-left", "windows-chain"]
)
def test_all_contenders_agree(name):
    found = run_bench([name], quick=True, progress=print)
    assert found.ok, found.text()


@pytest.mark.spark
@pytest.mark.slow
def test_all_contenders_of_the_three_way_benchmark_agree():
    told: list[str] = []
    found = run_bench(["threeway"], quick=True, progress=told.append)
    assert found.ok, found.text()
    assert {outcome.contender for outcome in found.sections[0].outcomes} == set(outcomes())
    assert {outcome.results for outcome in found.sections[0].outcomes} == {2_000 * 2**3}
    assert all(outcome.peak_bytes for outcome in found.sections[0].outcomes)
    assert any("spark-rocksdb took" in line for line in told)


def test_results_that_never_reach_spark_are_not_taken_for_results_that_do():
    comparisons, _ = threeway.judge(threeway.SUITE.full, outcomes())
    ratios = {each.what: each.ratio for each in comparisons}
    assert ratios["whole run, Spark in-heap"] == 5
    assert ratios["whole run as rows, Spark in-heap"] == pytest.approx(50 / 15)
    assert "drops results where they are made" in report(comparisons, []).text()
