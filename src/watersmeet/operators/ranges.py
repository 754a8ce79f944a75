"""Vectorised arithmetic on ranges of row numbers."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.int64]
Integer = TypeVar("Integer", np.int64, np.uint64)


def expand(starts: Index, lengths: Index) -> Index:
    """The row numbers of many ranges, one after the other.

    >>> expand(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total, dtype=starts.dtype)


def offsets(lengths: Index) -> Index:
    """Where each of many ranges begins when they lie one after the other.

    >>> offsets(np.array([2, 0, 3])).tolist()
    [0, 2, 2]
    """
    return np.cumsum(lengths) - lengths


def distinct(runs: Sequence[npt.NDArray[Integer]]) -> npt.NDArray[Integer]:
    """The distinct values of sorted arrays, sorted; a stable sort makes use of the order they already have.

    >>> distinct([np.array([1, 3, 3], np.uint64), np.array([2, 3], np.uint64)]).tolist()
    [1, 2, 3]
    """
    values = np.sort(np.concatenate(runs), kind="stable")
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]


def cut(weights: Index, limit: int) -> list[tuple[int, int]]:
    """Cut a sequence of weights into half-open parts of at most ``limit`` each; a heavier item is a part of its own.

    >>> cut(np.array([2, 2, 9, 1, 1]), 4)
    [(0, 2), (2, 3), (3, 5)]
    """
    ends = np.cumsum(weights)
    parts, start, base = [], 0, 0
    while start < len(weights):
        stop = max(int(np.searchsorted(ends, base + limit, side="right")), start + 1)
        parts.append((start, stop))
        start, base = stop, int(ends[stop - 1])
    return parts
