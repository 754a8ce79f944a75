import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from watersmeet.cli.main import app

NAMES = ["demo", "run", "state", "events", "bench"]


def test_the_version_is_the_packages():
    assert CliRunner().invoke(app, ["--version"]).output == f"watersmeet {version('watersmeet')}\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_says_what_it_does(name):
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0
    assert "--output" in done.output


def test_help_answers_without_loading_spark():
    code = "import sys, watersmeet.cli.main; print(sorted({'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_no_command_and_a_wrong_option_are_no_success():
    assert CliRunner().invoke(app, []).exit_code == 2
    assert CliRunner().invoke(app, ["demo", "--epochs", "0"]).exit_code == 2
