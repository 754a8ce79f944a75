"""Promises at a site: reading those there are, and writing those that an epoch brings.

Punctuations come as messages in a normal form (`watersmeet.operators.promises.patterns`): a shape, and for each column
of the stream that punctuations name, the value or the low bound, the high bound, and the word. One that names nothing
says that the stream has ended; one that only says that no row comes before a time, is a watermark. All others go into
the stores of the stream, and hold from the end of the epoch on. Of these, ranges of time that continue the watermark
move it on, whichever came first: all that are promised of a stream come to one site.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.ids import InputName, RunId
from watersmeet.model.plan import Column
from watersmeet.operators.promises.patterns import KEY, SHAPE, PatternColumn, Patterns, pattern_schema, shape_of
from watersmeet.operators.promises.ranges import LEAST, LONG_AGO, MOST, SINCE, Numbers, Ranges, numbers_of
from watersmeet.operators.promises.sets import (
    InputKeys,
    KeyPatterns,
    KeyRanges,
    RangesOfColumn,
    StreamKeys,
    pattern_columns,
)
from watersmeet.operators.promises.stores import PROMISES, Store
from watersmeet.site.layout import Layout, slot_name
from watersmeet.site.promise_spec import InputKeysSpec, PromiseMerge, PunctuatedStream
from watersmeet.state.changes import AddPromises, MergePromises
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows
from watersmeet.state.runs import RunName, open_run, write_run
from watersmeet.storage.base import Storage

OPEN_MOST = 256
_open: OrderedDict[tuple[str, str], Ranges | Patterns] = OrderedDict()
_changing = Lock()


@dataclass(frozen=True)
class PromiseReader:
    """Opens the stores of all streams."""

    storage: Storage
    stores: Mapping[InputName, tuple[Store, tuple[RunFile, ...]]]

    def ranges(self, name: InputName) -> list[Ranges]:
        """The ranges of a store."""
        return [found for run in self.stores[name][1] if isinstance(found := self._opened(name, run), Ranges)]

    def patterns(self, name: InputName) -> list[Patterns]:
        """The patterns of a store."""
        return [found for run in self.stores[name][1] if isinstance(found := self._opened(name, run), Patterns)]

    def keys(self, spec: InputKeysSpec) -> InputKeys:
        """Which keys an input brings no more rows for."""
        return InputKeys(
            tuple(
                StreamKeys(
                    each.ended,
                    tuple(KeyRanges(place, self.ranges(name), kind) for place, name, kind in each.ranges),
                    tuple(
                        KeyPatterns(
                            self.patterns(own.store),
                            own.columns,
                            own.shape,
                            own.rehash,
                            each.hash_decides,
                            own.time,
                            own.length,
                        )
                        for own in each.patterns
                    ),
                    each.passed,
                )
                for each in spec.streams
            ),
            spec.is_whole,
        )

    def merged(self, order: PromiseMerge, run_id: RunId, groups: int) -> MergePromises:
        """Carry out an order."""
        store = self.stores[order.store][0]
        runs = [run for run in self.stores[order.store][1] if run.id in order.runs]
        opened = [self._opened(order.store, run) for run in runs]
        if store.is_ranges:
            ranges = [each for each in opened if isinstance(each, Ranges)]
            rows = _plain(_after(order, Ranges.merged(ranges, order.told_by, order.apart).rows))
        else:
            parts = [each.rows.rows for each in opened if isinstance(each, Patterns)]
            together = _after(order, pa.Table.from_batches(parts).combine_chunks().to_batches()[0])
            rows = Patterns.of(together, _columns(store), order.told_by, order.apart).rows
        merged = write_run(self.storage, _run_name(run_id, store), rows, groups)
        return MergePromises(tuple(run.id for run in runs), merged)

    def _opened(self, name: InputName, run: RunFile) -> Ranges | Patterns:
        """A run that was opened before is at hand, with what was found out about it."""
        key = (self.storage.url, run.path)
        with _changing:
            if key in _open:
                _open.move_to_end(key)
                return _open[key]
        rows, store = open_run(self.storage, run), self.stores[name][0]
        found = Ranges(rows.rows) if store.is_ranges else Patterns(rows, _columns(store))
        with _changing:
            _open[key] = found
            while len(_open) > OPEN_MOST:
                _open.popitem(last=False)
        return found


@dataclass
class PromiseWriter:
    """Collects the promises of an epoch that came to a site, and writes them; ``reader`` has those from before."""

    reader: PromiseReader
    groups: int
    since: int
    incoming: Layout
    streams: Mapping[int, PunctuatedStream]
    ended: set[str] = field(default_factory=set)
    until: dict[str, int] = field(default_factory=dict)
    _ranges: dict[Store, list[Ranges]] = field(default_factory=dict)
    _patterns: dict[Store, list[pa.RecordBatch]] = field(default_factory=dict)

    def take(self, tag: int, messages: pa.RecordBatch) -> None:
        """Take punctuations of a stream, in their normal form."""
        stream = self.streams[tag]
        values = {column.field: messages.column(slot_name(slot)) for column, slot in self.incoming.columns[tag]}
        shapes = values[SHAPE].to_numpy()
        if (shapes == 0).any():
            self.ended.add(stream.name)
        left = shapes != 0
        for number, store in stream.ranges:
            column = stream.columns[number]
            is_value, is_range = shapes == shape_of([number]), shapes == shape_of([], [number])
            left &= ~(is_value | is_range)
            self._take_values(store, values[column.field].filter(pa.array(is_value)))
            lows, highs = values[column.field], values[f"{column.field}#until"]
            chosen = pa.array(is_range)
            self._take_ranges(stream, store, lows.filter(chosen), highs.filter(chosen))
        if stream.patterns is not None and left.any():
            chosen = pa.array(np.flatnonzero(left))
            self._take_patterns(stream.patterns, {name: column.take(chosen) for name, column in values.items()})

    def take_unique(
        self, store: Store, columns: Sequence[pa.Array], words: Mapping[Column, pa.Array], keys: pa.Array
    ) -> None:
        """Take rows of a stream: none that is like them comes after this epoch."""
        if store.is_ranges:
            self._take_values(store, columns[0].drop_null())
            return
        if len(columns) == 1:  # rows that join nothing have no hash of a key, but that of the column mostly is the same
            keys = pc.coalesce(keys, words[store.columns[0]])
        values: dict[str, pa.Array] = {SHAPE: pa.repeat(shape_of(range(len(columns))), len(keys)), KEY: keys}
        for column, own in zip(store.columns, columns, strict=True):
            values[column.field] = own
            values[f"{column.field}#until"] = pa.nulls(len(own), own.type)
            if column in words:
                values[f"{column.field}#word"] = words[column]
        self._take_patterns(store, values)

    def close(self, name: Callable[[], RunId]) -> list[AddPromises]:
        """Write what came; gives the changes."""
        self._move_on()
        written = [(store, _plain(Ranges.merged(parts).rows)) for store, parts in self._ranges.items()]
        for store, parts in self._patterns.items():
            together = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
            written.append((store, Patterns.of(together, _columns(store)).rows))
        return [
            AddPromises(store.stream, write_run(self.reader.storage, _run_name(name(), store), rows, self.groups))
            for store, rows in written
            if len(rows)
        ]

    def _move_on(self) -> None:
        """Ranges of a stream's time that continue its watermark are part of it, whichever came first."""
        for stream in self.streams.values():
            own = [store for _, store in stream.ranges if stream.time is not None and store.columns == (stream.time,)]
            known = (stream.until, self.until.get(stream.name))
            before = max((time for time in known if time is not None), default=None)
            if before is None or not (stream.name in self.until or any(store in self._ranges for store in own)):
                continue
            stored = [each for store in own for each in (*self.reader.ranges(store.name), *self._ranges.get(store, ()))]
            until = Ranges.reached(stored, before)
            if until == MOST:
                self.ended.add(stream.name)
            else:
                self.until[stream.name] = until

    def _take_values(self, store: Store, values: pa.Array) -> None:
        if len(values):
            numbers = np.unique(numbers_of(values))
            self._add(store, numbers, numbers)

    def _take_ranges(self, stream: PunctuatedStream, store: Store, lows: pa.Array, highs: pa.Array) -> None:
        if not len(lows):
            return
        first = np.where(lows.is_null(), LEAST, numbers_of(lows))
        until = numbers_of(highs)
        last = np.where(highs.is_null(), MOST, until - (until > LEAST))
        is_any = (first <= last) & (highs.is_null().to_numpy(zero_copy_only=False) | (until > LEAST))
        if stream.time is not None and store.columns == (stream.time,):  # no row before a time
            endless = lows.is_null().to_numpy(zero_copy_only=False)
            if (endless & highs.is_null().to_numpy(zero_copy_only=False)).any():
                self.ended.add(stream.name)
            bounded = until[endless & highs.is_valid().to_numpy(zero_copy_only=False)]
            if len(bounded):
                self.until[stream.name] = max(int(bounded.max()), self.until.get(stream.name, LEAST))
            is_any &= ~endless
        self._add(store, first[is_any], last[is_any])

    def _add(self, store: Store, first: Numbers, last: Numbers) -> None:
        if len(first):
            known = self._ranges.setdefault(store, [])
            known.append(Ranges.of(first, last, np.full(len(first), self.since)))
            if len(known) > OPEN_MOST:
                self._ranges[store] = [Ranges.merged(known)]

    def _take_patterns(self, store: Store, values: Mapping[str, pa.Array]) -> None:
        count = len(values[SHAPE])
        columns = {SHAPE: values[SHAPE], KEY: values[KEY], SINCE: pa.repeat(self.since, count)}
        types = dict(zip((column.name for column in store.columns), store.types, strict=True))
        schema = pattern_schema(types)
        for column, kind in zip(store.columns, store.types, strict=True):
            own, word = values[column.field], f"{column.field}#word"
            columns[column.name] = own.cast(kind)
            columns[f"{column.name}#until"] = values[f"{column.field}#until"].cast(kind)
            columns[f"{column.name}#word"] = values[word] if word in values else pa.array(numbers_of(own))
        arrays = [columns[each.name].cast(each.type) for each in schema]
        self._patterns.setdefault(store, []).append(pa.RecordBatch.from_arrays(arrays, schema=schema))


