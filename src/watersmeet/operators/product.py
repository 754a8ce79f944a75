"""Write out products of ranges: the results of a join as row numbers, in batches of bounded size.

A *block* is one key in one term of the join: a range of rows in every input, all combinations of which are results.
With old rows S and new rows D, what the new rows of m inputs complete is the sum over i of
``(S1+D1) x ... x (Si-1+Di-1) x Di x Si+1 x ... x Sm`` (incremental view maintenance; Spill, equation 3): every
combination with at least one new row, once.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.operators.gather import Gathered
from watersmeet.operators.ranges import Index, cut, expand, offsets


@dataclass(frozen=True)
class Blocks:
    """Ranges of rows, ``starts[input, block]`` and ``lengths[input, block]``, and the key of each block."""

    starts: Index
    lengths: Index
    keys: Index

    @property
    def sizes(self) -> Index:
        """How many results each block has."""
        sizes: Index = np.prod(self.lengths, axis=0, dtype=np.int64)
        return sizes


def completed(sides: Sequence[Gathered], *, forget_pairs: bool = False) -> Blocks:
    """The blocks of all terms. ``forget_pairs`` makes the classic mistake of never joining new rows with new rows."""
    old, new = np.stack([side.old for side in sides]), np.stack([side.new for side in sides])
    base = np.stack([offsets(side.old + side.new) for side in sides])
    seen = old if forget_pairs else old + new
    terms = [_term(number, base, old, new, seen) for number in range(len(sides))]
    return Blocks(
        np.concatenate([term.starts for term in terms], axis=1),
        np.concatenate([term.lengths for term in terms], axis=1),
        np.concatenate([term.keys for term in terms]),
    )


def batches(blocks: Blocks, limit: int) -> Iterator[list[Index]]:
    """The results of all blocks as row numbers in every input, at most ``limit`` at a time."""
    sizes = blocks.sizes
    for start, stop in cut(sizes, limit):
        starts, lengths = blocks.starts[:, start:stop], blocks.lengths[:, start:stop]
        if stop - start == 1 and sizes[start] > limit:
            for tile in _tiles(starts[:, 0].tolist(), lengths[:, 0].tolist(), limit):
                yield _write_out(*tile)
        else:
            yield _write_out(starts, lengths)


def _term(number: int, base: Index, old: Index, new: Index, seen: Index) -> Blocks:
    starts = base.copy()
    starts[number] += old[number]
    lengths = np.concatenate([seen[:number], new[number : number + 1], old[number + 1 :]])
    keys = np.flatnonzero(lengths.all(axis=0))
    return Blocks(starts[:, keys], lengths[:, keys], keys)


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
