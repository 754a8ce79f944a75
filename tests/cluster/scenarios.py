"""Queries on a cluster of two real executor processes, one after the other. A program of its own.

A scenario is ``seed``, ``seed:idle`` (cleanup comes by itself when input pauses) or ``seed:point:epoch`` (an executor
is killed there), each perhaps with ``remote:`` before it: state is then remote, with copies for each executor. The seed
decides how results are written, how rows travel, and whether there is too little memory.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from tests.crash.query import PATIENCE_S, finish, session, start, written
from tests.crash.variants import expected
from tests.support.oracle import difference

import watersmeet as wm
from watersmeet.storage.remote import FsspecStorage
from watersmeet.testing import CrashPlan

REMOTE = "remote:"


def main(scenarios: list[str]) -> None:
    spark = session("local-cluster[2,1,512]")
    for text in scenarios:
        seed, *rest = text.removeprefix(REMOTE).split(":")
        with tempfile.TemporaryDirectory() as name, state_in(Path(name), is_remote=text.startswith(REMOTE)):
            folder = Path(name)
            os.environ.pop("WATERSMEET_CRASH", None)
            if rest == ["idle"]:
                clean_when_idle(spark, folder, int(seed))
            else:
                run(spark, folder, int(seed), rest)
            got, wanted = written(folder), expected(int(seed))
            assert got == wanted, f"{text}: {difference(got, wanted)}"
            print("survived", text, flush=True)  # noqa: T201
    spark.stop()


@contextmanager
def state_in(folder: Path, *, is_remote: bool) -> Iterator[None]:
    """Local files as they are, or taken for remote ones."""
    if not is_remote:
        yield
        return
    remote = FsspecStorage(f"file://{folder}/checkpoint/state", cache=str(folder / "copies"))
    with wm.testing.thrown(wrap=lambda _: remote):
        yield
    assert any(path.is_file() for path in (folder / "copies").rglob("*")), "no copies were made"


def run(spark: SparkSession, folder: Path, seed: int, crash: list[str]) -> None:
    if crash:
        plan = CrashPlan(crash[0], int(crash[1]), "executor", str(folder / "crashed"))
        os.environ["WATERSMEET_CRASH"] = plan.encode()
    finish(spark, folder, seed)
    assert not crash or (folder / "crashed").exists(), f"{crash} was never reached"


def clean_when_idle(spark: SparkSession, folder: Path, seed: int) -> None:
    query = start(spark, folder, seed, now=False)
    query.processAllAvailable()
    assert any(event["kind"] == "spill" for event in query.events()), "nothing was spilled"
    deadline = time.monotonic() + PATIENCE_S
    while query._run.loop.missing_groups() and time.monotonic() < deadline:  # noqa: SLF001
        time.sleep(0.2)
    query.stop()
    assert query.exception() is None


if __name__ == "__main__":
    main(sys.argv[1:])
