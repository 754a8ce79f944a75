"""What holds on one executor holds on several: slots and parcels, spills, cleanup, files, and crashes in each."""

import subprocess
import sys

import pytest
from tests.crash.variants import KINDS, WITH_BUDGET, Variant
from tests.crash.variants import WAYS as WAYS_IN_ALL

from watersmeet.testing import WORKER_POINTS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PARCELS_TO_FILES, PARCELS_THROUGH_SPARK, SLOTS_TO_FILES, SLOTS_THROUGH_SPARK = 0, 1, 4, 5
QUICK = [
    f"{WITH_BUDGET + PARCELS_THROUGH_SPARK}:mid-cleanup:5",
    f"remote:{WITH_BUDGET + SLOTS_TO_FILES}:mid-cleanup:5",
]
WAYS = (PARCELS_TO_FILES, PARCELS_THROUGH_SPARK, SLOTS_TO_FILES, SLOTS_THROUGH_SPARK)
PLAIN = [f"{seed}" for way in WAYS for seed in (way, way + WITH_BUDGET)]
IDLE = [f"{way + WITH_BUDGET}:idle" for way in WAYS]
KILLED = [f"{way + 8 * n}:{point}:{n % 2}" for way in WAYS for n, point in enumerate(WORKER_POINTS)]
KILLED_IN_CLEANUP = [
    f"{way + WITH_BUDGET}:{point}:{epoch}"
    for way in WAYS
    for point, epoch in (("mid-cleanup", 5), ("after-runs", 5), ("mid-cleanup", 7), ("before-effects", 7))
]

OTHER_KINDS = [f"{WAYS_IN_ALL * kind + way}" for kind in range(1, len(KINDS)) for way in (2, 3, 6, 7)]
REMOTE = [f"remote:{text}" for text in (*PLAIN[::3], *IDLE[:1], *KILLED[::3], *KILLED_IN_CLEANUP[::3])]


def survive(scenarios: list[str], timeout_s: int) -> None:
    command = [sys.executable, "-m", "tests.cluster.scenarios", *scenarios]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("survived") == len(scenarios), done.stdout


def test_the_seeds_are_of_all_ways():
    variants = [Variant.of(way) for way in WAYS]
    assert {(each.through_spark, each.key) for each in variants} == {(s, k) for s in (True, False) for k in "mt"}


@pytest.mark.processes
def test_queries_survive_spills_cleanup_and_the_loss_of_executors_on_a_cluster():
    survive(QUICK, 500)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    "scenarios",
    [PLAIN, IDLE, KILLED, KILLED_IN_CLEANUP, OTHER_KINDS, REMOTE],
    ids=["plain", "idle", "killed", "cleanup", "kinds", "remote"],
)
def test_all_ways_survive_everything_on_a_cluster(scenarios):
    survive(scenarios, 2900)
