"""How the contenders of a benchmark are run."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.lab.outcomes import outcomes, restarts

from watersmeet import WatersmeetError
from watersmeet.lab.bench import restart, run
from watersmeet.lab.bench.measure import run_contender
from watersmeet.lab.bench.outcome import Outcome, Task
from watersmeet.lab.bench.report import Report
from watersmeet.lab.bench.run import run_bench
from watersmeet.lab.bench.suites import SUITES, choose
from watersmeet.lab.bench.watch import Watch


def test_a_name_that_no_benchmark_has_is_refused_with_the_nearest():
    with pytest.raises(WatersmeetError, match="id you mean 'growth'"):
        run_bench(["growht"], quick=True, progress=print)


def test_a_family_of_suites_is_run_by_its_name():
    assert [suite.name for suite in choose(["windows"])] == [
        "windows-inner",
        "windows-left",
        "windows-chain",
        "windows-groups",
    ]
    assert [suite.name for suite in choose(["cluster"])] == ["cluster-threeway", "cluster-fiveway"]
    assert [suite.name for suite in choose(["cluster-fiveway", "floor"])] == ["floor", "cluster-fiveway"]
    with pytest.raises(WatersmeetError, match="id you mean 'cluster'"):
        choose(["clustr"])


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


@pytest.mark.processes
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
    monkeypatch.setattr(run, "run_takeover", lambda *_: [])
    monkeypatch.setitem(SUITES, "restart", replace(restart.SUITE, tables=lambda _: {}))
    section, *_ = run_bench(["restart"], quick=False, progress=lambda _: None).sections
    assert [outcome.contender for outcome in section.outcomes] == ["watersmeet-built", *restart.SUITE.contenders]
    assert [task.contender for task in tasks].count("watersmeet-built") == 1
    assert {task.prepared for task in tasks} == {tasks[0].work}
    assert all(folders)


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
