"""Running the real command, as a user does."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = os.environ | {
    # Java's second compiler does not pay in runs as short as these
    "PYSPARK_SUBMIT_ARGS": "--conf spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 pyspark-shell"
}
NO_JAVA = {"JAVA_HOME": "/nonexistent"}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from watersmeet.cli.main import main; main()", *map(str, arguments)]


def watersmeet(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, timeout=200, env=ENVIRONMENT | (env or {})
    )


def succeed(*arguments: object, env: dict[str, str] | None = None) -> str:
    done = watersmeet(*arguments, env=env)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    return done.stdout


def succeed_json(*arguments: object, env: dict[str, str] | None = None):
    return json.loads(succeed(*arguments, "--output", "json", env=env))


def read_json_lines(files: Sequence[Path]) -> list[dict[str, object]]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
