"""The session a command makes: this machine, quiet, and stopped at the end.

Spark writes its log to a file of its own: nothing gets between the lines of a command. The file is removed when all
went well, and named when something failed.
"""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from watersmeet.model.errors import WatersmeetError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

OLDEST_JAVA = 17
LOG_TAIL_LINES = 3
DEFAULTS = {
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def spark_session(
    console: "Console",
    master: str = "local[*]",
    app_name: str = "watersmeet",
    conf: Mapping[str, str] | None = None,
) -> Iterator["SparkSession"]:
    """Start Spark for the body of the block, and stop it afterwards."""
    check_java()
    logging.getLogger().addHandler(logging.NullHandler())  # or py4j prints what it then raises
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log = _new_log()
    settings = DEFAULTS | dict(conf or {}) | {"spark.master": master, "spark.app.name": app_name}
    failed = False
    try:
        with console.status("Starting Spark ..."):
            session = _start(settings, log)
        try:
            yield session
        finally:
            session.stop()
    except WatersmeetError:
        raise
    except Exception as error:
        failed = True
        error.add_note(f"Spark's log is {log}.")
        raise
    finally:
        if not failed:
            log.unlink()


def check_java() -> None:
    """Say what to install where Spark would only say that a process ended."""
    version = _java_version()
    if version is None or version < OLDEST_JAVA:
        raise WatersmeetError(
            "Spark cannot start",
            why=f"it needs Java {OLDEST_JAVA} or later, and {_java_found(version)}",
            how=f"install one (on Debian: apt-get install openjdk-{OLDEST_JAVA}-jre-headless) or set JAVA_HOME to it",
        )


def _java_version() -> int | None:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        return None
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


def _java_found(version: int | None) -> str:
    if version is not None:
        return f"the one found is Java {version}"
    home = os.environ.get("JAVA_HOME")
    return f"there is none in JAVA_HOME, {home}" if home else "none was found"


def _start(settings: Mapping[str, str], log: Path) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    try:
        with log.open("w") as file:
            gateway = launch_gateway(conf, {"stderr": file})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        raise _not_started(log) from error
    context = SparkContext(conf=conf, gateway=gateway)
    context.setLogLevel(settings["spark.log.level"])
    return SparkSession.builder.getOrCreate()


def _not_started(log: Path) -> WatersmeetError:
    lines = [line.strip() for line in log.read_text().splitlines() if line.strip()]
    return WatersmeetError(
        "Spark did not start",
        why=" ".join(lines[-LOG_TAIL_LINES:]).rstrip(".") or "its process ended at once and said nothing",
        how="correct that; the settings of the session and SPARK_HOME decide how it starts",
    )


def _new_log() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="watersmeet-spark-", suffix=".log")
    os.close(descriptor)
    return Path(name)
