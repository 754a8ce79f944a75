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
from tests.crash.query import finish, taken, written
from tests.crash.variants import EPOCHS, KINDS, WAYS, WITH_BUDGET, WITH_MOVES, Variant, expected
from tests.support.oracle import difference

from watersmeet.testing import CLEANUP_POINTS, DRIVER_POINTS, WORKER_POINTS, CrashPlan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

POINTS = (*DRIVER_POINTS, *WORKER_POINTS, *CLEANUP_POINTS)
EPOCHS_KILLED = (0, 1, 3)

# After four epochs, version 5 is the decision to clean join1, step 5 cleans it, and step 7 cleans join2.
ALL_CLEANUP = [(point, epoch) for point in ("cleanup-start", *DRIVER_POINTS[1:5], "cleanup-end") for epoch in (5, 7)]
WORKER_CLEANUP = [("mid-cleanup", 5), ("mid-cleanup", 7), ("after-runs", 5), ("before-effects", 7)]

# Without a budget, the end of all input is version 5, and step 6 gives what is final then.
ALL_FINAL = [
    ("after-commit", 4),
    ("after-commit", 5),
    *((point, 6) for point in ("cleanup-start", *DRIVER_POINTS[2:5])),
]
WORKER_FINAL = [("task-start", 6), ("mid-output", 6), ("before-effects", 6)]
ENDING = ("outer", "aggregate")

# Decisions to clean what was parked are versions of their own, so these are killed by the clock.
MOVED = [WITH_MOVES + budget + WAYS * kind + kind for kind in range(len(KINDS)) for budget in (0, WITH_BUDGET)]
CLUSTER = "local-cluster[2,1,512]"


def seed_of(point: str, epoch: int, kind: str, *, spills: bool = False) -> int:
    """A seed of a kind, with too little memory if it has to spill; others for other points and epochs."""
    place = 2 * WAYS * epoch + POINTS.index(point)
    seed = place // WAYS * WAYS * len(KINDS) + KINDS.index(kind) * WAYS + place % WAYS
    return seed + (WITH_BUDGET if spills else 0)


def each_with_some_kind(points: tuple[str, ...]) -> list[tuple[str, int, str]]:
    """Every point of some epochs, for inner joins and for one of the other kinds."""
    every = [(place, point, epoch) for place, point in enumerate(points) for epoch in EPOCHS_KILLED]
    others = KINDS[1:]
    return [
        (point, epoch, kind)
        for place, point, epoch in every
        for kind in ("inner", others[(place + epoch) % len(others)])
    ]


def check(folder: Path, seed: int) -> None:
    got, wanted = written(folder), expected(seed, taken(folder))
    assert got == wanted, difference(got, wanted)


def driver(
    folder: Path, seed: int, crash: CrashPlan | None = None, master: str = "local[2]"
) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    if crash:
        environment["WATERSMEET_CRASH"] = crash.encode()
    command = [sys.executable, "-m", "tests.crash.query", master, str(folder), str(seed)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)


def kill_driver_at(
    spark: SparkSession, folder: Path, point: str, epoch: int, kind: str = "inner", *, spills: bool = False
) -> None:
    seed = seed_of(point, epoch, kind, spills=spills)
    crash = CrashPlan(point, epoch, "driver", str(folder / "crashed"))
    process = driver(folder, seed, crash)
    assert process.wait(300) == -signal.SIGKILL
    end_group(process)
    assert (folder / "crashed").exists()
    finish(spark, folder, seed)
    check(folder, seed)


