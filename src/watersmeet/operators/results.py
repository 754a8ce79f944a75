"""Results as an operator makes them: for every input some rows, and which of them each result is made of.

Nothing is copied until somebody needs the columns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.operators.ranges import Index
from watersmeet.state.rows import SortedRows, take_rows


@dataclass(frozen=True)
class Results:
    """A batch of results: ``index[n]`` are the numbers of the rows of input ``n`` that take part, in the same order.

    ``own`` are columns that no input has.
    """

    rows: tuple[pa.RecordBatch, ...]
    index: tuple[Index, ...]
    own: Mapping[str, pa.Array] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many results there are."""
        return len(self.index[0])

    def columns(self) -> dict[str, pa.Array]:
        """The columns of the results, by name."""
        parts = [take_rows(rows, index) for rows, index in zip(self.rows, self.index, strict=True)]
        return {name: part.column(name) for part in parts for name in part.schema.names} | dict(self.own)


class OnlyPairs:
    """The part of an operator's task where rows without a match give nothing."""

    def settle(self, number: int, rows: SortedRows, other: object) -> Iterator[Results]:
        """Rows without a match are no results."""
        del number, rows, other
        yield from ()

    def unmatched(self, number: int, rows: SortedRows) -> Iterator[Results]:
        """Rows without a match are no results."""
        del number, rows
        yield from ()
