"""Two real executors, and a key that has most rows: it is split over both, and results are those of a batch join."""

import json
import subprocess
import sys

import pytest
from tests.cluster.hot import EPOCHS, SITES

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

SPLIT_BY = 6
"""In these epochs the group of the hot key has been found and split."""


@pytest.fixture(scope="module")
def reports():
    command = [sys.executable, "-m", "tests.cluster.hot", "none", "auto"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {report["policy"]: report for report in found}


@pytest.mark.parametrize("policy", ["none", "auto"])
def test_results_are_exact_on_two_executors(reports, policy):
    assert reports[policy]["exact"]
    assert reports[policy]["executors"] == SITES
    assert len(reports[policy]["rowsIn"]) == EPOCHS


def test_the_hot_key_is_split_and_both_sites_get_its_rows(reports):
    report = reports["auto"]
    split = report["splits"][0]
    assert split["epoch"] < SPLIT_BY
    assert (split["input"], sorted(split["after"]["sites"])) == ("A", [0, 1])
    assert "is split over sites" in report["plan"]
    late = report["rowsIn"][SPLIT_BY + 1 :]
    assert all(min(sites) >= 0.6 * max(sites) for sites in late), report["rowsIn"]


def test_without_adaptation_one_site_has_most_of_the_rows(reports):
    assert reports["none"]["splits"] == []
    assert all(min(sites) < 0.3 * max(sites) for sites in reports["none"]["rowsIn"])
