import json

import pytest

from watersmeet.lab.reproduce.experiments.cape_events import (
    CALLED,
    NOT_CALLED,
    judge_pauses,
    judge_results,
    judge_thresholds,
)
from watersmeet.lab.reproduce.pauses import Burst, Paused
from watersmeet.lab.reproduce.record import Cleanup, Fingerprint, Record
from watersmeet.lab.reproduce.run import reproduce


def paused(*bursts, total=9, hashes=1):
    return Paused(tuple(Burst(*each) for each in bursts), total, Fingerprint(9, hashes))


def purged(state_rows, busy_ms):
    return Record((9,), ((1,),), (), Cleanup(0, 0, 0, 0, 0), Fingerprint(9, 1), (state_rows,), (busy_ms,))


GOOD = {CALLED: paused((3, 5), (7, 9)), NOT_CALLED: paused((3, 3), (5, 5))}


@pytest.mark.parametrize(
    ("wrong", "held"),
    [({}, True), ({CALLED: paused((3, 3))}, False), ({NOT_CALLED: paused((3, 4))}, False)],
    ids=["as claimed", "nothing comes in pauses", "it comes by itself"],
)
def test_pauses_are_judged(wrong, held):
    assert judge_pauses(GOOD | wrong).held == held


@pytest.mark.parametrize(("eager", "lazy", "held"), [((5, 9), (9, 5), True), ((9, 9), (9, 5), False)])
def test_thresholds_are_judged(eager, lazy, held):
    assert judge_thresholds({0.0: purged(*eager), 0.9: purged(*lazy)}).held == held


def test_other_results_are_no_success():
    runs = {0.0: purged(5, 9), 0.9: purged(9, 5)}
    assert judge_results(GOOD, runs).held
    assert not judge_results(GOOD | {CALLED: paused((3, 5), hashes=2)}, runs).held
    assert not judge_results(GOOD | {CALLED: paused((3, 5), total=8)}, runs).held


@pytest.mark.slow
@pytest.mark.spark
def test_the_experiment_is_exact_and_writes_its_files(spark, tmp_path):
    told = reproduce(spark, {"cape-events": tmp_path}, lambda _: None, quick=True)
    assert told.ok
    files = {"cape-events.png", "cape-events.svg", "pauses.csv", "thresholds.csv", "report.json"}
    assert {file.name for file in tmp_path.iterdir()} == files
    report = json.loads((tmp_path / "report.json").read_text())
    assert [finding["held"] for finding in report["findings"]] == [None, None, True]
