"""Watch the processes of a contender from outside: the memory they hold, and the processor time others take from them.

Weighing the memory of a large process takes a while and holds it up, so it is done as seldom as keeps its share of the
run below `WEIGHING_SHARE`: seldom for all processes with the JVM, more often for the Python workers alone.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

LOOK_EVERY_S = 0.25
WEIGHING_SHARE = 0.02


def _used_s(process: psutil.Process) -> float:
    """The processor time of a process and of those it started and outlived."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system)


@dataclass
class Scale:
    """Weighs processes, and tells when it is time to do so again."""

    _due_s: float = 0.0

    @property
    def is_due(self) -> bool:
        """Whether another weighing keeps within its share of the time."""
        return time.monotonic() >= self._due_s

    def weigh(self, processes: Iterable[psutil.Process]) -> int:
        """The memory of all of them together."""
        before = time.monotonic()
        held = sum(held_bytes(process) for process in processes)
        after = time.monotonic()
        self._due_s = after + (after - before) / WEIGHING_SHARE
        return held


@dataclass
class Watch:
    """What a process and all its descendants have used so far."""

    root: psutil.Process
    peak_bytes: int = 0
    workers_bytes: list[int] = field(default_factory=list)
    _all: Scale = field(default_factory=Scale)
    _workers: Scale = field(default_factory=Scale)
    _used_s: float = 0.0
    _started_s: float = field(default_factory=time.monotonic)
    _machine_s: float = field(default_factory=_busy_s)

    def look(self) -> None:
        """Note what all processes have used, and what they hold if it is time for that."""
        with suppress(psutil.Error):
            processes = [self.root, *self.root.children(recursive=True)]
            self._used_s = max(self._used_s, sum(_used_s(process) for process in processes))
            if self._all.is_due:
                self.peak_bytes = max(self.peak_bytes, self._all.weigh(processes))
            workers = [process for process in processes if _is_worker(process)]
            if workers and self._workers.is_due:
                self.workers_bytes.append(self._workers.weigh(workers))

    @property
    def age_s(self) -> float:
        """How long it has been watched."""
        return time.monotonic() - self._started_s

    @property
    def others_share(self) -> float:
        """The part of the machine's processors that other processes used, as far as it can be told from outside."""
        others_s = _busy_s() - self._machine_s - self._used_s
        return max(0.0, others_s / (self.age_s * (os.cpu_count() or 1)))

    def end(self) -> None:
        """Leave nothing behind, also where the run was interrupted or took too long."""
        with suppress(psutil.NoSuchProcess):
            for process in [*self.root.children(recursive=True), self.root]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any("pyspark.daemon" in word for word in process.cmdline())
    except psutil.Error:
        return False


def held_bytes(process: psutil.Process) -> int:
    """The memory of a process; what it shares with others counts by its part, where the system tells it.

    >>> held_bytes(psutil.Process()) > 1_000_000
    True
    """
    try:
        memory = process.memory_full_info()
    except psutil.NoSuchProcess:
        return 0
    except psutil.AccessDenied:
        return int(process.memory_info().rss)
    return int(getattr(memory, "pss", memory.rss))
