"""Find, for every key an epoch brought, its rows in every input of a join.

1. The *keys* are the distinct hashes of all deltas, sorted.
2. A key is *located* in a sorted piece (a run or a delta) as a range of rows, by binary search.
3. Inputs are probed in the order in which they are expected to drop most keys; a key without a row in some input
   completes no result and is not probed further.
4. An input's own runs are probed only for keys that some *other* input brought: a key that only this input brought
   joins its new rows with the others' old ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.operators.ranges import Index, distinct
from watersmeet.state.groups import Hashes, group_of
from watersmeet.state.rows import SortedRows

SAMPLE_KEYS = 256
SAMPLE_FROM = 16 * SAMPLE_KEYS


@dataclass(frozen=True)
class RunView:
    """A run as one site sees it; ``counts_for[group]`` says which groups of the file count (None: all)."""

    rows: SortedRows
    counts_for: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Side:
    """One input of a join at one site: the rows it had and those this epoch brings."""

    runs: tuple[RunView, ...]
    delta: SortedRows


@dataclass(frozen=True)
class Located:
    """Where each key's rows lie in one piece."""

    rows: SortedRows
    starts: Index
    counts: Index

    def where(self, kept: npt.NDArray[np.bool_]) -> "Located":
        """The same for some of the keys."""
        return Located(self.rows, self.starts[kept], self.counts[kept])


@dataclass(frozen=True)
class Found:
    """Where each key's rows lie in one input: old ones in its runs, new ones in its delta."""

    runs: tuple[Located, ...]
    delta: Located

    @property
    def old(self) -> Index:
        """How many old rows each key has."""
        return sum((run.counts for run in self.runs), start=np.zeros_like(self.delta.counts))

    def where(self, kept: npt.NDArray[np.bool_]) -> "Found":
        """The same for some of the keys."""
        return Found(tuple(run.where(kept) for run in self.runs), self.delta.where(kept))


def probe(sides: Sequence[Side], groups: int, *, finds_all: bool = False) -> tuple[Hashes, list[Found]]:
    """The keys that complete results, and where their rows lie in every input.

    If it ``finds_all``, also old rows that are joined with old ones only.
    """
    keys = distinct([side.delta.hashes for side in sides])
    found = [Found((), _locate(side.delta, keys)) for side in sides]
    brought = np.sum([side.delta.counts > 0 for side in found], axis=0)
    for number in _order(sides, keys):
        wanted = brought > 0 if finds_all else brought > (found[number].delta.counts > 0)
        runs = tuple(_locate_wanted(view, keys, wanted, groups) for view in sides[number].runs)
        found[number] = Found(runs, found[number].delta)
        kept = found[number].old + found[number].delta.counts > 0
        if not kept.all():
            keys, brought, found = keys[kept], brought[kept], [side.where(kept) for side in found]
    return keys, found


def _order(sides: Sequence[Side], keys: Hashes) -> list[int]:
    """Smallest input first; where there are many keys, the one that drops most of a sample of them first."""
    sizes = [sum(len(view.rows) for view in side.runs) + len(side.delta) for side in sides]
    if len(keys) < SAMPLE_FROM:
        return sorted(range(len(sides)), key=sizes.__getitem__)
    sample = keys[:: len(keys) // SAMPLE_KEYS]
    hits = [_hits(side, sample) for side in sides]
    return sorted(range(len(sides)), key=lambda number: (hits[number], sizes[number]))


def _hits(side: Side, sample: Hashes) -> int:
    pieces = [view.rows for view in side.runs] + [side.delta]
    return int(np.count_nonzero(np.sum([_locate(piece, sample).counts for piece in pieces], axis=0)))


def _locate(piece: SortedRows, keys: Hashes) -> Located:
    starts = np.searchsorted(piece.hashes, keys)
    return Located(piece, starts, np.searchsorted(piece.hashes, keys, side="right") - starts)


def _locate_wanted(view: RunView, keys: Hashes, wanted: npt.NDArray[np.bool_], groups: int) -> Located:
    if view.counts_for is not None:
        wanted = wanted & view.counts_for[group_of(keys, groups)]
    if wanted.all():
        return _locate(view.rows, keys)
    starts, counts = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
    some = _locate(view.rows, keys[wanted])
    starts[wanted], counts[wanted] = some.starts, some.counts
    return Located(view.rows, starts, counts)
