"""How the tests themselves are run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)


@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.parametrize("workers", [(), ("--numprocesses", "2", "--dist", "worksteal")], ids=["alone", "in two"])
def test_a_run_of_tests_ends_with_their_number(workers):
    sink_and_oracle = "tests/runners/spark/test_remote.py"
    done = run(*workers, sink_and_oracle)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("3 passed")
    assert "leaked" not in done.stderr


SOME = """
def test_with(spark): ...

def test_without(): ...

def example_with():
    '''
    >>> spark.range(1)
    '''

def example_without():
    '''A word about spark.

    >>> spark_type = 1
    '''
"""


@pytest.mark.long
def test_tests_and_examples_that_use_the_session_are_marked_without_saying_so(tmp_path):
    (tmp_path / "test_some.py").write_text(SOME)
    ours = ("-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "-p", "conftest")
    done = run(*ours, "--collect-only", "-m", "not spark", tmp_path)
    found = {re.split(r"[:.]", line)[-1] for line in done.stdout.splitlines() if "::" in line}
    assert found == {"test_without", "example_without"}
