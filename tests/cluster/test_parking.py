"""Two real executors, one of them slow for some epochs: its work is parked, drained, and results are exact."""

import json
import subprocess
import sys
from statistics import median

import pytest
from tests.cluster.parking import EPOCHS, SITES, SLOW_EPOCHS, SLOW_SITE

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def reports():
    command = [sys.executable, "-m", "tests.cluster.parking", "none", "park", "auto"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {report["way"]: report for report in found}


@pytest.mark.parametrize("way", ["none", "park", "auto"])
def test_results_are_exact_on_two_executors(reports, way):
    assert reports[way]["exact"]
    assert reports[way]["executors"] == SITES
    assert len(reports[way]["busyMs"]) == EPOCHS
    assert reports[way]["leftParked"] == 0


def test_the_slow_site_parks_and_is_quicker_while_it_does(reports):
    report = reports["park"]
    park = report["parks"][0]
    assert park["site"] == SLOW_SITE
    assert park["epoch"] in SLOW_EPOCHS
    assert "groups hold is joined later" in park["reason"]
    slow = [report["busyMs"][epoch][SLOW_SITE] for epoch in range(SLOW_EPOCHS.start, park["epoch"] + 1)]
    spared = [report["busyMs"][epoch][SLOW_SITE] for epoch in range(park["epoch"] + 1, SLOW_EPOCHS.stop)]
    assert median(spared) < 0.6 * median(slow), report["busyMs"]
    assert sum(report["drained"]) > 0


def test_without_adaptation_nothing_is_parked(reports):
    assert reports["none"]["parks"] == reports["none"]["drained"] == []
