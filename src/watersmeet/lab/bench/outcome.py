"""What a contender is told, and what it tells."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from watersmeet.lab.bench.contenders import Contender

CORES = 2
"""Tasks at once, shuffle partitions, sites, threads: the same for all, on every machine."""

NONE_SLOW: Mapping[int, float] = MappingProxyType({})


class Task(msgspec.Struct, frozen=True):
    """One contender's part in a suite; ``data`` has a folder per stream, ``work`` is its own.

    ``prepared`` is the folder of the contender that ran first and left something for the others.
    """

    suite: str
    contender: Contender
    data: str
    work: str
    heap: str
    budget_bytes: int | None = None
    prepared: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What a run took and gave.

    ``epoch_results`` are those of each epoch, and after them of each step without input. ``gauges`` are what was
    weighed in every epoch. From outside come the peak of the memory of all its processes together, the memory of
    its Python workers over time, and the part of the machine's processors that processes of others used meanwhile:
    the more, the less its times say. Where it is the median of several runs, ``runs_s`` has the times of all.

    Of ours also: for every epoch how long each site was busy, how long promises took there at most, and how many rows
    came to it; how long the slowest executor was, one site after the other; how many groups have moved, and in which
    epochs.
    """

    contender: Contender
    whole_s: float
    results: int
    epoch_ms: tuple[float, ...] = ()
    epoch_results: tuple[int, ...] = ()
    state_bytes: int = 0
    busy_ms: tuple[float, ...] = ()
    site_ms: tuple[tuple[float, ...], ...] = ()
    promises_ms: tuple[float, ...] = ()
    site_rows: tuple[tuple[int, ...], ...] = ()
    executor_ms: tuple[float, ...] = ()
    moves: int = 0
    move_epochs: tuple[int, ...] = ()
    gauges: dict[str, tuple[int, ...]] = {}
    peak_bytes: int = 0
    others_share: float = 0.0
    workers_bytes: tuple[int, ...] = ()
    runs_s: tuple[float, ...] = ()

    @property
    def last_s(self) -> float:
        """The last and largest epoch."""
        return self.epoch_ms[-1] / 1000 if self.epoch_ms else 0.0

    @property
    def slowest_site_s(self) -> float:
        """How long the slowest site of each epoch after the first was busy, in all."""
        return sum(max(times) for times in self.site_ms[1:]) / 1000

    @property
    def promises_s(self) -> float:
        """How long promises took in all epochs after the first, at the site where they took longest."""
        return sum(self.promises_ms[1:]) / 1000

    @property
    def slowest_executor_s(self) -> float:
        """The same of the slowest executor."""
        return sum(self.executor_ms[1:]) / 1000

    def levelled_s(self, executors: int, slow: Mapping[int, float] = NONE_SLOW) -> float:
        """How long the run would have taken if executors had shared the work of every epoch after the first evenly.

        Sites that are ``slow`` would have done nothing.

        >>> Outcome("watersmeet", 10.0, 0, site_ms=((9, 9), (5000, 1000)), executor_ms=(18, 5000)).levelled_s(2)
        8.0
        """
        quick_ms = sum(ms / slow.get(site, 1.0) for times in self.site_ms[1:] for site, ms in enumerate(times))
        return self.whole_s - self.slowest_executor_s + quick_ms / executors / 1000

    @property
    def largest_share(self) -> float:
        """How many times its even share of an epoch's rows the busiest site had, as the mean of all epochs.

        >>> Outcome("watersmeet", 1.0, 0, site_rows=((30, 10), (10, 10))).largest_share
        1.25
        """
        shares = [max(rows) * len(rows) / sum(rows) for rows in self.site_rows if sum(rows)]
        return sum(shares) / len(shares) if shares else 1.0

    @property
    def later_s(self) -> float:
        """All epochs after the first, which has a cold JVM."""
        return sum(self.epoch_ms[1:]) / 1000
