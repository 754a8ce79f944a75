"""An outer, semi or anti join of one operator at one site.

Pairs are those of an inner join. A row of a *preserved* input besides

- comes out alone, with nulls, once it is known that it has no match (left, right, full; anti has only these);
- comes out once, with its first match (semi).

Whether a row has a match is not written down anywhere: it is asked of the state when it matters. So the rows of the
other input stay for as long as any row may ask for them (`watersmeet.state.promises`), and nothing stored ever changes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.query import How
from watersmeet.operators.join.gather import Gathered
from watersmeet.operators.join.generations import Piece
from watersmeet.operators.join.probe import Side
from watersmeet.operators.join.product import Blocks, batches
from watersmeet.operators.join.task import BATCH_LIMIT_ROWS, JoinTask
from watersmeet.operators.join.trace import Output, results_of_rows, with_groups
from watersmeet.operators.ranges import Index
from watersmeet.operators.results import Results
from watersmeet.state.groups import group_of
from watersmeet.state.rows import SortedRows, no_rows, take_rows

Mask = npt.NDArray[np.bool_]
_PLACE = "#place"


@dataclass
class OuterTask:
    """The join of one operator; ``schemas`` are those of what its inputs keep."""

    join: JoinTask
    how: How
    schemas: tuple[pa.Schema, ...]

    @property
    def output(self) -> Output:
        """The results, counted as they are made."""
        return self.join.output

    @property
    def _gives_pairs(self) -> bool:
        return self.how in ("left", "right", "full")

    def produce(self, sides: Sequence[Side]) -> Iterator[Results]:
        """The pairs that the rows of this step complete, or the rows that now have their first match."""
        if self._gives_pairs:
            yield from self.join.produce(sides)
        elif self.how == "semi":
            for own, gathered in self.join.meetings(sides, finds_all=True):
                yield from self._matched(own, gathered[0], self._first_matched(gathered))

    def clean(self, inputs: Sequence[Sequence[Piece]], limit_bytes: int) -> Iterator[Results]:
        """The pairs across generations, or the rows that have a match in other generations only."""
        if self._gives_pairs:
            yield from self.join.clean(inputs, limit_bytes)
        elif self.how == "semi":
            for own, gathered in self.join.generations(inputs, limit_bytes):
                yield from self._matched(own, gathered[0], self._matched_elsewhere(gathered))

    def settle(self, number: int, rows: SortedRows, other: Side) -> Iterator[Results]:
        """Those of some rows of an input, of which no match can come any more, that have none."""
        if self.how == "semi" or not len(rows):
            return
        left = np.flatnonzero(~self.matched(number, rows, other))
        yield from self.unmatched(number, SortedRows(rows.hashes[left], take_rows(rows.rows, left)))

    def matched(self, number: int, rows: SortedRows, other: Side) -> Mask:
        """Which of some rows of an input have a match in the other one."""
        asked = SortedRows(rows.hashes, _with_places(rows.rows, len(rows)))
        mine = Side((), asked)
        matched = np.zeros(len(rows), dtype=np.bool_)
        for _, gathered in self.join.meetings((mine, other) if number == 0 else (other, mine)):
            found = _has_match(self.join.completed(gathered), number, gathered)
            matched[gathered[number].rows.column(_PLACE).to_numpy()[found]] = True
        return matched

    def unmatched(self, number: int, rows: SortedRows) -> Iterator[Results]:
        """Rows of an input as results, with nulls for the other one."""
        nulls = self.schemas[1 - number] if self._gives_pairs else pa.schema([])
        for start in range(0, len(rows), BATCH_LIMIT_ROWS) if self.how != "semi" else ():
            some = rows.slice(start, min(start + BATCH_LIMIT_ROWS, len(rows)))
            index = np.arange(len(some))
            self.output.count_each(group_of(some.hashes, self.join.groups), [some.rows], [index])
            own = {field.name: pa.nulls(len(some), field.type) for field in nulls}
            yield Results((self._told(some),), (index,), own)

    def _told(self, rows: SortedRows) -> pa.RecordBatch:
        """Rows with their groups, if an operator above asks for these."""
        name = self.join.group_column
        return rows.rows if name is None else with_groups(rows.rows, name, group_of(rows.hashes, self.join.groups))

    def _first_matched(self, gathered: Sequence[Gathered]) -> Mask:
        """The rows that have a match now and had none before."""
        now = _has_match(self.join.completed(gathered), 0, gathered)
        old = [side.part_of_rows == 0 for side in gathered]
        asked = now & old[0]
        if not asked.any():
            return now
        before = _all_new([gathered[0].where(asked), gathered[1].where(old[1])])
        earlier = np.flatnonzero(asked)[_has_match(self.join.completed(before), 0, before)]
        now[earlier] = False
        return now

    def _matched_elsewhere(self, gathered: Sequence[Gathered]) -> Mask:
        """The rows that have matches, and none in their own generation."""
        generations = [side.part_of_rows for side in gathered]
        together = _all_new(gathered)
        same, other = (np.zeros(len(generations[0]), dtype=np.bool_) for _ in range(2))
        for blocks in self.join.completed(together):
            for index in batches(blocks, BATCH_LIMIT_ROWS):
                is_same = generations[0][index[0]] == generations[1][index[1]]
                same[index[0][is_same]] = True
                other[index[0][~is_same]] = True
        return other & ~same

    def _matched(self, own: Index, side: Gathered, matched: Mask) -> Iterator[Results]:
        index = np.flatnonzero(matched)
        groups, rows = own[side.owners], side.rows
        if self.join.group_column is not None:
            rows = with_groups(rows, self.join.group_column, groups)
        for start in range(0, len(index), BATCH_LIMIT_ROWS):
            some = index[start : start + BATCH_LIMIT_ROWS]
            self.output.count_each(groups[some], [side.rows], [some])
            yield Results((rows,), (some,))


def _with_places(rows: pa.RecordBatch, count: int) -> pa.RecordBatch:
    places = pa.array(np.arange(count))
    if not rows.num_columns:
        return pa.RecordBatch.from_arrays([places], names=[_PLACE])
    return rows.append_column(_PLACE, places)


def _all_new(sides: Sequence[Gathered]) -> list[Gathered]:
    """The same rows as if all were new, so that all pairs are completed."""
    return [Gathered(side.rows, np.stack([np.zeros_like(side.totals), side.totals])) for side in sides]


def _has_match(found: Iterable[Blocks], number: int, gathered: Sequence[Gathered]) -> Mask:
    """Which rows of an input take part in any result."""
    rows = len(gathered[number].owners)
    matched = np.zeros(rows, dtype=np.bool_)
    for blocks in found:
        if blocks.check is None:
            matched |= results_of_rows(blocks, number, rows) > 0
        else:
            for index in batches(blocks, BATCH_LIMIT_ROWS):
                matched[index[number]] = True
    return matched


def nothing(schema: pa.Schema) -> Side:
    """An input without rows."""
    return Side((), no_rows(schema))
