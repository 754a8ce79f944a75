"""Rows that come out alone: which of them are decided in a step, because no match can come for them any more.

| rows | decided |
|---|---|
| with a null key | at once |
| that arrive after their end has come | at once, if nothing of their group was spilled |
| stored, in a group that misses nothing | in the step after their end has come |
| in a group with missing results | as it is cleaned; of its oldest generation those that were not decided before |
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.operators.join.generations import Piece
from watersmeet.operators.join.lives import as_numbers
from watersmeet.operators.spec import InputSpec
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import LIVE, UNDECIDED, RunFile, Slice
from watersmeet.state.rows import SortedRows, take_rows
from watersmeet.state.vectors import Vector

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Decision:
    """Up to which value of their last column rows of an input are decided, and by group, up to which they were.

    ``closed`` are the groups of which anything was spilled.
    """

    limit: int
    decided: Vector
    closed: GroupSet

    def at_once(self, source: InputSpec, rows: SortedRows, groups: int) -> SortedRows:
        """Of rows that arrive, those that are decided at once."""
        chosen = _lasts(source, rows) <= self.limit
        if self.closed:
            chosen &= ~self.closed.mask(groups)[group_of(rows.hashes, groups)]
        return _some(rows, chosen)

    def may_hold(self, source: InputSpec, run: RunFile) -> bool:
        """Whether a run may hold rows that are decided now."""
        bounds = None if source.life is None else run.bounds.get(source.life.last)
        if bounds is None:
            return bool(self._before.min() < self.limit)
        return int(bounds.least or 0) <= self.limit and int(bounds.most or 0) > int(self._before.min())

    def now(self, source: InputSpec, rows: SortedRows, groups: int) -> SortedRows:
        """Of stored rows of groups that miss nothing, those that are decided in this step."""
        return _some(rows, self._are_due(source, rows, self._before[group_of(rows.hashes, groups)]))

    def in_cleanup(self, source: InputSpec, piece: Piece, oldest: npt.NDArray[np.int64], groups: int) -> SortedRows:
        """Of the rows of a generation, those that are decided as their groups are cleaned."""
        own = group_of(piece.rows.hashes, groups)
        before = np.where(oldest[own] == piece.generation, self._before[own], UNDECIDED)
        return _some(piece.rows, self._are_due(source, piece.rows, before))

    def _are_due(self, source: InputSpec, rows: SortedRows, before: npt.NDArray[np.int64]) -> Mask:
        if source.life is None:
            due: Mask = before < self.limit
            return due
        lasts = _lasts(source, rows)
        chosen: Mask = (lasts <= self.limit) & (lasts > before)
        return chosen

    @property
    def _before(self) -> npt.NDArray[np.int64]:
        return self.decided.array


def oldest_generations(slices: Sequence[tuple[RunFile, Slice]], groups: int) -> npt.NDArray[np.int64]:
    """The oldest generation of each group."""
    found = np.full(groups, np.iinfo(np.int64).max)
    for _, part in slices:
        if part.generation != LIVE:
            mask = part.groups.mask(groups)
            found[mask] = np.minimum(found[mask], part.generation)
    return np.where(found == np.iinfo(np.int64).max, LIVE, found)


def _lasts(source: InputSpec, rows: SortedRows) -> npt.NDArray[np.int64]:
    """The last column; rows without a life have none, and end with their stream."""
    if source.life is None:
        return np.full(len(rows), UNDECIDED + 1)
    return as_numbers(rows.rows.column(source.life.last))


def _some(rows: SortedRows, chosen: Mask) -> SortedRows:
    if chosen.all():
        return rows
    index = np.flatnonzero(chosen)
    return SortedRows(rows.hashes[index], take_rows(rows.rows, index))
