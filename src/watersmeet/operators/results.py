"""Results as an operator makes them: for every input some rows, and which of them each result is made of.

Nothing is copied until somebody needs the columns (`columns`). Who writes them to a file that encodes repeated values
by a dictionary needs no copy at all: the rows are the dictionary (`dictionaries`).
"""

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.operators.ranges import Index
from watersmeet.state.rows import take_rows


@dataclass(frozen=True)
class Results:
    """A batch of results: ``index[n]`` are the numbers of the rows of input ``n`` that take part, in the same order."""

    rows: tuple[pa.RecordBatch, ...]
    index: tuple[Index, ...]

    @property
    def count(self) -> int:
        """How many results there are."""
        return len(self.index[0])

    def columns(self) -> dict[str, pa.Array]:
        """The columns of the results, by name."""
        parts = [take_rows(rows, index) for rows, index in zip(self.rows, self.index, strict=True)]
        return {name: part.column(name) for part in parts for name in part.schema.names}

    def dictionaries(self) -> dict[str, pa.DictionaryArray]:
        """The same, each as numbers of rows and the rows' values."""
        found: dict[str, pa.DictionaryArray] = {}
        for rows, index in zip(self.rows, self.index, strict=True):
            numbers = pa.array(index, pa.int32())
            found |= {name: pa.DictionaryArray.from_arrays(numbers, rows.column(name)) for name in rows.schema.names}
        return found
