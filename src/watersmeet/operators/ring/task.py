"""A ring of one operator at one site: rows that meet all others, at all sites, each pair once (PSP).

Every row is stored at one site. New rows come to all sites: to its own as a row that is stored, to the others as a
*probe*, which is joined and forgotten. With S what a site stores of an input from before, N what of the new rows it
stores and D all that is new, it yields

    D0 x S1  +  (S0 + N0) x D1

A pair of a new and an old row is thus found where the old one is; one of two new rows where that of the first input is.
So all pairs with a new row are found once, as every row is stored once.

Probing rows are taken in parts of ``PART_BYTES``; the stored ones run by run. Pairs are let through by ranges (`index`)
in batches of ``PAIRS_LIMIT``, and the residual tests are asked of these, the one that drops most for its time first.
What a test reads of them is copied in parts of bounded bytes (`watersmeet.operators.predicate`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.model.plan import Test
from watersmeet.operators.costs import Costs
from watersmeet.operators.join.generations import Piece as Generation
from watersmeet.operators.join.lives import Bounds, common_life
from watersmeet.operators.join.probe import RunView, Side
from watersmeet.operators.join.product import batches
from watersmeet.operators.join.task import BATCH_LIMIT_BYTES, BATCH_LIMIT_ROWS
from watersmeet.operators.join.trace import Output, with_groups
from watersmeet.operators.predicate import Asked, Functions
from watersmeet.operators.ranges import Index, cut
from watersmeet.operators.results import OnlyPairs, Results
from watersmeet.operators.ring.index import StoredIndex
from watersmeet.operators.ring.pieces import Mask, Piece
from watersmeet.operators.ring.ranges import Conditions
from watersmeet.operators.spec import LifeSpec
from watersmeet.operators.widths import Widths, fitting
from watersmeet.state.groups import group_of
from watersmeet.state.rows import SortedRows, one_batch

PART_BYTES = 32 << 20
PAIRS_LIMIT = 1 << 18


@dataclass(frozen=True)
class RingSide:
    """One input of a ring at one site: what it stored before, the new rows it stores, and those that others store."""

    old: tuple[RunView, ...]
    new: tuple[SortedRows, ...] = ()
    probes: tuple[SortedRows, ...] = ()


@dataclass
class RingTask(OnlyPairs):
    """The join of two inputs on any condition; ``output`` counts the results by the groups of their stored rows."""

    groups: int
    tests: tuple[Test, ...]
    lives: tuple[LifeSpec | None, ...]
    is_windowed: bool = False
    bounds: Bounds = ()
    life: LifeSpec | None = None
    group_column: str | None = None
    traced: tuple[str, ...] = ()
    functions: Functions = field(default_factory=dict)
    costs: Costs = field(default_factory=Costs)
    output: Output = field(init=False)

    def __post_init__(self) -> None:
        self.output = Output(self.groups, self.traced)
        self._conditions = Conditions(self.tests, self.lives, self.is_windowed, self.bounds)

    def meet(self, sides: Sequence[RingSide]) -> Iterator[Results]:
        """The results that the new rows of a step complete at a site."""
        first, second = sides
        yield from self.probe(0, [*first.new, *first.probes], second.old)
        stored = (*first.old, *(RunView(rows) for rows in first.new))
        yield from self.probe(1, [*second.new, *second.probes], stored)

    def produce(self, sides: Sequence[Side]) -> Iterator[Results]:
        """The results at the only site there is: nothing comes as a probe."""
        return self.meet([RingSide(side.runs, (side.delta,)) for side in sides])

    def clean(self, inputs: Sequence[Sequence[Generation]], limit_bytes: int) -> Iterator[Results]:
        """Nothing is missing within a group: which pairs of all groups are, ages tell (`watersmeet.state.ages`)."""
        del inputs, limit_bytes
        yield from ()

    def across(
        self, number: int, rows: SortedRows, others: Sequence[SortedRows], limit_bytes: int
    ) -> Iterator[Results]:
        """All results of rows of an input with rows of the other one, of which so many are taken at a time."""
        for some in _cuts(others, limit_bytes):
            yield from self.probe(1 - number, some, (RunView(rows),))

    def probe(self, probing: int, pieces: Sequence[SortedRows], stored: Sequence[RunView]) -> Iterator[Results]:
        """All pairs of probing rows of an input with what is stored of the other."""
        views = [view for view in stored if len(view.rows)]
        parts = [(part, Piece(part, count, self.lives[probing])) for part, count in _parts(pieces)] if views else []
        for view in views:
            rows, kept = view.rows, _kept(view, self.groups)
            index = StoredIndex(Piece(rows.rows, len(rows), self.lives[1 - probing]), kept, rows.hashes)
            own = group_of(rows.hashes, self.groups)
            for part, piece in parts:
                given = (part, rows.rows) if probing == 0 else (rows.rows, part)
                yield from self._results(given, own, probing, self._pairs(index, probing, piece))

    def _pairs(self, index: StoredIndex, probing: int, probe: Piece) -> Iterator[tuple[Index, Index]]:
        """The pairs that pass everything, as many at a time as are written out at once."""
        found: list[list[Index]] = []
        count = 0
        for passed in self._passed(index, probing, probe):
            found.append(passed)
            count += len(passed[0])
            if count >= BATCH_LIMIT_ROWS:
                yield _together(found)
                found, count = [], 0
        if count:
            yield _together(found)

    def _passed(self, index: StoredIndex, probing: int, probe: Piece) -> Iterator[list[Index]]:
        """The pairs that pass everything, of some that were looked at together."""
        rows = probe.rows, index.stored.rows
        for conditions in self._conditions.alternatives(probe, index.stored):
            residual = Asked(conditions.residual(probe, index.stored), self.functions, self.costs)
            for blocks in index.blocks(conditions, probing, probe):
                yield from (residual.passed(some, rows) for some in batches(blocks, PAIRS_LIMIT))

    def _results(
        self,
        given: tuple[pa.RecordBatch, pa.RecordBatch],
        own: Index,
        probing: int,
        pairs: Iterator[tuple[Index, Index]],
    ) -> Iterator[Results]:
        widths = [Widths.of(batch.columns) for batch in given]
        for probes, stored in pairs:
            index = [probes, stored] if probing == 0 else [stored, probes]
            for part in fitting(widths, index, BATCH_LIMIT_BYTES, BATCH_LIMIT_ROWS):
                some, groups = [numbers[part] for numbers in index], own[stored[part]]
                self.output.count_each(groups, given, some)
                yield Results(given, tuple(some), {**self._group_of(groups), **self._life_of(given, some)})

    def _group_of(self, groups: Index) -> dict[str, pa.Array]:
        if self.group_column is None:
            return {}
        none = pa.RecordBatch.from_arrays([], names=[])
        return {self.group_column: with_groups(none, self.group_column, groups).column(0)}

    def _life_of(self, rows: Sequence[pa.RecordBatch], index: Sequence[Index]) -> Mapping[str, pa.Array]:
        if self.life is None:
            return {}
        common = common_life(rows, self.lives, index)
        return {self.life.begin: pa.array(common.begin), str(self.life.end): pa.array(common.ends())}


def _kept(view: RunView, groups: int) -> Mask | None:
    return None if view.counts_for is None else view.counts_for[group_of(view.rows.hashes, groups)]


def _parts(pieces: Sequence[SortedRows]) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Rows together, as many as fit; a larger piece is cut."""
    for some in _cuts(pieces, PART_BYTES):
        rows = some[0].rows if len(some) == 1 else one_batch(pa.Table.from_batches([piece.rows for piece in some]))
        yield rows, sum(len(piece) for piece in some)


def _cuts(pieces: Sequence[SortedRows], limit: int) -> Iterator[Sequence[SortedRows]]:
    """Pieces that are together no larger than a limit, or single rows."""
    cuts = [
        piece.slice(start, stop)
        for piece in pieces
        if len(piece)
        for start, stop in _slices(len(piece), max(1, limit // max(1, piece.rows.nbytes // len(piece))))
    ]
    for start, stop in cut(np.array([piece.bytes for piece in cuts], dtype=np.int64), limit):
        yield cuts[start:stop]


def _slices(count: int, length: int) -> list[tuple[int, int]]:
    return [(start, min(start + length, count)) for start in range(0, count, length)]


def _together(found: Sequence[list[Index]]) -> tuple[Index, Index]:
    probing, stored = zip(*found, strict=True)
    return np.concatenate(probing), np.concatenate(stored)
