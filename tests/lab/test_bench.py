import json
import subprocess
import sys
import time

import duckdb
import msgspec
import psutil
import pytest

from watersmeet import WatersmeetError
from watersmeet.lab.bench import growth, run, threeway
from watersmeet.lab.bench.data import write_streams
from watersmeet.lab.bench.measure import run_contender
from watersmeet.lab.bench.outcome import Outcome, Task
from watersmeet.lab.bench.report import Comparison, Count, Report, Section, Target
from watersmeet.lab.bench.run import run_bench
from watersmeet.lab.bench.suite import gain, share
from watersmeet.lab.bench.suites import SUITES
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


@pytest.mark.parametrize("name", SUITES)
def test_the_data_yield_what_the_suite_expects(name, tmp_path):
    suite = SUITES[name]
    write_streams(tmp_path, suite.tables(suite.quick))
    database = duckdb.connect()
    for stream in suite.pipeline.streams:
        database.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{tmp_path}/{stream}/*.parquet')")
    [(results,)] = database.execute(f"SELECT count(*) FROM ({suite.pipeline.sql})").fetchall()
    run = {
        contender: Outcome(contender, 1.0, results, (1.0,) * suite.quick.epochs, (suite.quick.rows,))
        for contender in suite.contenders
    }
    assert all(count.right for count in suite.judge(suite.quick, run)[1])


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
