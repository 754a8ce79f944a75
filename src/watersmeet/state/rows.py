"""Rows sorted by hash: what a run holds, and what an epoch's delta is before it becomes a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.errors import StateLimitError
from watersmeet.state.groups import GroupSet, Hashes, group_offsets, row_range


@dataclass(frozen=True)
class SortedRows:
    """Columns of rows in the order of their hashes; ``hashes[i]`` belongs to row ``i``."""

    hashes: Hashes
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def bytes(self) -> int:
        """What the rows take in memory, hashes included."""
        return int(self.hashes.nbytes + self.rows.nbytes)

    def slice(self, start: int, stop: int) -> "SortedRows":
        """The rows from ``start`` to ``stop``, without copying."""
        return SortedRows(self.hashes[start:stop], self.rows.slice(start, stop - start))

    def copy(self) -> "SortedRows":
        """The same rows in memory of their own."""
        return SortedRows(self.hashes.copy(), take_rows(self.rows, np.arange(len(self))))

    def of_groups(self, some: GroupSet, groups: int) -> list["SortedRows"]:
        """The rows of some groups, a piece for each range of them, without copying."""
        bounds = (row_range(self.hashes, start, stop, groups) for start, stop in some.ranges)
        return [self.slice(low, high) for low, high in bounds if high > low]


def is_sorted(hashes: Hashes) -> bool:
    """Whether hashes are in order."""
    return bool(np.all(hashes[:-1] <= hashes[1:]))


def no_rows(schema: pa.Schema) -> SortedRows:
    """Nothing, with the columns of a schema."""
    return SortedRows(np.empty(0, dtype=np.uint64), one_batch(schema.empty_table()))


def sort_rows(hashes: Hashes, rows: pa.RecordBatch) -> SortedRows:
    """Put rows in the order of their hashes."""
    order = np.argsort(hashes, kind="stable")
    return SortedRows(hashes[order], take_rows(rows, order))


def merge_rows(pieces: Sequence[SortedRows]) -> SortedRows:
    """Merge sorted pieces into one; a stable sort makes use of the order they already have."""
    table = pa.Table.from_batches([piece.rows for piece in pieces]).combine_chunks()
    return sort_rows(np.concatenate([piece.hashes for piece in pieces]), one_batch(table))


def take_rows(rows: pa.RecordBatch, index: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Rows by number; an operator may keep no columns at all, which Arrow's ``take`` does not expect."""
    return rows.take(pa.array(index)) if rows.num_columns else rows


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table's rows as a single record batch (an empty one where it has no rows)."""
    combined = table.combine_chunks()
    if any(column.num_chunks > 1 for column in combined.columns):
        raise StateLimitError(
            f"{table.num_rows} rows hold more than 2 GiB in one column",
            why="Arrow keeps at most that in one array, and these rows have to be together",
            how="leave the long column out of the join, or keep a reference to it instead",
        )
    columns = [column.chunk(0) if column.num_chunks else _empty(column.type) for column in combined.columns]
    return pa.RecordBatch.from_arrays(columns, schema=combined.schema)


def bytes_by_group(piece: SortedRows, groups: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and bytes of each group, measured on the buffers of its range."""
    bounds = group_offsets(piece.hashes, groups)
    rows = np.diff(bounds)
    sizes = rows * piece.hashes.itemsize
    for column in piece.rows.columns:
        sizes = sizes + _column_bytes(column, bounds)
    return rows, sizes


def _column_bytes(column: pa.Array, bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bytes of consecutive ranges of a column, without looking at its values."""
    kind, rows = column.type, np.diff(bounds)
    sizes: npt.NDArray[np.int64] = (rows + 7) // 8 if column.buffers()[0] is not None else np.zeros_like(rows)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][bounds] if len(column) else bounds
        sizes += rows * 4 + np.diff(ends)
    elif pa.types.is_nested(kind) or not _has_width(kind):
        pairs = pairwise(bounds.tolist())
        sizes = np.array([column.slice(low, high - low).nbytes if high > low else 0 for low, high in pairs])
    else:
        sizes += (rows * kind.bit_width + 7) // 8
    return sizes


def _has_width(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False


def _empty(kind: pa.DataType) -> pa.Array:
    return pa.array([], type=kind)
