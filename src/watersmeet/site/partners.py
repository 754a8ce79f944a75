"""What an outer join stores of one input, asked for what may be joined with rows of the other one.

A row that was joined says more than that: its match is known not to come out alone, as long as the row is there to be
asked. So a row is needed although nothing comes for it any more, if another with its key waits for its end. And what
gives each row of its left input at most once, a semi or anti join, needs none of which it has found a match.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.operators.join.probe import RunView, Side
from watersmeet.operators.outer.task import OuterTask
from watersmeet.operators.ranges import Index
from watersmeet.operators.spec import InputSpec
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import RunFile, Slice
from watersmeet.state.parts import Wanted
from watersmeet.state.rows import SortedRows, no_rows
from watersmeet.state.runs import open_run
from watersmeet.storage.base import Storage

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Partners:
    """What is stored of an input of an outer join in groups that miss nothing; of those, a site knows the ``whole``.

    With a ``task``, rows of the other input come out at most once.
    """

    storage: Storage
    groups: int
    source: InputSpec
    pairs: Sequence[tuple[RunFile, Slice]]
    whole: GroupSet
    task: OuterTask | None = None

    def may_have_keys_of(self, rows: SortedRows) -> Mask:
        """Which rows have a key that any row may have that is stored."""
        own = group_of(rows.hashes, self.groups)
        found = ~self.whole.mask(self.groups)[own]
        for piece in self._pieces(own):
            place = np.minimum(np.searchsorted(piece.hashes, rows.hashes), len(piece) - 1)
            found |= piece.hashes[place] == rows.hashes
        return found

    def have_matches_of(self, rows: SortedRows) -> Mask:
        """Which rows are known to have a match, if they come out at most once."""
        if self.task is None or not len(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        pieces = self._pieces(group_of(rows.hashes, self.groups))
        return self.task.matched(0, rows, Side(tuple(map(RunView, pieces)), no_rows(self.source.schema)))

    def _pieces(self, own: Index) -> list[SortedRows]:
        """What is there of some groups."""
        some = GroupSet.of(np.unique(own).tolist()) & self.whole
        asked = [(run, part) for run, part in self.pairs if part.groups.meets(some)]
        return [piece for pair in asked for piece in self._open(*pair).of_groups(pair[1].groups & some, self.groups)]

    def _open(self, run: RunFile, part: Slice) -> SortedRows:
        """A run with all that may be asked of it: what each batch asks for would be fetched one after the other."""
        return open_run(self.storage, run, wanted=Wanted(part.groups & self.whole, self.groups))
