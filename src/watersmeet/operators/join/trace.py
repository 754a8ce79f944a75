"""Tracing results back to the groups they came through (Spill, algorithms 1 and 2).

The paper re-applies the split functions to a sample of the results. Here an intermediate result carries the group it
had at each operator below, two bytes each, so nothing is hashed again and nothing is sampled: results are products of
ranges (`product`), and a row of a range takes part in as many results as the other inputs' ranges have combinations.
All of them are counted at the cost of the rows that are gathered, however many results they give.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.join.product import Blocks
from watersmeet.operators.ranges import Index

Counts = npt.NDArray[np.int64]


class Output:
    """The results of one operator: by its own groups, and by the groups of the operators below."""

    def __init__(self, groups: int, traced: Sequence[str] = ()) -> None:
        self.by_group: Counts = np.zeros(groups, dtype=np.int64)
        self.traced: dict[str, Counts] = {name: np.zeros(groups, dtype=np.int64) for name in traced}

    def count(self, own: Counts, blocks: Blocks, rows: Sequence[pa.RecordBatch]) -> None:
        """Count the results of some blocks; ``own`` is the group of each key."""
        sizes = blocks.sizes
        self.by_group += _count(own[blocks.keys], sizes, len(self.by_group))
        for number, batch in enumerate(rows):
            names = [name for name in self.traced if name in batch.schema.names]
            if names:
                parts = results_of_rows(blocks, number, batch.num_rows)
                for name in names:
                    self.traced[name] += counts_in(batch, name, len(self.by_group), parts)

    def count_each(self, own: Counts, rows: Sequence[pa.RecordBatch], index: Sequence[Index]) -> None:
        """Count results one by one; ``own`` is the group of each, ``index`` their rows."""
        self.by_group += np.bincount(own, minlength=len(self.by_group))
        for batch, numbers in zip(rows, index, strict=True):
            for name in self.traced:
                if name in batch.schema.names:
                    parts = np.bincount(numbers, minlength=batch.num_rows)
                    self.traced[name] += counts_in(batch, name, len(self.by_group), parts)


def results_of_rows(blocks: Blocks, number: int, rows: int) -> Index:
    """In how many results each row of an input takes part."""
    starts, lengths = blocks.starts[number], blocks.lengths[number]
    if not blocks.order:
        return results_by_row(starts, lengths, blocks.sizes, rows)
    order = blocks.order[number]
    by_place = results_by_row(starts, lengths, blocks.sizes, len(order))
    return np.bincount(order, weights=by_place, minlength=rows).astype(np.int64)


def results_by_row(starts: Index, lengths: Index, sizes: Index, rows: int) -> Index:
    """In how many results each row of an input takes part, given its range in every block and the block's results.

    What begins with a range ends with it, so ranges need not be written out.

    >>> results_by_row(np.array([0, 1]), np.array([2, 1]), np.array([6, 4]), 3).tolist()
    [3, 7, 0]
    """
    each = sizes // np.maximum(lengths, 1)
    begins = np.bincount(starts, weights=each, minlength=rows + 1)
    ends = np.bincount(starts + lengths, weights=each, minlength=rows + 1)
    return np.cumsum((begins - ends).astype(np.int64))[:rows]


def with_groups(rows: pa.RecordBatch, name: str, groups: Counts) -> pa.RecordBatch:
    """Rows with the group of each, in the bits of a 16-bit integer: Spark has no unsigned ones."""
    column = pa.array(groups.astype(np.uint16).view(np.int16))
    if not rows.num_columns:  # an input of which nothing is kept: Arrow does not know how many rows it has
        return pa.RecordBatch.from_arrays([column], names=[name])
    return rows.append_column(name, column)


def counts_in(rows: pa.RecordBatch, name: str, length: int, weights: Counts | None = None) -> Counts:
    """How many of some rows, or of what each stands for, came through each group that a column tells.

    A row without a match came through no group of the side that it lacks.

    >>> rows = with_groups(pa.record_batch({"x": [1, 2, 3]}), "#join1.group", np.array([1, 2, 1]))
    >>> counts_in(rows, "#join1.group", 4, np.array([5, 7, 1])).tolist()
    [0, 6, 7, 0]
    """
    column = rows.column(name)
    if column.null_count:
        known = column.is_valid()
        weights = None if weights is None else weights[known.to_numpy(zero_copy_only=False)]
        column = column.filter(known)
    groups = column.to_numpy().view(np.uint16).astype(np.int64)
    return np.bincount(groups, weights, minlength=length).astype(np.int64)


def _count(groups: Counts, weights: Counts, length: int) -> Counts:
    return np.bincount(groups, weights=weights, minlength=length).astype(np.int64)
