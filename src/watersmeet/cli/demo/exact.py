"""The number of results there must be, counted without joining: another way to the same number.

A result is a path A, B - C - D - E. Every row of C stands for as many results as there are rows of A times rows of B
with its key; every row of D for the sum over the rows of C it meets; every row of E for the sum over those of D.
"""

from itertools import accumulate

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.cli.demo.query import Streams

Int64s = NDArray[np.int64]


def results_after_each_epoch(streams: Streams) -> list[int]:
    """The exact number of results once each epoch is joined with all that came before.

    >>> streams = {name: [pa.table({f"{name.lower()}{i}": [1, 2] for i in (1, 2)})] * 2 for name in "ABCDE"}
    >>> results_after_each_epoch(streams)
    [2, 64]
    """
    epochs = zip(*(accumulate(tables, _append) for tables in streams.values()), strict=True)
    return [_results(*tables) for tables in epochs]


def _append(before: pa.Table, table: pa.Table) -> pa.Table:
    return pa.concat_tables([before, table])


def _results(a: pa.Table, b: pa.Table, c: pa.Table, d: pa.Table, e: pa.Table) -> int:
    c1, c2, d1, d2 = (_numpy(table, name) for table, name in ((c, "c1"), (c, "c2"), (d, "d1"), (d, "d2")))
    per_c = _partners(_numpy(a, "a1"), None, c1) * _partners(_numpy(b, "b1"), None, c1)
    per_d = _partners(c2, per_c, d1)
    return int(_partners(d2, per_d, _numpy(e, "e1")).sum())


def _partners(keys: Int64s, weights: Int64s | None, wanted: Int64s) -> Int64s:
    """For every wanted key the sum of the weights of the rows that have it; the number of rows where weights are None.

    >>> _partners(np.array([5, 7, 5]), np.array([1, 10, 100]), np.array([7, 6, 5])).tolist()
    [10, 0, 101]
    """
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    values, starts = np.unique(keys[order], return_index=True)
    ones = np.ones(len(keys), dtype=np.int64)
    sums = np.add.reduceat((ones if weights is None else weights)[order], starts)
    places = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[places] == wanted, sums[places], 0).astype(np.int64)


def _numpy(table: pa.Table, column: str) -> Int64s:
    return np.asarray(table.column(column).to_numpy(), dtype=np.int64)
