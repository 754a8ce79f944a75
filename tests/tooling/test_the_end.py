import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_of_tests_ends_with_their_number():
    sink_and_oracle = "tests/engine/test_remote.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", sink_and_oracle]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 passed")
    assert "leaked" not in done.stderr
