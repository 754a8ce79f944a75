"""Start a contender as a process of its own, and wait for its outcome."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from watersmeet.lab.bench.outcome import Outcome, Task
from watersmeet.lab.bench.watch import LOOK_EVERY_S, Watch
from watersmeet.model.errors import WatersmeetError

TIME_LIMIT_S = 1800.0
LOG_LINES = 10


def run_contender(task: Task) -> Outcome:
    """Run it to its end; the outcome has what was seen from outside, too."""
    folder = Path(task.work)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "watersmeet.lab.bench.contender", msgspec.json.encode(task).decode()]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)  # noqa: S603 -- our own module
        watch = _wait(process, task)
    lines = (folder / "stdout").read_text().splitlines()
    if process.returncode != 0 or not lines:
        raise _failed(task, f"it ended with code {process.returncode}")
    told = msgspec.json.decode(lines[-1], type=Outcome)
    seen = {"peak_bytes": watch.peak_bytes, "others_share": watch.others_share}
    return msgspec.structs.replace(told, workers_bytes=tuple(watch.workers_bytes), **seen)


def _wait(process: "subprocess.Popen[bytes]", task: Task) -> Watch:
    watch = Watch(psutil.Process(process.pid))
    try:
        while process.poll() is None:
            watch.look()
            if watch.age_s > TIME_LIMIT_S:
                raise _failed(task, f"it was not done after {TIME_LIMIT_S:.0f} s")
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY_S)
    finally:
        watch.end()
        process.wait()
    return watch


def _failed(task: Task, why: str) -> WatersmeetError:
    log = (Path(task.work) / "stderr").read_text(errors="replace").splitlines()[-LOG_LINES:]
    return WatersmeetError(
        f"the contender {task.contender} of the benchmark {task.suite} failed",
        why=why,
        how="see the end of its log:\n" + "\n".join(log),
    )
