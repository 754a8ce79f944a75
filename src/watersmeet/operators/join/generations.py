"""Bring together the rows of some groups in all generations, as much at a time as fits (Spill 4.1).

1. A group is a range of hashes. If the rows of all its generations are too many, the range is halved, and so on: every
   part is cleaned by itself, so a group may be larger than memory. Only the rows of a single hash are never split.
2. The keys of a part are the hashes that every input has in some generation, and that have more than one generation.
3. The generations of each key are numbered, oldest first. How many rows of a key are of which is a table with a column
   for every key, as high as the key with the most generations needs it. So that one busy key does not make the tables
   of all others high, keys with up to 2, 4, 8, ... generations are parts of their own.
4. Rows are gathered key by key, and those of a key generation by generation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.join.gather import Gathered
from watersmeet.operators.ranges import Index, distinct, offsets
from watersmeet.state.groups import Hashes
from watersmeet.state.rows import SortedRows, one_batch, take_rows

HASHES = 1 << 64


@dataclass(frozen=True)
class Piece:
    """Rows of one input in one generation."""

    generation: int
    rows: SortedRows

    def between(self, low: int, high: int) -> "Piece":
        """The rows whose hashes are at least ``low`` and below ``high``."""
        start, stop = (_position(self.rows.hashes, bound) for bound in (low, high))
        return Piece(self.generation, self.rows.slice(start, stop))


@dataclass(frozen=True)
class Part:
    """Some keys, and the rows of every input; the parts of each `Gathered` are the generations of its key."""

    keys: Hashes
    inputs: list[Gathered]


def parts(inputs: Sequence[Sequence[Piece]], limit_bytes: int, low: int = 0, high: int = HASHES) -> Iterator[Part]:
    """The keys of all pieces that miss results, as many at a time as have at most ``limit_bytes`` of rows."""
    inside = [[piece for piece in (p.between(low, high) for p in pieces) if len(piece.rows)] for pieces in inputs]
    if not all(inside):
        return
    if high - low > 1 and sum(piece.rows.bytes for pieces in inside for piece in pieces) > limit_bytes:
        middle = (low + high) // 2
        yield from parts(inside, limit_bytes, low, middle)
        yield from parts(inside, limit_bytes, middle, high)
        return
    yield from _gathered(inside)


def _gathered(inputs: Sequence[Sequence[Piece]]) -> Iterator[Part]:
    numbers = sorted({piece.generation for pieces in inputs for piece in pieces})
    present = [distinct([piece.rows.hashes for piece in pieces]) for pieces in inputs]
    keys = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), present)
    if not len(keys):
        return
    sides = [_Side.of(pieces, keys, numbers) for pieces in inputs]
    kinds = distinct([side.codes for side in sides])  # a kind is a key in a generation, and so is a code
    owners = kinds // len(numbers)
    generations = np.bincount(owners, minlength=len(keys))
    ranks = np.arange(len(kinds)) - offsets(generations)[owners]
    heights = np.ceil(np.log2(generations))
    for height in np.unique(heights[heights > 0]):
        alike = heights == height
        yield Part(keys[alike], [side.gather(kinds, ranks, alike, len(numbers)) for side in sides])


@dataclass(frozen=True)
class _Side:
    """The rows of one input that have a key, in any order, each with the code ``key * generations + generation``."""

    rows: pa.RecordBatch
    numbers: Index
    codes: Index

    @classmethod
    def of(cls, pieces: Sequence[Piece], keys: Hashes, numbers: Sequence[int]) -> "_Side":
        hashes = np.concatenate([piece.rows.hashes for piece in pieces])
        nearest = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
        found = np.flatnonzero(keys[nearest] == hashes)
        codes = nearest[found] * len(numbers) + _generations(pieces, numbers)[found]
        return cls(one_batch(pa.Table.from_batches([piece.rows.rows for piece in pieces])), found, codes)

    def gather(self, kinds: Index, ranks: Index, chosen: npt.NDArray[np.bool_], generations: int) -> Gathered:
        """The rows of some keys, in order."""
        kept = chosen[self.codes // generations]
        codes, numbers = self.codes[kept], self.numbers[kept]
        place = (np.cumsum(chosen) - 1)[codes // generations]
        shape = (int(ranks[chosen[kinds // generations]].max()) + 1, int(np.count_nonzero(chosen)))
        part = ranks[np.searchsorted(kinds, codes)]
        counts = np.bincount(part * shape[1] + place, minlength=shape[0] * shape[1]).reshape(shape)
        return Gathered(take_rows(self.rows, numbers[np.argsort(codes, kind="stable")]), counts)


def _generations(pieces: Sequence[Piece], numbers: Sequence[int]) -> Index:
    """The number of each row's generation."""
    return np.repeat([numbers.index(piece.generation) for piece in pieces], [len(piece.rows) for piece in pieces])


def _position(hashes: Hashes, bound: int) -> int:
    return len(hashes) if bound >= HASHES else int(np.searchsorted(hashes, np.uint64(bound)))