def ranges_of(reader: PromiseReader, stores: Sequence[InputName]) -> list[RangesOfColumn]:
    """What is promised of columns, of each one that is counted."""
    own = [(reader.stores[name][0], name) for name in stores]
    return [RangesOfColumn(store.columns[0].name, reader.ranges(name)) for store, name in own if store.is_ranges]


def patterns_of(reader: PromiseReader, stores: Sequence[InputName]) -> list[Patterns]:
    """What is promised by patterns."""
    return [each for name in stores if not reader.stores[name][0].is_ranges for each in reader.patterns(name)]


def _run_name(run_id: RunId, store: Store) -> RunName:
    return RunName(run_id, PROMISES, store.name, (SINCE,))


def _after(order: PromiseMerge, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Those that are not forgotten; of those whose version nobody asks for any more, all are kept."""
    since = rows.column(SINCE)
    return rows.filter(pc.or_(pc.greater(since, order.forgotten), pc.equal(since, LONG_AGO)))


def _columns(store: Store) -> tuple[PatternColumn, ...]:
    return pattern_columns([column.name for column in store.columns])


def _plain(rows: pa.RecordBatch) -> SortedRows:
    """Rows that are in their own order, and have no hash."""
    return SortedRows(np.full(len(rows), LONG_AGO, dtype=np.uint64), rows)
