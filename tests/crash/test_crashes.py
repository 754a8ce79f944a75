"""Kill the driver, a worker or an executor at any moment: after a restart every result is there, once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.crash.query import EPOCHS, WITH_BUDGET, expected, finish, written
from tests.support.oracle import difference

from watersmeet.testing import CLEANUP_POINTS, DRIVER_POINTS, WORKER_POINTS, CrashPlan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

QUICK_WORKER = [("mid-output", 1)]
POINTS = (*DRIVER_POINTS, *WORKER_POINTS, *CLEANUP_POINTS)
ALL_DRIVER = [(point, epoch) for point in DRIVER_POINTS for epoch in (0, 1, 3)]
ALL_WORKER = [(point, epoch) for point in WORKER_POINTS for epoch in (0, 1, 3)]


# After four epochs, version 5 is the decision to clean join1, step 5 cleans it, and step 7 cleans join2.
QUICK_CLEANUP = [("after-sink", 5)]
ALL_CLEANUP = [(point, epoch) for point in ("cleanup-start", *DRIVER_POINTS[1:5], "cleanup-end") for epoch in (5, 7)]
WORKER_CLEANUP = [("mid-cleanup", 5), ("mid-cleanup", 7), ("after-runs", 5), ("before-effects", 7)]


def check(folder: Path, seed: int) -> None:
    got, wanted = written(folder), expected(seed)
    assert got == wanted, difference(got, wanted)


def driver(folder: Path, seed: int, crash: CrashPlan | None = None) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    if crash:
        environment["WATERSMEET_CRASH"] = crash.encode()
    command = [sys.executable, "-m", "tests.crash.query", "local[2]", str(folder), str(seed)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)


def kill_driver_at(spark: SparkSession, folder: Path, point: str, epoch: int) -> None:
    seed = epoch * 100 + POINTS.index(point) + (WITH_BUDGET if epoch >= EPOCHS else 0)
    crash = CrashPlan(point, epoch, "driver", str(folder / "crashed"))
    process = driver(folder, seed, crash)
    assert process.wait(300) == -signal.SIGKILL
    end_group(process)
    assert (folder / "crashed").exists()
    finish(spark, folder, seed)
    check(folder, seed)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """The driver's JVM ends when its Python does; do not wait for that."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_worker_at(spark: SparkSession, folder: Path, patch: pytest.MonkeyPatch, point: str, epoch: int) -> None:
    seed = epoch * 100 + POINTS.index(point) + (WITH_BUDGET if epoch >= EPOCHS else 0)
    crash = CrashPlan(point, epoch, "worker", str(folder / "crashed"))
    patch.setenv("WATERSMEET_CRASH", crash.encode())
    finish(spark, folder, seed)
    assert (folder / "crashed").exists()
    check(folder, seed)


@pytest.mark.parametrize(("point", "epoch"), QUICK_WORKER)
@pytest.mark.slow
def test_a_killed_worker_loses_and_repeats_nothing(spark, tmp_path, monkeypatch, point, epoch):
    kill_worker_at(spark, tmp_path, monkeypatch, point, epoch)


@pytest.mark.parametrize(("point", "epoch"), QUICK_CLEANUP)
def test_a_driver_killed_between_spill_and_cleanup_loses_and_repeats_nothing(spark, tmp_path, point, epoch):
    kill_driver_at(spark, tmp_path, point, epoch)


def test_a_worker_killed_in_cleanup_loses_and_repeats_nothing(spark, tmp_path, monkeypatch):
    kill_worker_at(spark, tmp_path, monkeypatch, *WORKER_CLEANUP[0])


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch"), ALL_DRIVER)
def test_a_driver_killed_at_any_point_loses_and_repeats_nothing(spark, tmp_path, point, epoch):
    kill_driver_at(spark, tmp_path, point, epoch)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch"), ALL_CLEANUP)
def test_a_driver_killed_at_any_point_of_cleanup_loses_and_repeats_nothing(spark, tmp_path, point, epoch):
    kill_driver_at(spark, tmp_path, point, epoch)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch"), WORKER_CLEANUP)
def test_a_worker_killed_at_any_point_of_cleanup_loses_and_repeats_nothing(spark, tmp_path, monkeypatch, point, epoch):
    kill_worker_at(spark, tmp_path, monkeypatch, point, epoch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(10), *range(WITH_BUDGET, WITH_BUDGET + 10)])
def test_a_driver_killed_at_any_time_loses_and_repeats_nothing(spark, tmp_path, seed):
    process = driver(tmp_path, seed)
    while process.poll() is None and not (tmp_path / "checkpoint/state/manifest").exists():
        time.sleep(0.05)
    time.sleep(random.Random(seed).uniform(0, 1.5 * EPOCHS))
    process.kill()
    process.wait()
    end_group(process)
    finish(spark, tmp_path, seed)
    check(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch"), ALL_WORKER)
def test_a_worker_killed_at_any_point_loses_and_repeats_nothing(spark, tmp_path, monkeypatch, point, epoch):
    kill_worker_at(spark, tmp_path, monkeypatch, point, epoch)
