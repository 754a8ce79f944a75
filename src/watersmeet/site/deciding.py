"""Rows that come out alone: which of them are decided in a step, because no match can come for them any more.

| rows | decided |
|---|---|
| with a null key | at once |
| that arrive after their end has come, or their key was promised | at once, if nothing of their group was spilled |
| stored, in a group that misses nothing | in the step after that |
| in a group with missing results | as it is cleaned; of its oldest generation those that were not decided before |
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from watersmeet.operators.join.generations import Piece
from watersmeet.operators.join.lives import as_numbers
from watersmeet.operators.promises.ranges import NEVER
from watersmeet.operators.ranges import expand
from watersmeet.operators.spec import InputSpec
from watersmeet.site.promise_spec import InputKeysSpec
from watersmeet.site.promises import PromiseReader
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import LIVE, UNDECIDED, RunFile, Slice
from watersmeet.state.rows import SortedRows, take_rows
from watersmeet.state.vectors import Vector

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Decision:
    """Up to which value of their last column rows of an input are decided, and by group, up to which they were.

    ``closed`` are the groups of which anything was spilled. Rows are decided, too, if the other input has promised
    their ``keys``: ``promised`` is the version up to which that counts, and ``decided_keys`` by group up to which it
    did; the ``newest`` promise is of another version.

    While an operator below misses results, the limit and what is promised may be less than they were. What was decided
    stays so: the results that are missed begin no earlier, and have other keys.
    """

    limit: int
    decided: Vector
    closed: GroupSet
    keys: InputKeysSpec | None = None
    promised: int = UNDECIDED
    newest: int = UNDECIDED
    decided_keys: Vector = field(default_factory=Vector)

    def at_once(self, source: InputSpec, rows: SortedRows, groups: int, reader: PromiseReader) -> SortedRows:
        """Of rows that arrive, those that are decided at once."""
        own = group_of(rows.hashes, groups)
        undecided = np.full(len(rows), UNDECIDED)
        chosen = self._are_due(source, rows, own, undecided, undecided, reader)
        if self.closed:
            chosen &= ~self.closed.mask(groups)[own]
        return _some(rows, chosen)

    def may_hold(self, source: InputSpec, run: RunFile) -> bool:
        """Whether a run may hold rows that are decided now."""
        return (self.keys is not None and self.has_new_keys) or self._may_end(source, run)

    def _may_end(self, source: InputSpec, run: RunFile) -> bool:
        bounds = None if source.life is None else run.bounds.get(source.life.last)
        if bounds is None:
            return bool(self._before.min() < self.limit)
        return int(bounds.least or 0) <= self.limit and int(bounds.most or 0) > int(self._before.min())

    @property
    def has_new_keys(self) -> bool:
        """Whether keys were promised that rows are not decided for yet."""
        return self.newest > int(self._before_keys.min())

    def now(self, source: InputSpec, run: RunFile, rows: SortedRows, groups: int, reader: PromiseReader) -> SortedRows:
        """Of stored rows of groups that miss nothing, those that are decided in this step."""
        if not self._may_end(source, run):
            rows = self._with_new_keys(rows, reader)
        own = group_of(rows.hashes, groups)
        return _some(rows, self._are_due(source, rows, own, self._before[own], self._before_keys[own], reader))

    def in_cleanup(
        self,
        source: InputSpec,
        piece: Piece,
        oldest: npt.NDArray[np.int64],
        groups: int,
        reader: PromiseReader,
    ) -> SortedRows:
        """Of the rows of a generation, those that are decided as their groups are cleaned."""
        own = group_of(piece.rows.hashes, groups)
        is_oldest = oldest[own] == piece.generation
        before, keys = (np.where(is_oldest, known[own], UNDECIDED) for known in (self._before, self._before_keys))
        return _some(piece.rows, self._are_due(source, piece.rows, own, before, keys, reader))

    def _are_due(
        self,
        source: InputSpec,
        rows: SortedRows,
        own: npt.NDArray[np.int64],
        before: npt.NDArray[np.int64],
        before_keys: npt.NDArray[np.int64],
        reader: PromiseReader,
    ) -> Mask:
        """Which rows, of groups of their ``own``, are decided by now and were not ``before``."""
        lasts, since = _lasts(source, rows), self._since(source, rows, reader)
        have_ended = lasts <= np.maximum(self.limit, self._before[own])
        are_promised = since <= np.maximum(self.promised, self._before_keys[own])
        due: Mask = (have_ended | are_promised) & (lasts > before) & (since > before_keys)
        return due

    def _since(self, source: InputSpec, rows: SortedRows, reader: PromiseReader) -> npt.NDArray[np.int64]:
        if self.keys is None or not len(rows):
            return np.full(len(rows), NEVER)
        return reader.keys(self.keys).since(rows, source.key_columns, source.last)

    def _with_new_keys(self, rows: SortedRows, reader: PromiseReader) -> SortedRows:
        """The rows that may have keys which are promised since the last decision."""
        new = None if self.keys is None else reader.keys(self.keys).hashes_since(int(self._before_keys.min()) + 1)
        if new is None:
            return rows
        low, high = (np.searchsorted(rows.hashes, new, side=side) for side in ("left", "right"))
        index = expand(low, high - low)
        return SortedRows(rows.hashes[index], take_rows(rows.rows, index))

    @property
    def _before(self) -> npt.NDArray[np.int64]:
        return self.decided.array

    @property
    def _before_keys(self) -> npt.NDArray[np.int64]:
        return self.decided_keys.array if self.decided_keys else np.full_like(self.decided.array, UNDECIDED)


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
