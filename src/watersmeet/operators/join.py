"""The symmetric m-way join of one operator at one site, for one epoch.

    probe   -> which keys complete results, and where their rows lie     (`probe`)
    gather  -> the rows of some of the keys, key by key                  (`gather`)
    product -> all combinations with at least one new row, in batches    (`product`)

It is a pure function of the rows the operator had and those the epoch brings. Keys are handled in parts, so that never
more than ``MATCH_LIMIT_BYTES`` of matching rows are gathered (unless one key alone has more) and never more than
``BATCH_LIMIT_BYTES`` of results are written out at once, however many rows one row matches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.gather import gather, separate
from watersmeet.operators.probe import Found, Side, probe
from watersmeet.operators.product import Blocks, batches, completed
from watersmeet.operators.ranges import Index, cut
from watersmeet.state.groups import Hashes, group_of
from watersmeet.state.rows import take_rows

MATCH_LIMIT_BYTES = 32 << 20
BATCH_LIMIT_BYTES = 4 << 20
BATCH_LIMIT_ROWS = 1 << 15


@dataclass(frozen=True)
class Joined:
    """A batch of results: for every input the rows that take part, in the same order."""

    parts: tuple[pa.RecordBatch, ...]
    count: int


@dataclass
class Join:
    """The join of one operator; ``output_by_group`` counts the results as they are produced."""

    groups: int
    key_columns: tuple[tuple[str, ...], ...] | None = None
    forget_pairs: bool = False
    output_by_group: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.output_by_group = np.zeros(self.groups, dtype=np.int64)

    def results(self, sides: Sequence[Side]) -> Iterator[Joined]:
        """What the rows of this epoch complete, each result once."""
        if not any(len(side.delta) for side in sides):
            return
        keys, found = probe(sides, self.groups)
        for start, stop in cut(_matched_bytes(found), MATCH_LIMIT_BYTES):
            yield from self._part(keys, found, start, stop)

    def _part(self, keys: Hashes, found: Sequence[Found], start: int, stop: int) -> Iterator[Joined]:
        gathered = [gather(side, start, stop) for side in found]
        own = group_of(keys[start:stop], self.groups)
        if self.key_columns is not None:
            gathered, hash_of = separate(gathered, self.key_columns)
            own = own[hash_of]
        blocks = completed(gathered, forget_pairs=self.forget_pairs)
        self._count(own, blocks)
        rows = [side.rows for side in gathered]
        for index in batches(blocks, _batch_rows(rows)):
            yield Joined(tuple(take_rows(r, i) for r, i in zip(rows, index, strict=True)), len(index[0]))

    def _count(self, group: npt.NDArray[np.int64], blocks: Blocks) -> None:
        counted = np.bincount(group[blocks.keys], weights=blocks.sizes, minlength=self.groups)
        self.output_by_group += counted.astype(np.int64)


def _matched_bytes(found: Sequence[Found]) -> Index:
    """How many bytes of rows each key brings together, by the average width of a row of each piece."""
    total = np.zeros(len(found[0].delta.counts), dtype=np.float64)
    for piece in (piece for side in found for piece in (*side.runs, side.delta)):
        if len(piece.rows):
            total += piece.counts * (piece.rows.bytes / len(piece.rows))
    return total.astype(np.int64)


def _batch_rows(rows: Sequence[pa.RecordBatch]) -> int:
    width = sum(batch.nbytes / max(1, batch.num_rows) for batch in rows)
    return max(1, min(BATCH_LIMIT_ROWS, int(BATCH_LIMIT_BYTES / max(1.0, width))))
