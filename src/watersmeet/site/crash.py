"""Named points at which a test can kill a process, for real and only once.

A `CrashPlan` names a point, an epoch and whom to kill. It is read from ``WATERSMEET_CRASH`` in the driver and travels
to the workers with their tasks. The marker file makes it happen once, however often the point is reached again.
"""

import os
import signal
from dataclasses import dataclass
from typing import Literal

import psutil

Victim = Literal["driver", "executor", "worker"]
DRIVER_POINTS = ("epoch-start", "before-sink", "after-sink", "before-commit", "after-commit", "epoch-end")
WORKER_POINTS = ("task-start", "after-runs", "mid-output", "before-effects", "after-effects")
CLEANUP_POINTS = ("cleanup-start", "mid-cleanup", "cleanup-end")
VARIABLE = "WATERSMEET_CRASH"


@dataclass(frozen=True)
class CrashPlan:
    """Kill ``victim`` when ``point`` is reached in ``epoch`` for the first time."""

    point: str
    epoch: int
    victim: Victim
    marker: str

    def encode(self) -> str:
        """The plan as the value of an environment variable.

        >>> CrashPlan.decode(CrashPlan("mid-output", 3, "worker", "m").encode())
        CrashPlan(point='mid-output', epoch=3, victim='worker', marker='m')
        """
        return f"{self.point},{self.epoch},{self.victim},{self.marker}"

    @classmethod
    def decode(cls, text: str) -> "CrashPlan":
        """The plan such a value describes."""
        point, epoch, victim, marker = text.split(",", 3)
        return cls(point, int(epoch), victim, marker)  # type: ignore[arg-type]

    @classmethod
    def from_environment(cls) -> "CrashPlan | None":
        """The plan this process was started with, if any."""
        text = os.environ.get(VARIABLE)
        return cls.decode(text) if text else None


def reach(plan: CrashPlan | None, point: str, epoch: int) -> None:
    """Pass a point; never returns if a plan says so."""
    if plan is None or (plan.point, plan.epoch) != (point, epoch):
        return
    try:
        os.close(os.open(plan.marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(_pid(plan.victim), signal.SIGKILL)
    signal.pause()


def executor_pid() -> int:
    """The process id of the executor this worker belongs to: the worker daemon's parent."""
    return psutil.Process(os.getppid()).ppid()


def _pid(victim: Victim) -> int:
    return executor_pid() if victim == "executor" else os.getpid()