def kill_driver_at_any_time(spark: SparkSession, folder: Path, seed: int, master: str = "local[2]") -> None:
    process = driver(folder, seed, master=master)
    while process.poll() is None and not (folder / "checkpoint/state/manifest").exists():
        time.sleep(0.05)
    time.sleep(random.Random(seed).uniform(0, 1.5 * EPOCHS))
    process.kill()
    process.wait()
    end_group(process)
    finish(spark, folder, seed)
    check(folder, seed)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """The driver's JVM ends when its Python does; do not wait for that."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_worker_at(
    spark: SparkSession, folder: Path, patch: pytest.MonkeyPatch, point: str, epoch: int, kind="inner", *, spills=False
) -> None:
    seed = seed_of(point, epoch, kind, spills=spills)
    crash = CrashPlan(point, epoch, "worker", str(folder / "crashed"))
    patch.setenv("WATERSMEET_CRASH", crash.encode())
    finish(spark, folder, seed)
    assert (folder / "crashed").exists()
    check(folder, seed)


def test_every_kind_has_seeds_of_its_own():
    for kind in KINDS:
        seeds = [seed_of(point, epoch, kind) for point in POINTS for epoch in range(8)]
        assert {Variant.of(seed).kind for seed in seeds} == {kind}
        assert len(set(seeds)) == len(seeds)


@pytest.mark.processes
def test_a_driver_killed_between_spill_and_cleanup_loses_and_repeats_nothing(spark, tmp_path):
    kill_driver_at(spark, tmp_path, "after-sink", 5, spills=True)


@pytest.mark.long
def test_a_worker_killed_in_cleanup_loses_and_repeats_nothing(spark, tmp_path, monkeypatch):
    kill_worker_at(spark, tmp_path, monkeypatch, "mid-cleanup", 5, spills=True)


@pytest.mark.long
def test_a_worker_killed_while_rows_come_alone_loses_and_repeats_nothing(spark, tmp_path, monkeypatch):
    kill_worker_at(spark, tmp_path, monkeypatch, "before-effects", 6, "outer")


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch", "kind"), each_with_some_kind(DRIVER_POINTS))
def test_a_driver_killed_at_any_point_loses_and_repeats_nothing(spark, tmp_path, point, epoch, kind):
    kill_driver_at(spark, tmp_path, point, epoch, kind)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch"), ALL_CLEANUP)
def test_a_driver_killed_at_any_point_of_cleanup_loses_and_repeats_nothing(spark, tmp_path, point, epoch):
    kill_driver_at(spark, tmp_path, point, epoch, spills=True)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch"), WORKER_CLEANUP)
def test_a_worker_killed_at_any_point_of_cleanup_loses_and_repeats_nothing(spark, tmp_path, monkeypatch, point, epoch):
    kill_worker_at(spark, tmp_path, monkeypatch, point, epoch, spills=True)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch"), ALL_FINAL)
@pytest.mark.parametrize("kind", ENDING)
def test_a_driver_killed_when_input_ends_loses_and_repeats_nothing(spark, tmp_path, point, epoch, kind):
    kill_driver_at(spark, tmp_path, point, epoch, kind)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch"), WORKER_FINAL)
@pytest.mark.parametrize("kind", ENDING)
def test_a_worker_killed_when_input_ends_loses_and_repeats_nothing(spark, tmp_path, monkeypatch, point, epoch, kind):
    kill_worker_at(spark, tmp_path, monkeypatch, point, epoch, kind)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(0, 32, 3), *range(WITH_BUDGET, WITH_BUDGET + 32, 3), *MOVED])
def test_a_driver_killed_at_any_time_loses_and_repeats_nothing(spark, tmp_path, seed):
    kill_driver_at_any_time(spark, tmp_path, seed)


@pytest.mark.processes
def test_a_driver_of_a_cluster_killed_while_groups_move_loses_and_repeats_nothing(spark, tmp_path):
    kill_driver_at_any_time(spark, tmp_path, MOVED[1], CLUSTER)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in MOVED if seed != MOVED[1]])
def test_a_driver_of_a_cluster_killed_at_any_time_loses_and_repeats_nothing(spark, tmp_path, seed):
    kill_driver_at_any_time(spark, tmp_path, seed, CLUSTER)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "epoch", "kind"), each_with_some_kind(WORKER_POINTS))
def test_a_worker_killed_at_any_point_loses_and_repeats_nothing(spark, tmp_path, monkeypatch, point, epoch, kind):
    kill_worker_at(spark, tmp_path, monkeypatch, point, epoch, kind)
