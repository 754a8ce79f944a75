"""Write out products of ranges: the results of a join as row numbers, in batches of bounded size.

A *block* is one key in one term of the join: a range of rows in every input, all combinations of which are results.
With old rows S and new rows D, what the new rows of m inputs complete is the sum over i of
``(S1+D1) x ... x (Si-1+Di-1) x Di x Si+1 x ... x Sm`` (incremental view maintenance; Spill, equation 3): every
combination with at least one new row, once.

What generations are *missing* (Spill, equation 4 and lemma 4.2) is every combination that is not of one generation.
Generations are taken up one after the other: with P the rows of those before and N the rows of the next, it completes
the terms above for i < m, which all have a row of P in the last input, and of the term for i = m those combinations
that are not all new: the sum over t < m of ``N1 x ... x Nt-1 x Pt x (Pt+1+Nt+1) x ... x (Pm-1+Nm-1) x Nm``.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from watersmeet.operators.join.gather import Gathered
from watersmeet.operators.ranges import Index, cut, expand, offsets

Kind = Literal["old", "new", "both"]
OLD: Kind = "old"
NEW: Kind = "new"
BOTH: Kind = "both"


class Check(Protocol):
    """Drops some of the combinations as they are written out."""

    def passed(self, index: Sequence[Index]) -> list[Index]:
        """The results that stay, as row numbers in every input."""


@dataclass(frozen=True)
class Blocks:
    """Ranges of rows, ``starts[input, block]`` and ``lengths[input, block]``, and the key of each block.

    Where there is an ``order``, they are ranges of it: ``order[input]`` are row numbers. Of blocks with a ``check`` not
    all combinations are results.
    """

    starts: Index
    lengths: Index
    keys: Index
    order: tuple[Index, ...] = ()
    check: Check | None = None

    @property
    def sizes(self) -> Index:
        """How many results each block has."""
        sizes: Index = np.prod(self.lengths, axis=0, dtype=np.int64)
        return sizes


def completed(sides: Sequence[Gathered], *, forget_pairs: bool = False) -> Blocks:
    """The blocks of all terms. ``forget_pairs`` makes the classic mistake of never joining new rows with new rows."""
    base, counts = _laid_out(sides)
    ranges = _Ranges(base, counts[:, 0], counts[:, 1])
    width = len(sides)
    before: Kind = "old" if forget_pairs else "both"
    return together([ranges.term((*[before] * i, "new", *[OLD] * (width - i - 1))) for i in range(width)])


def missing(sides: Sequence[Gathered]) -> Blocks:
    """The blocks of all combinations that are not of one part."""
    base, counts = _laid_out(sides)
    width = len(sides)
    terms = []
    before = counts[:, 0]
    for part in range(1, counts.shape[1]):
        ranges = _Ranges(base, before, counts[:, part])
        before = before + counts[:, part]
        for i in range(width - 1):
            terms.append(ranges.term((*[BOTH] * i, "new", *[OLD] * (width - i - 1))))
            terms.append(ranges.term((*[NEW] * i, "old", *[BOTH] * (width - i - 2), "new")))
    return together(terms)


def batches(blocks: Blocks, limit: int) -> Iterator[list[Index]]:
    """The results of all blocks as row numbers in every input, at most ``limit`` at a time."""
    sizes = blocks.sizes
    for start, stop in cut(sizes, limit):
        starts, lengths = blocks.starts[:, start:stop], blocks.lengths[:, start:stop]
        if stop - start == 1 and sizes[start] > limit:
            for tile in _tiles(starts[:, 0].tolist(), lengths[:, 0].tolist(), limit):
                yield _rows(blocks, _write_out(*tile))
        else:
            yield _rows(blocks, _write_out(starts, lengths))


def together(terms: Sequence[Blocks]) -> Blocks:
    """The blocks of all terms; they have one order and one check."""
    return Blocks(
        np.concatenate([term.starts for term in terms], axis=1),
        np.concatenate([term.lengths for term in terms], axis=1),
        np.concatenate([term.keys for term in terms]),
    )


def _rows(blocks: Blocks, places: list[Index]) -> list[Index]:
    index = [order[place] for order, place in zip(blocks.order, places, strict=True)] if blocks.order else places
    return index if blocks.check is None else blocks.check.passed(index)


@dataclass(frozen=True)
class _Ranges:
    """Where the old and the new rows of each key lie, ``[input, key]``: the new ones follow the old ones."""

    base: Index
    old: Index
    new: Index

    def term(self, kinds: Sequence[Kind]) -> Blocks:
        """One kind of rows of every input, for the keys that have such rows in all of them."""
        starts = [self.base[n] + (self.old[n] if kind == "new" else 0) for n, kind in enumerate(kinds)]
        lengths = np.stack([self._length(n, kind) for n, kind in enumerate(kinds)])
        keys = np.flatnonzero(lengths.all(axis=0))
        return Blocks(np.stack(starts)[:, keys], lengths[:, keys], keys)

    def _length(self, number: int, kind: Kind) -> Index:
        if kind == "both":
            both: Index = self.old[number] + self.new[number]
            return both
        length: Index = self.old[number] if kind == "old" else self.new[number]
        return length


def _laid_out(sides: Sequence[Gathered]) -> tuple[Index, Index]:
    """Where each key's rows begin, ``[input, key]``, and how many there are of each part, ``[input, part, key]``."""
    return np.stack([offsets(side.totals) for side in sides]), np.stack([side.counts for side in sides])


def _write_out(starts: Index, lengths: Index) -> list[Index]:
    """All combinations of the ranges of each block: every input multiplies the rows written so far."""
    written: list[Index] = []
    block: npt.NDArray[np.int64] = np.arange(starts.shape[1])
    for start, length in zip(starts, lengths, strict=True):
        times = length[block]
        written = [np.repeat(index, times) for index in written]
        written.append(expand(start[block], times))
        block = np.repeat(block, times)
    return written


def _tiles(starts: Sequence[int], lengths: Sequence[int], limit: int) -> Iterator[tuple[Index, Index]]:
    """Cut one block that is too large into blocks that are not, the last input's range staying whole longest."""
    shape: list[int] = []
    for length in reversed(lengths):
        shape.insert(0, min(length, max(1, limit // int(np.prod(shape, dtype=np.int64)))))
    corners = itertools.product(*(range(0, length, step) for length, step in zip(lengths, shape, strict=True)))
    for corner in corners:
        sizes = [min(step, n - at) for step, n, at in zip(shape, lengths, corner, strict=True)]
        yield np.array([[s + at] for s, at in zip(starts, corner, strict=True)]), np.array([[n] for n in sizes])
