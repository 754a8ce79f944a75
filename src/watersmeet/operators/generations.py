"""Bring together the rows of some groups in all generations, as much at a time as fits (Spill 4.1; features S8, S11).

1. A group is a range of hashes. If the rows of all its generations are too many, the range is halved, and so on: every
   part is cleaned by itself, so a group may be larger than memory. Only the rows of a single hash are never split.
2. The keys of a part are the hashes that every input has in some generation, and that have more than one generation.
3. The generations of each key are numbered, oldest first. Few keys have rows in many generations, so numbers stay
   small, however many generations there are.
4. Rows are gathered key by key, and those of a key generation by generation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa

from watersmeet.operators.gather import Gathered
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
    found = _gathered(inside)
    if len(found.keys):
        yield found


def _gathered(inputs: Sequence[Sequence[Piece]]) -> Part:
    hashes = [np.concatenate([piece.rows.hashes for piece in pieces]) for pieces in inputs]
    present_in = [distinct([piece.rows.hashes for piece in pieces]) for pieces in inputs]
    keys = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), present_in)
    numbers = sorted({piece.generation for pieces in inputs for piece in pieces})
    nearest = [np.minimum(np.searchsorted(keys, each), max(0, len(keys) - 1)) for each in hashes]
    rows = [
        np.flatnonzero(keys[near] == each) if len(keys) else near[:0]
        for near, each in zip(nearest, hashes, strict=True)
    ]
    codes = [
        near[chosen] * len(numbers) + _generations(pieces, numbers)[chosen]
        for near, chosen, pieces in zip(nearest, rows, inputs, strict=True)
    ]
    present = distinct(codes)
    owners = present // len(numbers)
    kinds = np.bincount(owners, minlength=len(keys))
    rank = np.arange(len(present)) - offsets(kinds)[owners]
    torn = kinds > 1
    place = np.cumsum(torn) - 1
    shape = (int(kinds.max(initial=1)), int(np.count_nonzero(torn)))
    gathered = []
    for pieces, chosen, code in zip(inputs, rows, codes, strict=True):
        kept = torn[code // len(numbers)]
        row, kind = chosen[kept], code[kept]
        order = np.argsort(kind, kind="stable")
        where = rank[np.searchsorted(present, kind)] * shape[1] + place[kind // len(numbers)]
        counts = np.bincount(where, minlength=shape[0] * shape[1]).reshape(shape)
        batch = one_batch(pa.Table.from_batches([piece.rows.rows for piece in pieces]))
        gathered.append(Gathered(take_rows(batch, row[order]), counts))
    return Part(keys[torn], gathered)


def _generations(pieces: Sequence[Piece], numbers: Sequence[int]) -> Index:
    """The number of each row's generation."""
    return np.repeat([numbers.index(piece.generation) for piece in pieces], [len(piece.rows) for piece in pieces])


def _position(hashes: Hashes, bound: int) -> int:
    return len(hashes) if bound >= HASHES else int(np.searchsorted(hashes, np.uint64(bound)))
