"""The local exchange: the site tasks of all levels in one process, each handing on to the next.

Nothing leaves the process between two levels: what a site task yields is dealt out to those of the next level, and the
sites of a level are threads. Site tasks, effects and state are the same as with any other exchange. It takes messages
whose site is known without Spark: rows of the first level, pointers, and parcels.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.site.messages import SITE
from watersmeet.site.parallel import in_parallel
from watersmeet.site.spec import LevelSpec
from watersmeet.site.task import SiteTask

ROUND_LEAST_BYTES = 1 << 20
"""All tasks together hold as much as one round; but a round that is too small costs more than it spares."""


class LocalExchange:
    """The tasks of one step."""

    def __init__(self, levels: Sequence[LevelSpec]) -> None:
        tasks = sum(len(spec.sites) for spec in levels)
        specs = [replace(spec, round_bytes=max(ROUND_LEAST_BYTES, spec.round_bytes // tasks)) for spec in levels]
        self._levels = [{spec.site_keys[site]: SiteTask(spec, site) for site in spec.sites} for spec in specs]

    def take(self, batch: pa.RecordBatch, level: int = 0) -> Iterator[pa.RecordBatch]:
        """Consume some messages, each with its site, and yield what comes out at the root."""
        for key, rows in by_site(batch):
            yield from self._hand_on(self._levels[level][key].take(rows), level)

    def end(self) -> Iterator[pa.RecordBatch]:
        """All rows have come: level by level, finish."""
        for level, tasks in enumerate(self._levels):
            yield from self._hand_on(in_parallel([task.end() for task in tasks.values()]), level)

    @property
    def has_joined(self) -> bool:
        """Whether anything has been joined, or only collected so far."""
        return any(task.rounds for tasks in self._levels for task in tasks.values())

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
    """The messages of each site in a batch.

    >>> batch = pa.record_batch({SITE: pa.array([7, 5, 7]), "x": pa.array([1, 2, 3])})
    >>> [(key, rows.column("x").to_pylist()) for key, rows in by_site(batch)]
    [(5, [2]), (7, [1, 3])]
    """
    sites = batch.column(SITE).to_numpy()
    for key in np.unique(sites).tolist():
        yield key, batch.filter(pa.array(sites == key))
