"""A join column whose load alternates (Lazy/Active 5.2): each half of the partitions gets most tuples in turn.

All else is as `generator` has it; the two halves go through their ranges at their own pace.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from watersmeet.lab.generator import Int64s, JoinColumn


@dataclass(frozen=True)
class AlternatingColumn(JoinColumn):
    """One half of the partitions gets ``times`` as many tuples as the other, for ``phase`` epochs; half of it at first.

    >>> column = AlternatingColumn(8, [1], partitions=2, phase=2, times=3)
    >>> chunks = column.chunks(np.random.default_rng(0), 4)
    >>> [int((next(chunks) % 2 == 0).sum()) for _ in range(6)]
    [3, 1, 1, 3, 3, 1]
    """

    phase: int = 10
    times: float = 10.0

    def chunks(self, rng: np.random.Generator, rows: int) -> Iterator[Int64s]:
        """Draw an epoch after the other."""
        halves = [_Pieces(self._of_half(rng, half)) for half in (0, 1)]
        many = round(rows * self.times / (self.times + 1))
        for epoch in itertools.count():
            busy = (epoch + self.phase // 2) // self.phase % 2
            drawn = [halves[busy].take(many), halves[1 - busy].take(rows - many)]
            yield rng.permutation(np.concatenate(drawn))

    def _of_half(self, rng: np.random.Generator, half: int) -> Iterator[Int64s]:
        for values in self.ranges(rng):
            of_first = self.partition_of(values, self.partitions) < self.partitions // 2
            yield values[of_first == (half == 0)]


class _Pieces:
    """Values that come in ranges, taken in pieces of any length."""

    def __init__(self, ranges: Iterator[Int64s]) -> None:
        self._ranges, self._rest = ranges, np.empty(0, dtype=np.int64)

    def take(self, count: int) -> Int64s:
        """The next so many."""
        while len(self._rest) < count:
            self._rest = np.concatenate([self._rest, next(self._ranges)])
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken
