"""How many bytes rows take, row by row, so that what is copied for pairs of rows stays within a limit.

A row may be copied once for each pair it is in, and one of a column may be thousands of times as long as another. So
an average says nothing of what some pairs take: their own rows are added up, by the offsets that Arrow has of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.ranges import Index, cut

Offsets = npt.NDArray[Any]
MANY = 1 << 62


@dataclass(frozen=True)
class Widths:
    """The bytes of rows: what all take, and where the values of each begin in columns whose values differ.

    With the offsets comes how many bytes one of what they count has.
    """

    fixed: int
    varying: tuple[tuple[Offsets, int], ...] = ()

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> "Widths":
        """What the rows of some columns take together.

        >>> Widths.of([pa.array([1, 2]), pa.array(["a", "a" * 100])]).at(np.array([0, 1])).tolist()
        [13, 112]
        """
        parts = [part for column in columns for part in _parts(column)]
        varying = tuple((part, scale) for part, scale in parts if not isinstance(part, int))
        return cls(sum(part for part, _ in parts if isinstance(part, int)), varying)

    def at(self, rows: Index) -> Index:
        """The bytes of some rows."""
        total = np.full(len(rows), self.fixed, np.int64)
        for offsets, scale in self.varying:
            total += (offsets[rows + 1] - offsets[rows]).astype(np.int64) * scale
        return total


def fitting(widths: Sequence[Widths], index: Sequence[Index], limit: int, most: int = MANY) -> list[slice]:
    """Combinations of rows in parts of at most so many bytes, and at most so many; a larger one is a part of its own.

    >>> texts = Widths.of([pa.array(["", "a" * 50])])
    >>> fitting([texts, Widths(1)], [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])], 65)
    [slice(0, 3, None), slice(3, 4, None)]
    """
    count = len(index[0])
    if any(each.varying for each in widths):
        sizes = np.sum([each.at(rows) for each, rows in zip(widths, index, strict=True)], axis=0)
        return [slice(start, stop) for start, stop in cut(np.maximum(sizes, limit // most), limit)]
    step = max(1, min(most, limit // max(1, sum(each.fixed for each in widths))))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _parts(column: pa.Array) -> Iterator[tuple[int | Offsets, int]]:
    """What the values of a column take alike, and their offsets."""
    kind = column.type
    if pa.types.is_struct(kind):
        for field in column.flatten():
            yield from _parts(field)
    elif _has_offsets(kind):
        yield 4, 1
        yield _offsets(column)
    else:
        width = _width(kind)
        yield (-(-column.nbytes // max(1, len(column))) if width is None else width), 1


def _offsets(column: pa.Array) -> tuple[Offsets, int]:
    """Where each value begins, and the end of the last one, in bytes or in values of so many bytes."""
    kind, buffer = column.type, column.buffers()[1]
    is_large = pa.types.is_large_list(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    whole = np.frombuffer(buffer, np.int64 if is_large else np.int32) if len(column) else np.zeros(1, np.int32)
    own = whole[column.offset : column.offset + len(column) + 1]
    if not _is_list(kind):
        return own, 1
    width = _width(kind.value_type)
    if width is None and _has_offsets(kind.value_type):
        inner, scale = _offsets(column.values)
        return inner[own], scale
    return own, -(-column.values.nbytes // max(1, len(column.values))) if width is None else width


def _has_offsets(kind: pa.DataType) -> bool:
    is_text = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    return _is_list(kind) or any(check(kind) for check in is_text)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _width(kind: pa.DataType) -> int | None:
    """The bytes of a value, rounded up; None where values have none in common."""
    try:
        bits: int = kind.bit_width
    except ValueError:
        return None
    return -(-bits // 8)
