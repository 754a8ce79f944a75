"""A standalone cluster, as an operator would start it: a query is exact there, and executors may come and go."""

import json
import os
import subprocess
import sys

import pytest
from tests.cluster.coming import EPOCHS, LOST_AT, SECOND_AT, THIRD_AT
from tests.cluster.standalone import Cluster
from tests.crash.query import written
from tests.crash.variants import expected
from tests.support.oracle import difference

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

SEED = 3
A_FEW = 3
"""Epochs until an executor that has joined has work, or the sites of one that was lost are elsewhere."""


def run(*arguments):
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_query_is_exact_on_a_standalone_cluster(tmp_path):
    with Cluster() as cluster:
        cluster.add_worker()
        cluster.add_worker()
        run("tests.crash.query", cluster.url, tmp_path, SEED)
    got, wanted = written(tmp_path), expected(SEED)
    assert got == wanted, difference(got, wanted)


@pytest.fixture(scope="module")
def report():
    return json.loads(run("tests.cluster.coming").splitlines()[-1])


def executors(report, epoch):
    """Who did the work of the sites."""
    return {place for places in report["places"][epoch] for place in places.split("+") if place}


def test_results_are_exact_though_executors_come_and_go_and_epochs_go_on(report):
    assert report["exact"]
    assert len(report["places"]) == EPOCHS


def test_executors_that_join_have_work_within_a_few_epochs(report):
    assert len(executors(report, SECOND_AT)) == 1
    assert len(executors(report, SECOND_AT + A_FEW - 1)) == 2
    assert len(executors(report, LOST_AT - 1)) == 3
    assert len(report["places"][THIRD_AT - 1]) == 2
    assert len(report["places"][LOST_AT - 1]) == 3, "a third task can run at once, so there is a third site"


def test_the_sites_of_a_lost_executor_are_spread_over_those_that_are_left(report):
    [lost] = executors(report, LOST_AT - 1) - executors(report, LOST_AT + A_FEW)
    for epoch in range(LOST_AT + A_FEW, EPOCHS):
        assert executors(report, epoch) == executors(report, LOST_AT - 1) - {lost}
    assert len(report["places"][-1]) == 2, "there are as many sites as tasks can run at once"


def test_what_happened_to_executors_is_told(report):
    told = [event for event in report["events"] if event["kind"] == "executors"]
    counts = [(event["before"]["executors"], event["after"]["executors"]) for event in told]
    assert [pair for pair in counts if pair[0] != pair[1]] == [(1, 2), (2, 3), (3, 2)]
    assert [len(event["joined"]) for event in told if event["joined"]] == [1, 1]
    assert [len(event["lost"]) for event in told if event["lost"]] == [1]
    assert all(event["reason"] for event in report["events"])
    resized = [event["after"]["sites"] for event in report["events"] if event["kind"] == "reroute"]
    assert resized == [3, 2]
