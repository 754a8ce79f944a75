"""Two real executors, all state on one: it becomes level, and the results are those of a batch join."""

import json
import subprocess
import sys

import pytest
from tests.cluster.moving import EPOCHS, SITES

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

LEVEL_AFTER = {"none": None, "memory": 7, "auto": 9}
"""By which epoch both sites get about as many rows; memory is balanced as soon as there is some, and a span later."""


@pytest.fixture(scope="module")
def reports():
    command = [sys.executable, "-m", "tests.cluster.moving", *LEVEL_AFTER, "flux"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {report["policy"]: report for report in found}


@pytest.mark.parametrize("policy", [*LEVEL_AFTER, "flux"])
def test_results_are_exact_on_two_executors(reports, policy):
    assert reports[policy]["exact"]
    assert reports[policy]["executors"] == SITES
    assert len(reports[policy]["rowsIn"]) == EPOCHS


@pytest.mark.parametrize("policy", ["memory", "auto"])
def test_what_began_on_one_site_becomes_level_within_some_epochs(reports, policy):
    report = reports[policy]
    assert report["rowsIn"][0][1] == 0, "all begins on one site"
    late = report["rowsIn"][LEVEL_AFTER[policy] :]
    assert all(min(sites) >= 0.5 * max(sites) for sites in late), report["rowsIn"]
    assert min(report["bytes"]) >= 0.6 * max(report["bytes"])
    assert all(each["reason"] and each["policy"] == policy for each in report["moves"])


def test_flux_moves_a_group_a_round(reports):
    report = reports["flux"]
    assert 0 < sum(len(each["groups"]) for each in report["moves"]) <= EPOCHS
    assert all(len(each["groups"]) == 1 for each in report["moves"])


def test_without_adaptation_all_stays_where_it_was(reports):
    assert reports["none"]["moves"] == []
    assert min(reports["none"]["bytes"]) == 0
