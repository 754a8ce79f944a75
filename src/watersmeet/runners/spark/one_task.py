"""The local exchange on Spark: a step goes through all levels and sites in one task.

An exchange and a stage of Python tasks take Spark time before the first row moves, some 100 ms for each level, and an
exchange takes a row longer than its way from Spark to Python. Where there is one executor, which all sites share
anyway, and where rows travel to the levels above in parcels, whose sites are known without Spark, one task can do the
work of all (`watersmeet.site.local_exchange`).

What is lost is parallelism: rows come out of Spark, and results go back, on one core, and threads of one process get
in each other's way. So the more cores there are, the smaller an epoch has to be. Which way is quicker is estimated
(`Load`), and the estimates are corrected by what epochs really took (`Pace`).

An epoch is expected to be like the one before, or as much larger as its input is; of files, Spark knows that
beforehand. If it is not, and more rows come than are worth it, a task that writes its results to files gives up before
it has written any, and the step is taken the long way. A sink that takes rows would have to be failed for that, which a
function of the user's might take for an error of its own, or pass over: there, a burst that nothing foretold is joined
in the one task, in rounds as ever, and the epoch after it goes the long way. Nothing is known of a run's first epoch,
so it tries the local way only where it can be given up.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet.runners.spark.schemas import spark_schema
from watersmeet.runners.spark.session import this_python
from watersmeet.runners.spark.worker_socket import acknowledge_at_once
from watersmeet.site.effects import Effects, Report
from watersmeet.site.local_exchange import LocalExchange
from watersmeet.site.spec import LevelSpec

STAGE_MS = 100.0
"""What an exchange and a stage of Python tasks take to begin."""

ROW_MS, EXCHANGED_ROW_MS = 0.0004, 0.0013
"""One core's time to bring a row of a stream from Spark to Python; the same with an exchange in between."""

RESULT_MS = 0.001
"""One core's time to make a result a row of Spark's and have a sink take it, which may be more."""

THREADS = 2
"""As many cores is what threads of one Python process are worth, at most."""

FIRST_ROWS = 1_000_000
"""As many rows are tried in a run's first epoch, when a cold JVM takes a second for an exchange."""

LEAST_ROWS = 10_000
"""Fewer rows are never worth an exchange: what a small epoch takes does not go with its rows."""

MERGED_BYTES_MAX = 64 << 20
"""Merges of more are worth doing on all cores."""

BURST_MOST = 1 << 10
"""An epoch may have this many times the rows of the last one before nothing is foretold of it."""

TOLERATED = 1.2
"""The local way is given up where it is expected to take longer than this times the long way."""

UNKNOWN_BYTES = 1 << 60
"""What Spark says of a source that does not tell its size is more."""

FORGOTTEN = 0.01
"""How much of what is known of a way is forgotten with each epoch that takes the other."""

Way = Literal["local", "long"]


@dataclass(frozen=True)
class Load:
    """What an epoch was: rows that came from Spark, results that went to it, the time of the site tasks in between."""

    came: int
    went: int
    busy_ms: float

    @classmethod
    def of(cls, effects: Sequence[Effects], *, writes_files: bool) -> "Load":
        """What the tasks of an epoch tell."""
        root = max(each.level for each in effects)
        came = sum(sum(each.rows_in.values()) for each in effects if each.level == 0)
        went = sum(sum(each.rows_out.values()) for each in effects if each.level == root)
        return cls(came, 0 if writes_files else went, sum(each.busy_ms for each in effects))

    def times(self, factor: float) -> "Load":
        """A load so many times as large."""
        return Load(int(self.came * factor), int(self.went * factor), self.busy_ms * factor)

    def estimate_ms(self, way: Way, sites: int, levels: int) -> float:
        """How long an epoch takes by a way, on the machine the constants were measured on."""
        if way == "local":
            return self.came * ROW_MS + self.went * RESULT_MS + self.busy_ms / min(sites, THREADS) + STAGE_MS / 2
        shared = self.came * EXCHANGED_ROW_MS + self.went * RESULT_MS + self.busy_ms
        return shared / sites + STAGE_MS * levels


