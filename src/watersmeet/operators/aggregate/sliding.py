"""Windows that slide: a row is in several, and becomes a row for each, where it is aggregated.

Rows come with the last window their time lies in. The others begin a slide earlier each, as long as they end after the
time. Which site a row goes to, the other keys of its group tell by their hash; so rows travel once, and it is here that
they are copied. The hash of a copy still begins as it did, as its group is told by that (`watersmeet.state.groups`),
and ends with what is hashed of its window: rows of one window are found without looking at those of others.
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import pyarrow as pa

from watersmeet.model.plan import Sliding
from watersmeet.operators.hashing import xxhash64
from watersmeet.operators.join.lives import as_numbers
from watersmeet.operators.ranges import Index, expand
from watersmeet.state.groups import Hashes
from watersmeet.state.rows import SortedRows, sort_rows, take_rows

COPIED_BYTES = 32 << 20
"""As much is made of rows at a time, whatever windows they are in."""

_LAST_BITS = np.uint64(0xFFFFFFFF)


def in_windows(rows: SortedRows, sliding: Sequence[Sliding], final: str) -> Iterator[SortedRows]:
    """The rows with a copy for each of their windows, a part at a time; the column ``final`` tells when groups end."""
    many = prod(-(-each.length_us // each.slide_us) for each in sliding)
    size = max(1, COPIED_BYTES * len(rows) // max(1, rows.bytes * many))
    for start in range(0, len(rows), size):
        part = rows.slice(start, min(start + size, len(rows)))
        for each in sliding:
            part = _copied(part, each, final)
        yield sort_rows(part.hashes, part.rows)


def window_starts(starts: Index, times: Index, length: int, slide: int) -> tuple[Index, Index]:
    """The windows of some times, from the last on that ``starts``: the number of the time of each, and its start.

    >>> index, own = window_starts(np.array([8, -4]), np.array([9, -1]), length=10, slide=4)
    >>> index.tolist(), own.tolist()
    ([0, 0, 0, 1, 1], [8, 4, 0, -4, -8])
    """
    counts = -((times - starts - length) // slide)
    index = np.repeat(np.arange(len(times)), counts)
    earlier = expand(np.zeros_like(counts), counts)
    return index, starts[index] - earlier * slide


def _copied(rows: SortedRows, window: Sliding, final: str) -> SortedRows:
    last = rows.rows.column(window.column)
    times = as_numbers(rows.rows.column(window.time))
    index, starts = window_starts(as_numbers(last.field("start")), times, window.length_us, window.slide_us)
    ends = starts + window.length_us
    copies = take_rows(rows.rows, index)
    bounds = [pa.array(each).view(last.type.field("start").type) for each in (starts, ends)]
    copies = _with(copies, window.column, pa.StructArray.from_arrays(bounds, fields=list(last.type)))
    if window.ends:
        earliest = np.minimum(copies.column(final).to_numpy(), ends)
        copies = _with(copies, final, pa.array(earliest))
    return SortedRows(_told_apart(rows.hashes[index], starts), copies)


def _told_apart(hashes: Hashes, starts: Index) -> Hashes:
    """Hashes whose last bits tell windows apart.

    >>> hashes = _told_apart(np.array([7 << 40, 7 << 40], np.uint64), np.array([0, 10]))
    >>> (hashes >> np.uint64(40)).tolist(), len(set(hashes.tolist()))
    ([7, 7], 2)
    """
    told: Hashes = hashes ^ (xxhash64([pa.array(starts)]) & _LAST_BITS)
    return told


def _with(rows: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
