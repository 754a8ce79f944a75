"""Find the keys of some groups in all generations, in parts that fit into memory (Spill 4.1; features S8 and S11).

1. A group is a range of hashes. If the rows of all its generations are too many, the range is halved, and so on: every
   part is cleaned by itself, so a group may be larger than memory. Only the rows of a single hash are never split.
2. The keys of a part are the hashes that every input has in some generation.
3. Each key is located in every piece; pieces are ordered by generation, the oldest first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from watersmeet.operators.probe import Located, locate
from watersmeet.state.groups import Hashes
from watersmeet.state.rows import SortedRows

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
class Generations:
    """Keys, and for every input where their rows lie: pieces in the order of their generations, with its number."""

    keys: Hashes
    inputs: list[list[tuple[Located, int]]]
    count: int


def parts(
    inputs: Sequence[Sequence[Piece]], limit_bytes: int, low: int = 0, high: int = HASHES
) -> Iterator[Generations]:
    """The keys of all pieces, as many at a time as have at most ``limit_bytes`` of rows."""
    inside = [[piece for piece in (p.between(low, high) for p in pieces) if len(piece.rows)] for pieces in inputs]
    if not all(inside):
        return
    if high - low > 1 and sum(_bytes(piece) for pieces in inside for piece in pieces) > limit_bytes:
        middle = (low + high) // 2
        yield from parts(inside, limit_bytes, low, middle)
        yield from parts(inside, limit_bytes, middle, high)
        return
    found = _located(inside)
    if found.count > 1 and len(found.keys):
        yield found


def _located(inputs: Sequence[Sequence[Piece]]) -> Generations:
    numbers = sorted({piece.generation for pieces in inputs for piece in pieces})
    rank = {generation: number for number, generation in enumerate(numbers)}
    distinct = [np.unique(np.concatenate([piece.rows.hashes for piece in pieces])) for pieces in inputs]
    keys = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), distinct)
    ordered = [sorted(pieces, key=lambda piece: piece.generation) for pieces in inputs]
    found = [[(locate(piece.rows, keys), rank[piece.generation]) for piece in pieces] for pieces in ordered]
    return Generations(keys, found, len(numbers))


def _position(hashes: Hashes, bound: int) -> int:
    return len(hashes) if bound >= HASHES else int(np.searchsorted(hashes, np.uint64(bound)))


def _bytes(piece: Piece) -> int:
    return piece.rows.bytes
