"""What site tasks need to know of punctuations: the stores, their sources, and the keys that each input promised.

A key of an operator is promised by an input once every stream that the input is made of has promised it. For that, a
stream must have a column that is a part of the key, or equal to one by the joins below. Results that an operator below
misses may still come: until they are cleaned, nothing is promised by what it gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from watersmeet.adapt.merging import choice
from watersmeet.driver.topology import Topology
from watersmeet.model.ids import InputName, SiteId
from watersmeet.model.plan import Column, Input, Key, Operator, Stream
from watersmeet.operators.hashing import is_hashable
from watersmeet.operators.promises.patterns import shape_of
from watersmeet.operators.promises.ranges import LONG_AGO, NEVER, SINCE, is_countable
from watersmeet.operators.promises.stores import Store, stores_of
from watersmeet.planning.names import COMPUTED
from watersmeet.planning.types import with_its_own_zero
from watersmeet.site.promise_spec import (
    InputKeysSpec,
    KeyPatternsSpec,
    OtherInput,
    PromiseMerge,
    PunctuatedStream,
    PurgeRule,
    StreamKeysSpec,
)
from watersmeet.state.decided import newest_promise
from watersmeet.state.inputs import streams_of
from watersmeet.state.manifest import UNDECIDED, Manifest, RunFile
from watersmeet.state.passing import is_passed_on
from watersmeet.state.promises import asked_length, length_by, limit_by
from watersmeet.state.vectors import Vector

StoreRuns = Mapping[InputName, tuple[Store, tuple[RunFile, ...]]]


@dataclass(frozen=True)
class KeyPromises:
    """The effect of a manifest's promises of streams on the keys of its operators.

    Where some are forgotten later, those of different versions are told apart.
    """

    manifest: Manifest
    topology: Topology
    tells_apart: bool = False

    @cached_property
    def stores(self) -> StoreRuns:
        """The stores of all streams, with what they hold."""
        return {
            store.name: (store, self.manifest.promises.get(store.name, ()))
            for stream in self.manifest.plan.streams
            for store in stores_of(self.manifest.plan, stream)
        }

    def punctuated(self) -> dict[int, PunctuatedStream]:
        """The streams of punctuations, by the tag of their messages."""
        return {tag: self._punctuated(stream) for tag, stream in self.topology.promise_tags().items()}

    def of_input(self, operator: Operator, source: Input, length: int | None) -> InputKeysSpec | None:
        """How an input promises the keys of its operator; None where it cannot.

        Some are promised before a time only: to rows that wait until the ``length`` after what their last column tells.
        """
        if not self.is_any:
            return None
        streams = [self._of_stream(operator, source, stream, length) for stream in self._streams(source)]
        known = [each for each in streams if each is not None]
        is_whole = len(known) == len(streams)
        return InputKeysSpec(tuple(known), is_whole) if is_whole or any(each.passed for each in known) else None

    def of_whole_input(self, operator: Operator, source: Input, length: int | None) -> InputKeysSpec | None:
        """The same, of an input that has promised any keys, and of which no operator below misses anything."""
        is_any = newest_promise(self.manifest, operator, source) > UNDECIDED
        return self.of_input(operator, source, length) if is_any else None

    def purge(self, operator: Operator, source: Input) -> PurgeRule | None:
        """Which rows of an input can go because of promised keys; None where none can."""
        if not self.is_any or operator.kind == "ring":
            return None
        others = [each for each in operator.inputs if each is not source]
        asked = others[0] if operator.kind == "outer" else None
        promising = [self.of_whole_input(operator, each, length_by(source, each)) for each in (others or [source])]
        if operator.kind == "join":
            limits = [limit_by(self.manifest, operator, source, each) for each in others]
            pairs = [OtherInput(keys, limit) for keys, limit in zip(promising, limits, strict=True)]
            is_useful = any(promising) and all(each.keys or each.limit is not None for each in pairs)
            return PurgeRule(tuple(pairs)) if is_useful else None
        is_asked = asked is not None and _is_preserved(operator, asked)
        length = None if asked is None else asked_length(self.manifest, source, asked)
        own = self.of_whole_input(operator, source, length) if is_asked else None
        if promising[0] is None:
            return None
        return PurgeRule(
            (OtherInput(promising[0]),),
            own,
            self.decided(operator, source) if _is_preserved(operator, source) else None,
            self.decided(operator, asked) if asked is not None and is_asked else None,
            spares_arriving=operator.kind == "aggregate",
        )

    def decided(self, operator: Operator, source: Input) -> Vector:
        """By group, up to which version keys were promised for which rows of an input are decided."""
        known = self.manifest.operators[operator.id].decided_keys.get(source.name)
        return known or Vector.of([UNDECIDED] * self.manifest.groups)

    def merges(self) -> dict[SiteId, tuple[PromiseMerge, ...]]:
        """The merges of stores that have many runs, dealt out to the sites."""
        orders: dict[SiteId, list[PromiseMerge]] = {}
        for number, (name, (store, runs)) in enumerate(self.stores.items()):
            forgotten = self.manifest.forgotten.get(store.stream, LONG_AGO)
            chosen = [run.id for run in runs if _oldest(run) <= forgotten]
            if not chosen and len(runs) >= choice.FAN_IN:
                chosen = choice.choose({run.id: run.bytes for run in runs})
            if chosen:
                site = SiteId((self.manifest.version + number) % self.manifest.sites)
                is_apart = self.tells_apart or is_passed_on(self.manifest, store.stream)
                apart = tuple(version for version, _ in self.manifest.marks.get(store.stream, ())) if is_apart else ()
                order = PromiseMerge(name, tuple(chosen), self._told_by(), apart, forgotten)
                orders.setdefault(site, []).append(order)
        return {site: tuple(some) for site, some in orders.items()}

    @cached_property
    def is_any(self) -> bool:
        """Whether any stream has promised values, or has ended."""
        return bool(self.manifest.ended or any(stream.has_promises for stream in self.manifest.plan.streams))

    def _told_by(self) -> int:
        """The version up to which nobody asks any more which promises are new."""
        preserved = [(o, o.inputs[number]) for o in self.manifest.plan.operators for number in o.preserved]
        known = [int(self.decided(operator, source).array.min()) for operator, source in preserved]
        return max(0, min(known, default=self.manifest.version))

    def _punctuated(self, stream: Stream) -> PunctuatedStream:
        columns = stream.punctuated or ()
        own = [store for store in stores_of(self.manifest.plan, stream) if not store.is_unique]
        ranges = tuple((columns.index(store.columns[0]), store) for store in own if store.is_ranges)
        patterns = next((store for store in own if not store.is_ranges), None)
        until = self.manifest.promised_until.get(stream.name)
        return PunctuatedStream(stream.name, columns, stream.time, ranges, patterns, until)

    def _streams(self, source: Input) -> list[Stream]:
        """The streams that an input is made of."""
        names = streams_of(self.manifest, source)
        return [stream for stream in self.manifest.plan.streams if stream.name in names]

    def _of_stream(
        self, operator: Operator, source: Input, stream: Stream, length: int | None
    ) -> StreamKeysSpec | None:
        """How a stream promises the keys of an operator; None where it never does."""
        ended = self.manifest.ended.get(stream.name)
        ended = self.manifest.version if ended is None and self.manifest.has_ended else ended
        columns = [self._column_of(stream, column) for column in self._sources(operator, source)]
        ranges, patterns = [], []
        if operator.kind == "aggregate":  # a group ends by the time of one stream
            length = 0 if operator.final is not None and operator.final.stream == stream.name else None
        for store in stores_of(self.manifest.plan, stream):
            if store.is_ranges:
                column = store.columns[0]
                ranges += [
                    (place, store.name, self._hashed_type(operator, source))
                    for place, own in enumerate(columns)
                    if own == column and is_countable(_type(operator, source, place, self.manifest.plan.types))
                ]
            elif any(column in store.columns for column in columns):
                names = tuple(column.name if column in store.columns else None for column in columns)
                rehash, is_whole = self._rehash(operator, source, stream), _holds(store, columns)
                shape = _shape(store, columns) if rehash is not None and is_whole else None
                if shape is not None or not store.is_unique or {*store.columns} <= {*columns}:
                    time = _time(store, stream, columns)
                    patterns.append(KeyPatternsSpec(store.name, names, shape, bool(rehash), time, length))
        if ended is None and not ranges and not patterns:
            return None
        passed = self.manifest.operators[operator.id].passed.get(stream.name, ()) if source.operator else ()
        return StreamKeysSpec(ended, tuple(ranges), tuple(patterns), operator.hash_decides, passed)

    def _column_of(self, stream: Stream, column: Column | None) -> Column | None:
        """The stream's own column that is equal to another by the joins."""
        return next((each for each in self._equal.get(column, {column}) if each and each.stream == stream.name), None)

    def _sources(self, operator: Operator, source: Input) -> tuple[Column | None, ...]:
        """The streams' columns that are the parts of a key."""
        if operator.kind == "aggregate":
            return tuple(
                self._zeroed.get(column) if column.field.startswith(COMPUTED) else column
                for column in source.key_values
            )
        return tuple(key.source for key in source.keys)

    @cached_property
    def _zeroed(self) -> dict[Column, Column]:
        """The columns that groups have in the place of a stream's, which may be -0.0."""
        plan = self.manifest.plan
        plain = {column.sql: column for column in plan.types if not column.field.startswith(COMPUTED)}
        computed = (pair for each in plan.operators for source in each.inputs for pair in source.computed)
        own = ((column, plain.get(with_its_own_zero(sql))) for column, sql in computed)
        return {column: found for column, found in own if found is not None}

    @cached_property
    def _equal(self) -> dict[Column | None, set[Column | None]]:
        """All columns that joins make equal to a column."""
        classes: dict[Column | None, set[Column | None]] = {}
        for operator in self.manifest.plan.operators:
            for keys in zip(*(each.keys for each in operator.inputs), strict=True) if operator.kind == "join" else ():
                own = {key.source for key in keys if key.source}
                merged = own.union(*(classes.get(each, set()) for each in own))
                classes.update(dict.fromkeys(merged, merged))
        return classes

    def _rehash(self, operator: Operator, source: Input, stream: Stream) -> bool | None:
        """Whether a key's hash is that of the hash a stream's punctuations have; None where they differ otherwise."""
        if source.stream:
            return False
        below, own = next(
            (each, part) for each in self.manifest.plan.operators for part in each.inputs if part.stream == stream.name
        )
        if operator.kind == "aggregate":
            values = [self.manifest.plan.types[column] for column in source.key_values]
            is_same = len(own.keys) == len(values) == 1 and own.keys[0].type == values[0]
            return True if is_same and below.kind != "aggregate" else None
        here, there = self._sources(operator, source), self._sources(below, own)
        is_same = [key.type for key in source.keys] == [key.type for key in own.keys]
        places = [self._column_of(stream, column) for column in here]
        return False if is_same and places == list(there) else None

    def _hashed_type(self, operator: Operator, source: Input) -> pa.DataType | None:
        """The type of the only part of a key, if its hash can be computed here."""
        keys = source.keys
        is_plain = operator.kind != "aggregate" and len(keys) == 1 and is_hashable(keys[0].type)
        return keys[0].type if is_plain and self.topology.parcels else None


