"""Futures that might be: rows drawn from the distributions that a stream has at the moment, not from its true future.

They are put into a workload as epochs behind the end of the run: for each phase of drifting data, so many futures of so
many epochs. A run never gets there, but a copy of its state can be continued with any of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from watersmeet.lab.generator import Int64s
from watersmeet.lab.spill.columns import Column, Drifting


@dataclass(frozen=True)
class Futures:
    """How many for each phase, and how long.

    >>> futures = Futures(count=2, epochs=6)
    >>> futures.after_the_end(phases=3)
    36
    >>> futures.span(end=50, phase=1, number=0, epochs=3)
    range(62, 65)
    """

    count: int
    epochs: int

    def after_the_end(self, phases: int) -> int:
        """The epochs that are put behind the run's end."""
        return phases * self.count * self.epochs

    def span(self, end: int, phase: int, number: int, epochs: int) -> range:
        """Where the first epochs of a future are, in a run that ends at ``end``."""
        begin = end + (phase * self.count + number) * self.epochs
        return range(begin, begin + epochs)

    def rows(self, column: Column, seed: Sequence[int], rows: int) -> Iterator[Int64s]:
        """Draw a column's part of all futures, in the order of ``span``."""
        for phase, distribution in enumerate(column.columns if isinstance(column, Drifting) else (column,)):
            for number in range(self.count):
                rng = np.random.default_rng([*seed, phase, number])
                yield from islice(distribution.chunks(rng, rows), self.epochs)


NONE = Futures(count=0, epochs=0)
