"""The symmetric m-way join of one operator at one site, at run time and in cleanup.

    probe   -> which keys complete results, and where their rows lie     (`probe`)
    gather  -> the rows of some of the keys, key by key                  (`gather`)
    product -> all combinations with at least one new row, in batches    (`product`; `lives` where rows have windows)

It is a pure function of the rows the operator had and those the epoch brings; cleanup goes the same way with the
generations of some groups (`generations`) in place of old and new rows. Keys are handled in parts, so that never
more than ``MATCH_LIMIT_BYTES`` of matching rows are gathered (unless one key alone has more) and never more than
``BATCH_LIMIT_BYTES`` of results are written out at once, by the average width of a row, and ``MATCH_LIMIT_BYTES`` by
their own, however many rows one row matches and however wide it is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from watersmeet.model.plan import Test
from watersmeet.operators.costs import Costs
from watersmeet.operators.join.gather import Gathered, gather, separate
from watersmeet.operators.join.generations import Piece, parts
from watersmeet.operators.join.lives import Bounds, common_life, overlapping, overlapping_missing, scaled
from watersmeet.operators.join.probe import Found, Side, probe
from watersmeet.operators.join.product import Blocks, batches, completed, missing
from watersmeet.operators.join.trace import Output, with_groups
from watersmeet.operators.predicate import Functions, Tested
from watersmeet.operators.ranges import Index, cut
from watersmeet.operators.results import OnlyPairs, Results
from watersmeet.operators.spec import LifeSpec
from watersmeet.operators.widths import Widths, fitting
from watersmeet.state.groups import Hashes, group_of

MATCH_LIMIT_BYTES = 32 << 20
BATCH_LIMIT_BYTES = 4 << 20
BATCH_LIMIT_ROWS = 1 << 15

Meeting = tuple[Index, list[Gathered]]
"""The group of each key, and the rows of every input."""

BlocksOf = Callable[[Sequence[Gathered]], Iterable[Blocks]]


@dataclass
class JoinTask(OnlyPairs):
    """The join of one operator; ``output`` counts the results as they are produced.

    ``group_column`` is the name of a column that tells each result's group, for operators above to trace theirs by;
    ``traced`` are the columns of that kind that the inputs have. ``lives`` are those of the inputs, ``life`` are the
    columns that tell the results' own; if the join ``is_windowed``, they decide what is joined, and so do the
    ``bounds`` on how far apart they begin. Results pass all ``tests``.
    """

    groups: int
    key_columns: tuple[tuple[str, ...], ...] | None = None
    group_column: str | None = None
    traced: tuple[str, ...] = ()
    forget_pairs: bool = False
    lives: tuple[LifeSpec | None, ...] = ()
    life: LifeSpec | None = None
    is_windowed: bool = False
    tests: tuple[Test, ...] = ()
    bounds: Bounds = ()
    functions: Functions = field(default_factory=dict)
    costs: Costs = field(default_factory=Costs)
    output: Output = field(init=False)

    def __post_init__(self) -> None:
        self.output = Output(self.groups, self.traced)

    def produce(self, sides: Sequence[Side]) -> Iterator[Results]:
        """What the rows of this step complete, each result once."""
        for own, gathered in self.meetings(sides):
            yield from self._results(own, gathered, self.completed)

    def meetings(self, sides: Sequence[Side], *, finds_all: bool = False) -> Iterator[Meeting]:
        """The rows of all keys that new rows complete results of, as many at a time as fit."""
        if not any(len(side.delta) for side in sides):
            return
        keys, found = probe(sides, self.groups, finds_all=finds_all)
        for start, stop in cut(_matched_bytes(found), MATCH_LIMIT_BYTES):
            yield from self._told_apart(keys[start:stop], [gather(side, start, stop) for side in found])

    def clean(self, inputs: Sequence[Sequence[Piece]], limit_bytes: int = MATCH_LIMIT_BYTES) -> Iterator[Results]:
        """The results across generations, each once; at most ``limit_bytes`` of rows are gathered at a time."""
        for own, gathered in self.generations(inputs, limit_bytes):
            yield from self._results(own, gathered, self._missing)

    def generations(self, inputs: Sequence[Sequence[Piece]], limit_bytes: int) -> Iterator[Meeting]:
        """The rows of all keys that miss results; their parts are generations."""
        for part in parts(inputs, limit_bytes):
            yield from self._told_apart(part.keys, part.inputs)

    def completed(self, sides: Sequence[Gathered]) -> Iterable[Blocks]:
        """The blocks of results that new rows complete."""
        if self.is_windowed:
            return self._tested(sides, overlapping(sides, self.lives, self.bounds))
        return self._tested(sides, [completed(sides, forget_pairs=self.forget_pairs)])

    def _missing(self, sides: Sequence[Gathered]) -> Iterable[Blocks]:
        if self.is_windowed:
            return self._tested(sides, overlapping_missing(sides, self.lives, self.bounds))
        return self._tested(sides, [missing(sides)])

    def _tested(self, sides: Sequence[Gathered], found: Iterable[Blocks]) -> Iterable[Blocks]:
        if not self.tests:
            return found
        rows = [side.rows for side in sides]
        return (
            replace(blocks, check=Tested(rows, self.tests, blocks.check, self.functions, self.costs))
            for blocks in found
        )

    def _told_apart(self, keys: Hashes, gathered: list[Gathered]) -> Iterator[Meeting]:
        own = group_of(keys, self.groups)
        if self.key_columns is not None:
            gathered, hash_of = separate(gathered, self.key_columns)
            own = own[hash_of]
        if not self.is_windowed:
            yield own, gathered
            return
        for first, some in scaled(gathered, self.lives):
            yield own[first:], some

    def _results(self, own: Index, gathered: list[Gathered], blocks_of: BlocksOf) -> Iterator[Results]:
        rows = [side.rows for side in gathered]
        group_of_rows = own[gathered[0].owners]
        given = list(rows)
        if self.group_column is not None:
            given[0] = with_groups(rows[0], self.group_column, group_of_rows)
        widths = [Widths.of(batch.columns) for batch in given]
        for blocks in blocks_of(gathered):
            if blocks.check is None:
                self.output.count(own, blocks, rows)
            for index in batches(blocks, _batch_rows(given)):
                if blocks.check is not None:
                    self.output.count_each(group_of_rows[index[0]], rows, index)
                for part in fitting(widths, index, MATCH_LIMIT_BYTES):
                    some = [numbers[part] for numbers in index]
                    yield Results(tuple(given), tuple(some), self._life_of(rows, some))

    def _life_of(self, rows: Sequence[pa.RecordBatch], index: Sequence[Index]) -> dict[str, pa.Array]:
        if self.life is None:
            return {}
        common = common_life(rows, self.lives, index)
        return {self.life.begin: pa.array(common.begin), str(self.life.end): pa.array(common.ends())}


def _matched_bytes(found: Sequence[Found]) -> Index:
    """How many bytes of rows each key brings together, by the average width of a row of each piece."""
    total = np.zeros(len(found[0].delta.counts), dtype=np.float64)
    for piece in (piece for side in found for piece in (*side.runs, side.delta)):
        if len(piece.rows):
            total += piece.counts * (piece.rows.bytes / len(piece.rows))
    return total.astype(np.int64)


def _batch_rows(rows: Sequence[pa.RecordBatch]) -> int:
    width = sum(batch.nbytes / max(1, batch.num_rows) for batch in rows)
    return max(1, min(BATCH_LIMIT_ROWS, int(BATCH_LIMIT_BYTES / max(1.0, width))))
