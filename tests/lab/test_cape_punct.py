import csv
import json

import numpy as np
import pytest

from watersmeet.lab.reproduce.experiments import EXPERIMENTS
from watersmeet.lab.reproduce.experiments.cape_punct import ALIKE, SETTINGS, _exactness, _judge
from watersmeet.lab.reproduce.punctuated import QUICK, ROWS_OF_A_VALUE
from watersmeet.lab.reproduce.record import Cleanup, Fingerprint, Record
from watersmeet.lab.reproduce.run import reproduce


def test_no_row_comes_after_the_punctuation_of_its_value():
    streams = SETTINGS["both"].streams(QUICK)
    assert {name: len(tables) for name, tables in streams.items()} == {"A": 4, "B": 4, "closed": 4}
    for name in "AB":
        closed = np.empty(0, dtype=np.int64)
        for rows, ends in zip(streams[name], streams["closed"], strict=True):
            assert rows.num_rows > QUICK.rows // 2
            assert not np.isin(rows["k"].to_numpy(), closed).any()
            closed = np.append(closed, ends["k"].to_numpy())
        keys = np.concatenate([rows["k"].to_numpy() for rows in streams[name]])
        assert np.unique(keys, return_counts=True)[1].max() <= ROWS_OF_A_VALUE


def test_the_same_streams_are_made_for_all_four():
    once, *others = ([streams[name] for name in ("A", "B", "closed")] for streams in map(made, SETTINGS.values()))
    assert all(each == once for each in others)


def made(setting):
    return setting.streams(QUICK)


def run(state_rows, busy_ms, rows=9):
    return Record((3, 3, 3), ((1, 1, 1),), (), Cleanup(0, 0, 0, 0, 0), Fingerprint(rows, 1), state_rows, busy_ms)


GOOD = {
    "neither": run((10, 20, 30), (9, 9, 9)),
    "windows": run((10, 15, 15), (5, 5, 5)),
    "punctuations": run((10, 12, 12), (4, 4, 4)),
    "both": run((9, 10, 10), (3, 3, 3)),
}


@pytest.mark.parametrize(
    ("wrong", "held"),
    [
        ({}, [True, True, True]),
        ({"punctuations": run((10, 20, 30), (4, 4, 4))}, [False, True, True]),
        ({"both": run((9, 15, 15), (3, 3, 3))}, [True, False, True]),
        ({"both": run((9, 10, 10), (8, 8, 8))}, [True, True, False]),
    ],
    ids=["as claimed", "state grows", "both keep as much", "the rate falls"],
)
def test_claims_are_judged(wrong, held):
    assert [finding.held for finding in _judge(GOOD | wrong)] == held


def test_punctuations_that_change_results_are_no_success():
    assert _exactness(GOOD).held
    for _, more in ALIKE:
        assert not _exactness(GOOD | {more: run((9, 9, 9), (1, 1, 1), rows=8)}).held


@pytest.mark.slow
@pytest.mark.spark
def test_the_experiment_is_exact_and_writes_its_files(spark, tmp_path):
    told = reproduce(spark, {"cape-punct": tmp_path}, lambda _: None, quick=True)
    assert told.ok
    files = {"cape-punct.png", "cape-punct.svg", "runs.csv", "output.csv", "state.csv", "report.json"}
    assert {file.name for file in tmp_path.iterdir()} == files
    rows = {row["run"]: row for row in csv.DictReader((tmp_path / "runs.csv").read_text().splitlines())}
    assert list(rows) == list(SETTINGS)
    assert int(rows["punctuations"]["last_state_rows"]) < int(rows["neither"]["last_state_rows"])
    report = json.loads((tmp_path / "report.json").read_text())
    assert [finding["held"] for finding in report["findings"]] == [None, None, None, True]
    assert EXPERIMENTS["cape-punct"].source == report["source"]
