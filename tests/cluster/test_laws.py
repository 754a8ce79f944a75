"""The laws hold on several executors, too, whatever moves between them."""

import subprocess
import sys

import pytest
from tests.cluster.laws import LAWS

pytestmark = pytest.mark.spark


@pytest.mark.processes
@pytest.mark.timeout(900)
def test_the_laws_hold_on_a_cluster():
    check(examples=3, timeout_s=850)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_laws_hold_on_a_cluster_a_dozen_times():
    check(examples=12, timeout_s=2900)


def check(examples: int, timeout_s: float) -> None:
    command = [sys.executable, "-m", "tests.cluster.laws", str(examples)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stderr[-3000:]
    held = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("holds ")]
    assert held == [law.__name__ for law in LAWS], done.stdout
    assert all(f"'{change}'" in done.stdout for change in ("MoveGroups", "SplitGroup", "SpillGroups"))
