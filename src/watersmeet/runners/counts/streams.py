"""What a simulated query reads: a chain of operators, and the rows of its streams as numbers.

A *level* is an operator. It joins, all on one key,

- the results of the level below, if there is one;
- *plain* streams, of whose rows only the key matters, so that they are counted by key;
- one *carrier* stream at most, whose rows also hold the key of the level above.

The papers' query (Spill, Figure 15) has A, B and the carrier C, then the carrier D, then E. Only carriers tell results
apart: all results of a level that go back to the same carrier rows, its *path*, have the same keys and groups at all
levels, hence the same fate. A path is therefore a number in an array, and a run's state is how often each exists.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """Rows of a plain stream: the epoch of each and its key."""

    epoch: Ints
    key: Ints
    row_bytes: int = 40


@dataclass(frozen=True)
class Carrier(Stream):
    """Rows of a stream that is also joined above."""

    next_key: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))


@dataclass(frozen=True)
class Level:
    """One operator's inputs from outside."""

    plain: tuple[Stream, ...]
    carrier: Carrier | None = None

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All of them."""
        return (*self.plain, *([self.carrier] if self.carrier else []))

    @property
    def row_bytes(self) -> int:
        """What one row of each weighs together: this level's part of a result."""
        return sum(stream.row_bytes for stream in self.streams)
