"""An aggregate by key, of one operator at one site.

State are partial aggregates: what the rows of an epoch make of each key is one row. Those of a key are combined when
runs are merged, and whenever they are read. What comes out when is told by the mode:

| mode | a key comes out |
|---|---|
| update | with its new values in every epoch that changes them |
| append | once, when it is final: no row for it can come any more |
| first | once, when it first comes, with the values of its first row; that is what makes rows distinct |

The values of a key of which something was spilled are known when its group is cleaned, and not before.

With a history (`history`), there is a partial aggregate for each key *and time*, and those go that are not among the
latest; a hidden count tells how many rows each stands for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.query import History
from watersmeet.operators.aggregate.functions import FUNCTIONS, finished
from watersmeet.operators.aggregate.history import latest, numbered
from watersmeet.operators.aggregate.sliding import in_windows
from watersmeet.operators.join.gather import Gathered, separate
from watersmeet.operators.join.generations import Piece
from watersmeet.operators.join.lives import as_numbers
from watersmeet.operators.join.probe import Side
from watersmeet.operators.join.task import BATCH_LIMIT_ROWS, JoinTask
from watersmeet.operators.join.trace import Output
from watersmeet.operators.ranges import Index, offsets
from watersmeet.operators.results import Results
from watersmeet.operators.spec import Aggregated, AggregateSpec
from watersmeet.state.groups import group_of
from watersmeet.state.manifest import LIVE
from watersmeet.state.rows import SortedRows, merge_rows, sort_rows, take_rows

Mask = npt.NDArray[np.bool_]
NEWEST = np.iinfo(np.int64).max


@dataclass
class AggregateTask:
    """The aggregate of one operator; ``found`` finds the rows of keys, ``kept`` are columns that stay as they are."""

    found: JoinTask
    spec: AggregateSpec
    keys: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def output(self) -> Output:
        """The results, counted as they are made."""
        return self.found.output

    def reduce(self, rows: SortedRows) -> SortedRows:
        """What rows make of each key: one row with partial aggregates."""
        if not self.spec.sliding:
            return self._reduced(rows)
        parts = [self._reduced(some) for some in in_windows(rows, self.spec.sliding, self.spec.final)]
        return parts[0] if len(parts) == 1 else self.combine(merge_rows(parts))

    def _reduced(self, rows: SortedRows) -> SortedRows:
        one, groups = self._by_key(rows, are_partial=False)
        parts: dict[str, pa.Array] = {}
        for number, aggregate in enumerate(self._aggregates):
            values = one.rows.column(aggregate.argument) if aggregate.argument else pa.array(np.ones(len(one), np.int8))
            made = FUNCTIONS[aggregate.function].start(values, groups)
            parts |= dict(zip(_names(number, aggregate.function), made, strict=True))
        return self._stored(one, groups, parts)

    def combine(self, partials: SortedRows) -> SortedRows:
        """The partial aggregates of each key as one row."""
        one, groups = self._by_key(partials, are_partial=True)
        return self._stored(one, groups, self._merged(one.rows, groups))

    def produce(self, sides: Sequence[Side]) -> Iterator[Results]:
        """The new values of the keys that changed, or the keys that are new."""
        if self.spec.mode == "append":
            return
        for own, (gathered,) in self.found.meetings(sides, finds_all=True):
            if self.spec.mode == "first":
                is_new = gathered.counts[0] == 0
                firsts = offsets(gathered.totals)[is_new]
                yield from self._rows(own[is_new], self._finished(take_rows(gathered.rows, firsts)))
            else:
                yield from self._values(own, gathered)

    def clean(self, inputs: Sequence[Sequence[Piece]], limit_bytes: int) -> Iterator[Results]:
        """The keys that came after something of their group was spilled."""
        del limit_bytes
        pieces = [piece for piece in inputs[0] if len(piece.rows)]
        if self.spec.mode == "append" or not pieces:
            return
        rows, is_later = self._told_apart(pieces)
        one, counts = _counted(rows)
        (gathered,), hash_of = separate([Gathered(_with(one.rows, is_later), counts)], [self.keys])
        own = group_of(np.unique(one.hashes), self.found.groups)[hash_of]
        later = gathered.rows.column(_LATER).to_numpy(zero_copy_only=False)
        has_later = np.bincount(gathered.owners, weights=later, minlength=len(own)) > 0
        has_older = np.bincount(gathered.owners, weights=~later, minlength=len(own)) > 0
        due = has_later & ~has_older if self.spec.mode == "first" else has_later
        chosen = gathered.where(due[gathered.owners])
        if self.spec.mode == "first":
            firsts = offsets(gathered.totals)[due]
            yield from self._rows(own[due], self._finished(take_rows(gathered.rows, firsts)))
        else:
            kept = Gathered(chosen.rows, chosen.counts[:, due])
            yield from self._values(own[due], kept)

    def settle(self, number: int, rows: SortedRows, other: Side) -> Iterator[Results]:
        """The values of keys for which no row comes any more; all there is of them is here."""
        del number, other
        if len(rows):
            final = self.combine(rows)
            yield from self._rows(group_of(final.hashes, self.found.groups), self._finished(final.rows))

    def unmatched(self, number: int, rows: SortedRows) -> Iterator[Results]:
        """No key is without a value: null is one."""
        del number, rows
        yield from ()

    @property
    def _aggregates(self) -> tuple[Aggregated, ...]:
        """All that is kept of rows; with a history, how many they are is the last of it."""
        return self.spec.aggregates if self.spec.history is None else (*self.spec.aggregates, _HOW_MANY)

    def _by_key(self, rows: SortedRows, *, are_partial: bool) -> tuple[SortedRows, Index]:
        """The rows key by key, or by key and time; and the number each row's key has."""
        one, counts = _counted(rows)
        (gathered,), hash_of = separate([Gathered(one.rows, counts)], [self.keys])
        hashes = np.repeat(np.unique(one.hashes)[hash_of], gathered.totals)
        if self.spec.history is None:
            return SortedRows(hashes, gathered.rows), gathered.owners
        index = self._latest(gathered, self.spec.history, are_partial=are_partial)
        some = SortedRows(hashes[index], take_rows(gathered.rows, index))
        return some, numbered(gathered.owners[index], as_numbers(some.rows.column(self.spec.order)))

    def _latest(self, gathered: Gathered, history: History, *, are_partial: bool) -> Index:
        """Which rows count, key by key and then by time."""
        counts = np.ones(gathered.rows.num_rows, np.int64)
        if are_partial:
            (name,) = _names(len(self.spec.aggregates), _HOW_MANY.function)
            counts = gathered.rows.column(name).to_numpy(zero_copy_only=False)
        times = as_numbers(gathered.rows.column(self.spec.order))
        return latest(history, gathered.owners, times, counts)

    def _merged(self, rows: pa.RecordBatch, groups: Index) -> dict[str, pa.Array]:
        parts: dict[str, pa.Array] = {}
        for number, aggregate in enumerate(self._aggregates):
            names = _names(number, aggregate.function)
            made = FUNCTIONS[aggregate.function].merge([rows.column(name) for name in names], groups)
            parts |= dict(zip(names, made, strict=True))
        return parts

    def _stored(self, rows: SortedRows, groups: Index, parts: dict[str, pa.Array]) -> SortedRows:
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        return sort_rows(rows.hashes[firsts], self._with_kept(rows.rows, firsts, parts))

    def _with_kept(self, rows: pa.RecordBatch, firsts: Index, parts: dict[str, pa.Array]) -> pa.RecordBatch:
        """Parts of groups beside the columns that stay as they are, which are those of a group's first row."""
        kept = take_rows(rows.select(list(self.kept)), firsts)
        columns = {name: kept.column(name) for name in self.kept} | parts
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _values(self, own: Index, gathered: Gathered) -> Iterator[Results]:
        if len(gathered.owners):
            rows, groups = gathered.rows, gathered.owners
            if self.spec.history is not None:
                index = self._latest(gathered, self.spec.history, are_partial=True)
                rows, groups = take_rows(rows, index), groups[index]
            firsts = np.flatnonzero(np.diff(groups, prepend=-1))
            yield from self._rows(own, self._finished(self._with_kept(rows, firsts, self._merged(rows, groups))))

    def _finished(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = {name: rows.column(name) for name in self.kept}
        for number, aggregate in enumerate(self.spec.aggregates):
            parts = [rows.column(name) for name in _names(number, aggregate.function)]
            columns[aggregate.name] = finished(aggregate.function, parts, aggregate.type)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _rows(self, own: Index, rows: pa.RecordBatch) -> Iterator[Results]:
        for start in range(0, len(own), BATCH_LIMIT_ROWS):
            index = np.arange(start, min(start + BATCH_LIMIT_ROWS, len(own)))
            self.output.count_each(own[index], [], [])
            keys = {name: rows.column(source).take(pa.array(index)) for name, source in self.spec.renamed}
            yield Results((rows,), (index,), keys)

    def _told_apart(self, pieces: Sequence[Piece]) -> tuple[SortedRows, Mask]:
        """All rows, and whether each came after the oldest generation of its group."""
        groups = self.found.groups
        generations = [piece.generation if piece.generation != LIVE else NEWEST for piece in pieces]
        oldest = np.full(groups, NEWEST)
        for piece, generation in zip(pieces, generations, strict=True):
            np.minimum.at(oldest, group_of(piece.rows.hashes, groups), generation)
        flagged = [
            SortedRows(
                piece.rows.hashes, _with(piece.rows.rows, generation > oldest[group_of(piece.rows.hashes, groups)])
            )
            for piece, generation in zip(pieces, generations, strict=True)
        ]
        rows = merge_rows(flagged)
        later = rows.rows.column(_LATER).to_numpy(zero_copy_only=False)
        return SortedRows(rows.hashes, rows.rows.drop_columns([_LATER])), later


_LATER = "#later"
_HOW_MANY = Aggregated("#rows", "count", None, pa.int64())


def _with(rows: pa.RecordBatch, flags: Mask) -> pa.RecordBatch:
    return rows.append_column(_LATER, pa.array(flags))


def _counted(rows: SortedRows) -> tuple[SortedRows, Index]:
    """Sorted rows, and how many there are of each hash."""
    starts = np.flatnonzero(np.diff(rows.hashes, prepend=rows.hashes[:1] + np.uint64(1)))
    counts = np.diff(np.append(starts, len(rows)))
    return rows, counts[np.newaxis, :]


def _names(number: int, function: str) -> list[str]:
    return [f"#{number}.{part}" for part in FUNCTIONS[function].parts]
