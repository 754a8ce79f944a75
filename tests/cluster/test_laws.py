"""Disturbed joins, windows, outer joins, aggregates, rings and functions hold on several executors, too."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_laws_hold_on_a_cluster():
    command = [sys.executable, "-m", "tests.cluster.laws", "12"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("holds") == 6, done.stdout
