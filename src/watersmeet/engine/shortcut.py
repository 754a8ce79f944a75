"""The shortcut: an epoch goes through all levels and sites in one task.

An exchange and a stage of Python tasks take Spark time before the first row moves, some 100 ms for each level, and an
exchange takes a row longer than its way from Spark to Python. Where there is one executor, which all sites share
anyway, and where rows travel to the levels above in parcels, whose sites are known without Spark, one task can do the
work of all: what a site task yields is handed on to those of the next level, and the sites of a level are threads. Site
tasks, effects and state are the same.

What is lost is parallelism: rows come out of Spark, and results go back, on one core, and threads of one process get
in each other's way. So the more cores there are, the smaller an epoch has to be (`Load`).

An epoch is expected to be like the one before. Nothing is known of a run's first: it tries the shortcut where that can
be given up without a trace, which means that its results do not become Spark's rows (`direct`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet.engine.effects import Effects, Report
from watersmeet.engine.layout import SITE
from watersmeet.engine.parallel import in_parallel
from watersmeet.engine.site_task import SiteTask
from watersmeet.engine.spec import LevelSpec
from watersmeet.engine.types import spark_schema
from watersmeet.engine.worker_socket import acknowledge_at_once

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

MERGED_BYTES_MAX = 64 << 20
"""Merges of more are worth doing on all cores."""


@dataclass(frozen=True)
class Load:
    """What an epoch was: rows that came from Spark, results that went to it, the time of the site tasks in between.

    >>> small, large = Load(came=4_000, went=1_000, busy_ms=30), Load(came=4_000_000, went=0, busy_ms=8_000)
    >>> [load.suits_one_task(sites=8, levels=3) for load in (small, large)]
    [True, False]
    """

    came: int
    went: int
    busy_ms: float

    @classmethod
    def of(cls, effects: Sequence[Effects], *, direct: bool) -> "Load":
        """What the tasks of an epoch tell."""
        root = max(each.level for each in effects)
        came = sum(sum(each.rows_in.values()) for each in effects if each.level == 0)
        went = sum(sum(each.rows_out.values()) for each in effects if each.level == root)
        return cls(came, 0 if direct else went, sum(each.busy_ms for each in effects))

    def suits_one_task(self, sites: int, levels: int) -> bool:
        """Whether one task takes less time than one for every site at every level."""
        alone = self.came * ROW_MS + self.went * RESULT_MS + self.busy_ms / min(sites, THREADS)
        shared = self.came * EXCHANGED_ROW_MS + self.went * RESULT_MS + self.busy_ms
        return alone <= shared / sites + STAGE_MS * levels


@dataclass
class Shortcut:
    """Decides when to take it."""

    allowed: bool = True
    last: Load | None = None

    def suits(self, levels: Sequence[LevelSpec]) -> bool:
        """Whether an epoch can take it, and should."""
        if not self.allowed or not all(spec.packed for spec in levels[1:]):
            return False
        if self.last is None:
            return levels[-1].direct is not None
        is_small = self.last.suits_one_task(len(levels[0].sites), len(levels))
        return is_small and _merged_bytes(levels) <= MERGED_BYTES_MAX

    def suits_cleaning(self, levels: Sequence[LevelSpec]) -> bool:
        """Whether a step of cleanup should take it: it is all work, and few rows; nor is another process woken."""
        return self.allowed and all(spec.packed for spec in levels[1:]) and len(levels[0].sites) <= THREADS

    def run(self, delta: DataFrame, levels: Sequence[LevelSpec], report: Report) -> DataFrame:
        """Bring all rows to one task, and have it do everything."""
        has_rows = not any(part.cleaning for part in levels[0].sites.values())
        task = one_task(levels, report, FIRST_ROWS if has_rows and self.last is None else None)
        return delta.coalesce(1).mapInArrow(task, spark_schema(levels[-1].output))


def one_task(
    levels: Sequence[LevelSpec], report: Report, limit: int | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function Spark runs; with more rows than a limit it ends without effects, as if it had never run."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        acknowledge_at_once()
        passage = Passage(levels)
        taken = 0
        for batch in batches:
            taken += batch.num_rows
            if limit is not None and taken > limit:
                return
            yield from passage.take(batch)
        yield from passage.end()
        for name in passage.effects_names():
            report.add(name)

    return task


class Passage:
    """The site tasks of all levels, each handing on to the next."""

    def __init__(self, levels: Sequence[LevelSpec]) -> None:
        specs = [replace(spec, round_bytes=spec.round_bytes // len(levels)) for spec in levels]
        self._levels = [{part.key: SiteTask(spec, site) for site, part in spec.sites.items()} for spec in specs]

    def take(self, batch: pa.RecordBatch, level: int = 0) -> Iterator[pa.RecordBatch]:
        """Consume some rows, each with its site, and yield what comes out at the root."""
        for key, rows in by_site(batch):
            yield from self._hand_on(self._levels[level][key].take(rows), level)

    def end(self) -> Iterator[pa.RecordBatch]:
        """All rows have come: level by level, finish."""
        for level, tasks in enumerate(self._levels):
            yield from self._hand_on(in_parallel([task.end() for task in tasks.values()]), level)

    def effects_names(self) -> list[str]:
        """What all tasks have told."""
        return [task.effects_name for tasks in self._levels for task in tasks.values()]

    def _hand_on(self, produced: Iterable[pa.RecordBatch], level: int) -> Iterator[pa.RecordBatch]:
        if level + 1 == len(self._levels):
            yield from produced
        else:
            for batch in produced:
                yield from self.take(batch, level + 1)


def by_site(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each site in a batch.

    >>> batch = pa.record_batch({SITE: pa.array([7, 5, 7]), "x": pa.array([1, 2, 3])})
    >>> [(key, rows.column("x").to_pylist()) for key, rows in by_site(batch)]
    [(5, [2]), (7, [1, 3])]
    """
    sites = batch.column(SITE).to_numpy()
    for key in np.unique(sites).tolist():
        yield key, batch.filter(pa.array(sites == key))


def _merged_bytes(levels: Sequence[LevelSpec]) -> int:
    orders = (order for spec in levels for part in spec.sites.values() for order in part.merges)
    return sum(run.bytes for order in orders for run, _ in order.runs)
