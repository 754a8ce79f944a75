import csv
import json

import numpy as np
import pytest

from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.api.options import parse
from watersmeet.lab.grouping import engine_group
from watersmeet.lab.reproduce.experiment import Runs
from watersmeet.lab.reproduce.experiments import EXPERIMENTS
from watersmeet.lab.reproduce.experiments.pushing import BY_THIRDS
from watersmeet.lab.reproduce.experiments.spill_run_time import FAN_OUT_311
from watersmeet.lab.reproduce.experiments.spilling import RATIOS_133, RATIOS_311
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.fiveway import NOWHERE
from watersmeet.lab.reproduce.record import Fingerprint, record
from watersmeet.lab.reproduce.run import choose, reproduce
from watersmeet.lab.reproduce.setting import Size
from watersmeet.lab.reproduce.strategies import REVERSE, lab_strategies
from watersmeet.lab.reproduce.told import ExperimentReport, Report
from watersmeet.model.errors import OptionError
from watersmeet.runners.spark.split import group_of, hash_of

SMALL = Size(epochs=4, rows=600, tuple_range=1_200, groups=30)
PAPERS = ("spill-16", "spill-17", "spill-18", "spill-19", "spill-20", "spill-cleanup")
PAPERS += ("lazy-09", "lazy-10", "lazy-11", "lazy-12", "cape-punct", "cape-events")


def test_all_experiments_of_the_papers_are_there():
    assert set(PAPERS) <= set(EXPERIMENTS)
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())


@pytest.mark.spark
def test_values_fall_into_the_groups_the_engine_puts_them(spark):
    values = np.array([0, 1, -1, 42, 10**12, -(2**63), 2**63 - 1], dtype=np.int64)
    rows = spark.createDataFrame([(int(value),) for value in values], "v BIGINT")
    groups = rows.select(group_of(hash_of(["v"]), 300).alias("g"))
    assert [row.g for row in groups.collect()] == engine_group(values, 300).tolist()


def test_ratios_differ_by_group_as_the_setting_says():
    tables = BY_THIRDS.streams(SMALL)["A"]
    keys = np.concatenate([table["a1"].to_numpy() for table in tables])[: SMALL.tuple_range]
    values, times = np.unique(keys, return_counts=True)
    assert np.array_equal(times, np.resize([4, 2, 1], SMALL.groups)[engine_group(values, SMALL.groups)])


def test_the_mean_ratio_of_an_operator_is_the_paper_s():
    keys = np.concatenate([table["d1"].to_numpy() for table in RATIOS_133.streams(SMALL)["D"]])[: SMALL.tuple_range]
    groups = engine_group(np.unique(keys), SMALL.groups)
    per_value = SMALL.tuple_range / SMALL.groups / np.bincount(groups, minlength=SMALL.groups)
    assert per_value.mean() == pytest.approx(3, rel=0.1)
    assert per_value.max() > 4 * per_value.min()


def test_most_rows_of_groups_that_fan_out_match_nothing():
    tables = FAN_OUT_311.streams(SMALL)["C"]
    c1, c2 = (np.concatenate([table[name].to_numpy() for table in tables]) for name in ("c1", "c2"))
    groups = engine_group(c1, SMALL.groups)
    lost = np.array([np.mean(c2[groups == group] >= NOWHERE) for group in range(SMALL.groups)])
    assert sorted(np.round(lost).tolist()) == [0.0] * 15 + [1.0] * 15
    assert lost[lost > 0].mean() == pytest.approx(15 / 16, abs=0.02)


def test_the_same_setting_makes_the_same_streams():
    once, again = RATIOS_311.streams(SMALL), RATIOS_311.streams(SMALL)
    assert all(one.equals(other) for name in once for one, other in zip(once[name], again[name], strict=True))


def test_the_lab_s_strategies_are_known_only_while_it_runs():
    with lab_strategies():
        options, _ = parse({"spillStrategy": REVERSE}, "noop")
    assert options.spill_strategy == REVERSE
    assert REVERSE not in STRATEGIES
    with pytest.raises(OptionError, match="no such strategy"):
        parse({"spillStrategy": REVERSE}, "noop")


def epoch(rows_out, *live_bytes):
    sites = [{"busyMs": 5} for _ in live_bytes]
    return {
        "customMetrics": {"rowsOut": rows_out, "liveBytes": list(live_bytes), "sites": sites, "stateRows": rows_out + 1}
    }


