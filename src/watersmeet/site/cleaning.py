"""A site's part in a step of cleanup: bring together the rows of some groups in all generations (Spill 4.1).

The groups are dealt out to all sites, whichever they live on. Their results are ordinary results of the operator: they
go to the sink or, from an operator below, up to the next one as new rows.

1. Groups are taken in blocks that hold at most ``gather_bytes``; a larger group is taken in ranges of its hashes.
2. A block's rows are copied out of every run that has some, and the run is unmapped at once: mapped files count as
   memory by whole pages and their neighbours, which for many small ranges of many runs is most of the state.
3. The block is cleaned by the operator's own task.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from watersmeet.operators.join.generations import Piece
from watersmeet.operators.join.probe import RunView, Side
from watersmeet.operators.kinds import OperatorTask
from watersmeet.operators.ranges import cut
from watersmeet.operators.results import Results
from watersmeet.operators.spec import OperatorSpec
from watersmeet.site.deciding import Decision, oldest_generations
from watersmeet.site.promises import PromiseReader
from watersmeet.site.spec import CleaningOrder, Pair
from watersmeet.state.groups import GroupSet, first_hash
from watersmeet.state.rows import SortedRows, merge_rows, no_rows
from watersmeet.state.runs import open_groups, release_run
from watersmeet.storage.base import Storage


@dataclass
class SiteCleanup:
    """Cleans the groups of one order."""

    storage: Storage
    groups: int
    order: CleaningOrder
    operator: OperatorSpec
    decisions: Mapping[int, Decision]
    reader: PromiseReader
    read_bytes: int = 0

    def results(self, task: OperatorTask) -> Iterator[Results]:
        """The missing results of the groups, block by block."""
        for block, low, high in self.blocks():
            pieces = self._pieces(block, low, high)
            yield from task.clean(pieces, self.order.gather_bytes)
            yield from self._settled(task, pieces)

    def blocks(self) -> Iterator[tuple[GroupSet, int, int]]:
        """Groups that are taken together, and the range of their hashes."""
        for start, stop in cut(np.array(self.order.sizes, dtype=np.int64), self.order.gather_bytes):
            block = self.order.groups[start:stop]
            for low, high in self._ranges(block, sum(self.order.sizes[start:stop])):
                yield GroupSet.of(block), low, high

    def _settled(self, task: OperatorTask, pieces: list[list[Piece]]) -> Iterator[Results]:
        """What rows give of which no match can come any more, now that all that could be their match is here."""
        for number in self.operator.preserved:
            source, decision = self.operator.inputs[number], self.decisions.get(self.operator.inputs[number].tag)
            if decision is not None:
                oldest = oldest_generations(self.order.slices, self.groups)
                is_pair = len(self.operator.inputs) > 1
                others = tuple(RunView(piece.rows) for piece in pieces[1 - number]) if is_pair else ()
                there = Side(others, no_rows(self.operator.inputs[-1 - number].schema))
                due = [decision.in_cleanup(source, piece, oldest, self.groups, self.reader) for piece in pieces[number]]
                if sum(map(len, due)):
                    yield from task.settle(number, merge_rows(due), there)

    def _ranges(self, block: tuple[int, ...], size: int) -> list[tuple[int, int]]:
        """The hashes of a block, cut so that each range holds about as much as may be brought together."""
        low, high = first_hash(min(block), self.groups), first_hash(max(block) + 1, self.groups)
        count = max(1, -(-size // self.order.gather_bytes)) if len(block) == 1 else 1
        bounds = [low + (high - low) * number // count for number in range(count + 1)]
        return list(pairwise(bounds))

    def _pieces(self, block: GroupSet, low: int, high: int) -> list[list[Piece]]:
        """For every input the rows of a block in a range of hashes, by generation."""
        pieces: dict[str, list[Piece]] = {source.name: [] for source in self.operator.inputs}
        for (run, part), rows in self.copies(block, low, high):
            pieces[run.input].append(Piece(part.generation, rows))
        return list(pieces.values())

    def copies(self, block: GroupSet, low: int, high: int) -> Iterator[tuple[Pair, SortedRows]]:
        """The rows of a block in a range of hashes, run by run."""
        for run, part in self.order.slices:
            wanted = part.groups & block
            if wanted:
                for rows in open_groups(self.storage, run, wanted, self.groups, once=True):
                    copy = Piece(part.generation, rows).between(low, high).rows.copy()
                    self.read_bytes += copy.bytes
                    yield (run, part), copy
                release_run(self.storage, run)