@dataclass
class Pace:
    """How long epochs take by each way, as a multiple of the estimate: an exponentially weighted mean.

    >>> pace = Pace()
    >>> small, large = Load(came=4_000, went=1_000, busy_ms=30), Load(came=4_000_000, went=0, busy_ms=8_000)
    >>> [pace.prefers_local(load, sites=8, levels=3) for load in (small, large)]
    [True, False]
    >>> for _ in range(9):
    ...     pace.learn("local", large, 500.0, sites=8, levels=3)
    >>> pace.prefers_local(large, sites=8, levels=3)
    True
    """

    factors: dict[Way, float] = field(default_factory=lambda: {"local": 1.0, "long": 1.0})
    seen: dict[Way, int] = field(default_factory=lambda: {"local": 0, "long": 0})

    def learn(self, way: Way, load: Load, took_ms: float, sites: int, levels: int) -> None:
        """An epoch took so long. The first of a way warms it up, and tells nothing.

        What is known of the way that was not taken is slowly forgotten, so that it is tried again some day.
        """
        other: Way = "long" if way == "local" else "local"
        self.factors[other] += (1.0 - self.factors[other]) * FORGOTTEN
        self.seen[way] += 1
        if self.seen[way] > 1:
            ratio = took_ms / load.estimate_ms(way, sites, levels)
            self.factors[way] += (min(max(ratio, 0.1), 10.0) - self.factors[way]) * 0.3

    def expected_ms(self, way: Way, load: Load, sites: int, levels: int) -> float:
        """How long an epoch should take."""
        return self.factors[way] * load.estimate_ms(way, sites, levels)

    def prefers_local(self, load: Load, sites: int, levels: int) -> bool:
        """Whether one task takes less time than one for every site at every level."""
        local, long = (self.expected_ms(way, load, sites, levels) for way in ("local", "long"))
        return local <= long

    def rows_limit(self, load: Load, sites: int, levels: int) -> int | None:
        """How many rows are still worth it, if the next epoch is larger; None for any number."""
        factor = 1.0
        while factor <= BURST_MOST:
            larger = load.times(factor)
            local = self.expected_ms("local", larger, sites, levels)
            if local > TOLERATED * self.expected_ms("long", larger, sites, levels):
                return max(LEAST_ROWS, larger.came)
            factor *= 1.5
        return None


@dataclass
class LocalWay:
    """Decides when to take it, and takes it."""

    allowed: bool = True
    last: Load | None = None
    last_bytes: int | None = None
    pace: Pace = field(default_factory=Pace)

    def suits(self, levels: Sequence[LevelSpec], size_bytes: int | None = None) -> bool:
        """Whether an epoch can take it, and should; ``size_bytes`` is the size of its input, where Spark knows it."""
        if not self.allowed or not all(spec.packed for spec in levels[1:]):
            return False
        if self.last is None:
            return levels[-1].files is not None
        load = self.last
        if size_bytes and self.last_bytes and size_bytes > self.last_bytes:
            load = load.times(size_bytes / self.last_bytes)
        is_quicker = self.pace.prefers_local(load, len(levels[0].sites), len(levels))
        return is_quicker and _merged_bytes(levels) <= MERGED_BYTES_MAX

    def suits_cleanup(self, levels: Sequence[LevelSpec]) -> bool:
        """Whether a step of cleanup should take it: it is all work, and few rows; nor is another process woken."""
        return self.allowed and all(spec.packed for spec in levels[1:]) and len(levels[0].sites) <= THREADS

    def learn(
        self, way: Way, load: Load, took_ms: float, levels: Sequence[LevelSpec], size_bytes: int | None = None
    ) -> None:
        """An epoch is done: the next one is likely to be like it."""
        self.last, self.last_bytes = load, size_bytes
        self.pace.learn(way, load, took_ms, len(levels[0].sites), len(levels))

    def run(self, delta: DataFrame, levels: Sequence[LevelSpec], report: Report) -> DataFrame:
        """Bring all rows to one task, and have it do everything."""
        is_cleanup = any(part.cleaning for part in levels[0].sites.values())
        limit = self._limit(levels) if levels[-1].files is not None and not is_cleanup else None
        task = one_task(levels, report, limit)
        with this_python(delta.sparkSession):
            return delta.coalesce(1).mapInArrow(task, spark_schema(levels[-1].outgoing.schema))

    def _limit(self, levels: Sequence[LevelSpec]) -> int | None:
        if self.last is None:
            return FIRST_ROWS
        return self.pace.rows_limit(self.last, len(levels[0].sites), len(levels))


def one_task(
    levels: Sequence[LevelSpec], report: Report, limit: int | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function Spark runs; with more rows than a limit it gives up, as if it had never run."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        acknowledge_at_once()
        exchange, taken = LocalExchange(levels), 0
        for batch in batches:
            taken += batch.num_rows
            if limit is not None and taken > limit and not exchange.has_joined:
                return
            yield from exchange.take(batch)
        yield from exchange.end()
        for name in exchange.effects_names():
            report.add(name)

    return task


def input_bytes(batch: DataFrame | None) -> int | None:
    """The size of a batch's input, if its sources tell it before it is read."""
    if batch is None:
        return None
    size = int(batch._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())  # noqa: SLF001
    return size if size < UNKNOWN_BYTES else None


def _merged_bytes(levels: Sequence[LevelSpec]) -> int:
    return sum(order.bytes for spec in levels for part in spec.sites.values() for order in part.merges)