def _oldest(run: RunFile) -> int:
    """The oldest version of the promises of a run; of those that nobody tells apart, any."""
    bounds = run.bounds.get(SINCE)
    return NEVER if bounds is None or not isinstance(bounds.least, int) else bounds.least or NEVER


def _is_preserved(operator: Operator, source: Input) -> bool:
    return any(operator.inputs[number] is source for number in operator.preserved)


def _holds(store: Store, columns: Sequence[Column | None]) -> bool:
    """Whether patterns of a store may be of some columns, all of which are known; unique ones are of all it has."""
    return set(columns) == {*store.columns} if store.is_unique else set(columns) <= {*store.columns}


def _time(store: Store, stream: Stream, columns: Sequence[Column | None]) -> str | None:
    """The column of patterns that may say before which time they hold: the stream's own, if it is no part of a key."""
    is_one = not store.is_unique and stream.time in store.columns and stream.time not in columns
    return stream.time.name if is_one and stream.time is not None else None


def _shape(store: Store, columns: Sequence[Column | None]) -> int:
    """The shape of patterns that have a value for each of some columns."""
    return shape_of([store.columns.index(column) for column in dict.fromkeys(columns) if column is not None])


def _type(operator: Operator, source: Input, place: int, types: Mapping[Column, pa.DataType]) -> pa.DataType:
    keys: tuple[Key, ...] = source.keys
    return types[source.key_values[place]] if operator.kind == "aggregate" else keys[place].type
