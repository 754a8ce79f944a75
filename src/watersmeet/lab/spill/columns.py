"""Join columns beyond the papers': groups that differ in how much arrives, and groups that change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from watersmeet.lab.generator import Int64s, JoinColumn


class Column(Protocol):
    """What the streams of a setting are drawn from."""

    def chunks(self, rng: np.random.Generator, rows: int) -> Iterator[Int64s]:
        """Draw values in pieces of a given length, for ever."""
        ...


@dataclass(frozen=True)
class UnequalShares(JoinColumn):
    """Partitions get rows in proportion to ``shares``, which go round as ``ratios`` do: more values, as often each.

    >>> column = UnequalShares(tuple_range=10, ratios=(2, 1), partitions=2, shares=(4, 1))
    >>> column.values.tolist(), column.value_ratios.tolist()
    ([0, 2, 4, 6, 1, 3], [2.0, 2.0, 2.0, 2.0, 1.0, 1.0])
    """

    shares: Sequence[float] = (1.0,)

    @cached_property
    def _values_per_partition(self) -> Int64s:
        shares = np.resize(np.asarray(self.shares), self.partitions)
        wanted = self.tuple_range * shares / shares.sum() / self.partition_ratios
        ends = np.round(np.cumsum(wanted))
        return np.diff(ends, prepend=0).astype(np.int64)


@dataclass(frozen=True)
class Drifting:
    """One column after the other, each for so many rows; the last one for ever."""

    columns: tuple[Column, ...]
    rows_each: int

    def chunks(self, rng: np.random.Generator, rows: int) -> Iterator[Int64s]:
        """Draw values; a column starts with the chunk that begins in its part."""
        drawn = [column.chunks(rng, rows) for column in self.columns]
        done = 0
        while True:
            yield next(drawn[min(done // self.rows_each, len(drawn) - 1)])
            done += rows