def cleaning(operator, results):
    done = {"operator": operator, "results": results, "readBytes": 7}
    operators = [{"operator": "join1"}, {"operator": "join2"}]
    return {"customMetrics": {"cleanup": done, "operators": operators, "durationMs": {"plan": 1, "run": 2}}}


def spill(number, site, before, after):
    sizes = {"before": {"liveBytes": before}, "after": {"liveBytes": after}}
    return {"kind": "spill", "epoch": number, "site": site, "groups": {"join1": [3, 4]}, **sizes}


def made_record(rows=18):
    reports = [epoch(1, 10, 9), epoch(5, 14, 18), epoch(6, 20, 8), cleaning("join1", 40), cleaning("join2", 6)]
    events = [{"kind": "cleanup"}, spill(1, 0, 20, 14), spill(2, 1, 27, 8)]
    return record(reports, events, Fingerprint(rows, 99), sites=2)


def test_a_record_has_memory_before_and_after_each_spill():
    made = made_record()
    assert made.zigzag(0) == [(1, 10), (2, 20), (2, 14), (3, 20)]
    assert made.zigzag(1) == [(1, 9), (2, 18), (3, 27), (3, 8)]
    assert (made.kept_bytes, made.spills_at(0), len(made.spills)) == (20, 1, 2)


def test_a_record_tells_results_from_what_a_cleanup_makes_for_operators_above():
    made = made_record()
    assert (made.cumulative, made.results, made.total) == ((1, 6, 12), 12, 18)
    cleanup = made.cleanup
    assert (made.state_rows, made.busy_ms) == ((2, 6, 7), (10, 10, 10))
    assert (cleanup.results, cleanup.inner_rows, cleanup.read_bytes, cleanup.time_ms) == (6, 40, 14, 6)


def test_a_run_with_other_results_or_a_wrong_count_is_not_exact():
    right, wrong = made_record(), made_record(rows=17)
    assert Runs(RATIOS_311, 20, right, {"one": right}).wrong == []
    assert Runs(RATIOS_311, 20, right, {"one": right, "two": wrong}).wrong == ["two"]
    assert Runs(RATIOS_311, 20, wrong, {"two": wrong}).wrong == ["unlimited", "two"]


@pytest.mark.parametrize(("exact", "held", "last"), [(True, False, "0 of 1 claims held."), (False, None, "0 of 0")])
def test_a_claim_that_does_not_hold_is_no_failure_and_a_wrong_result_is(exact, held, last):
    told = Report((ExperimentReport("x-1", "X, Figure 1", "All", exact, (Finding("c", "s", held),), ("x.svg",)),))
    assert (told.ok, told.to_builtins()["ok"]) == (exact, exact)
    assert last in told.text().splitlines()[-1]


def test_a_name_that_is_not_known_is_told_with_the_nearest():
    with pytest.raises(OptionError, match="Did you mean 'spill-cleanup'"):
        choose(["spill-cleanpu"])


@pytest.mark.slow
@pytest.mark.spark
def test_experiments_write_their_files_and_share_their_runs(spark, tmp_path):
    said = []
    folders = {name: tmp_path / name for name in ("spill-17", "spill-18")}
    told = reproduce(spark, folders, said.append, quick=True)
    assert told.ok
    assert [line.split(": ")[1].split(",")[0] for line in said] == [
        "unlimited",
        "global-output",
        "global-output-with-penalty",
        "bottom-up",
    ]
    for name, folder in folders.items():
        check_files(name, folder)


def check_files(name, folder):
    files = {f"{name}.png", f"{name}.svg", "runs.csv", "output.csv", "memory.csv", "report.json"}
    assert {file.name for file in folder.iterdir()} == files
    rows = list(csv.DictReader((folder / "runs.csv").read_text().splitlines()))
    assert rows[0]["run"] == "unlimited"
    assert {int(row["results_run_time"]) + int(row["results_cleanup"]) for row in rows} == {
        int(rows[0]["results_run_time"])
    }
    assert all(int(row["spills"]) > 0 for row in rows[1:])
    report = json.loads((folder / "report.json").read_text())
    assert report["exact"]
    assert [finding["held"] for finding in report["findings"]] == [None, None, True]
