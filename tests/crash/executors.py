"""Kills executors, one query after the other, on a cluster of real executor processes. A program of its own."""

import os
import sys
import tempfile
from pathlib import Path

from tests.crash.query import expected, finish, session, written
from tests.support.oracle import difference

from watersmeet.testing import CrashPlan


def main(plans: list[str]) -> None:
    spark = session("local-cluster[2,1,512]")
    for seed, text in enumerate(plans):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            point, epoch = text.split(":")
            plan = CrashPlan(point, int(epoch), "executor", str(folder / "crashed"))
            os.environ["WATERSMEET_CRASH"] = plan.encode()
            finish(spark, folder, seed)
            assert (folder / "crashed").exists(), f"{text} was never reached"
            got, wanted = written(folder), expected(seed)
            assert got == wanted, f"{text}: {difference(got, wanted)}"
            print("survived", text, flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
