"""Messages in this process: by hand what Spark does with rows before a level."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.driver.ports import Step
from watersmeet.driver.topology import WORD, promises_name
from watersmeet.model.plan import Column, Input, Key, quoted
from watersmeet.operators.hashing import xxhash64
from watersmeet.operators.promises.patterns import KEY
from watersmeet.runners.local.rows import as_structs, named_rows, promise_messages, with_slots
from watersmeet.site.layout import ROW, Layout, slot_name
from watersmeet.site.messages import BODY, HASH, SITE, TAG, Kind, kinds_of, tag_of
from watersmeet.state.groups import Hashes, group_of

Tables = Mapping[str, pa.Table]
Evaluate = Callable[[pa.Table, str], pa.Array]
"""Evaluates SQL over rows whose streams are struct columns."""

HashKeys = Callable[[Sequence[pa.Array], Sequence[pa.DataType]], Hashes]


def hash_whole_numbers(keys: Sequence[pa.Array], types: Sequence[pa.DataType]) -> Hashes:
    """Spark's hash, of the keys that can be hashed without Spark."""
    return xxhash64([key.cast(kind) for key, kind in zip(keys, types, strict=True)])


@dataclass(frozen=True)
class Messages:
    """Evaluates, hashes and routes rows."""

    evaluate: Evaluate
    hash_keys: HashKeys

    def first(self, step: Step[Tables]) -> pa.Table:
        """The messages of a batch, with the punctuations that it brings."""
        layout, parts = step.topology.incoming(0), []
        for tag, source in step.topology.stream_tags().items():
            stream = step.manifest.plan.stream(source.name)
            rows = as_structs({source.name: (step.batch or {})[source.name]})
            passes = self.passes(rows, stream.filters)
            messages = self._messages(step, rows, tag, source, layout, passes, keeps_all=stream.is_checked)
            parts.append(_shared(step, tag, messages))
        parts += [self._promises(step, tag, layout) for tag in step.topology.promise_tags()]
        return pa.concat_tables(parts).drop([BODY])

    def _promises(self, step: Step[Tables], tag: int, layout: Layout) -> pa.Table:
        """Punctuations, in their normal form, as messages for the first site."""
        stream = step.topology.promise_tags()[tag]
        rows = (step.batch or {})[promises_name(stream.name)].combine_chunks()
        structs, values = as_structs({stream.name: rows}), {}
        for column, slot in layout.columns[tag]:
            if column.field.endswith(WORD):
                values[slot] = self._word(structs, Column(stream.name, column.field.removesuffix(WORD)))
            elif column.field == KEY:
                values[slot] = self._hashed(structs, step.topology.promised_key(stream))
            else:
                values[slot] = rows.column(column.field).combine_chunks()
        return promise_messages(tag, len(rows), layout, values)

    def _hashed(self, rows: pa.Table, parts: Sequence[Key]) -> pa.Array:
        """The hashes of keys, null where a part is."""
        if not parts:
            return pa.nulls(len(rows), pa.int64())
        keys = [self.evaluate(rows, part.sql) for part in parts]
        whole = reduce(pc.and_, (key.is_valid() for key in keys))
        hashes = np.zeros(len(whole), dtype=np.uint64)
        chosen = whole.to_numpy(zero_copy_only=False).astype(np.bool_)
        hashes[chosen] = self.hash_keys([key.filter(whole) for key in keys], [part.type for part in parts])
        return pa.array(hashes.view(np.int64), mask=~chosen)

    def _word(self, rows: pa.Table, column: Column) -> pa.Array:
        values = self.evaluate(rows, column.sql)
        hashes = self.hash_keys([values], [values.type]) if len(values) else np.empty(0, np.uint64)
        return pa.array(hashes.view(np.int64))

    def following(self, step: Step[Tables], produced: pa.Table, level: int) -> pa.Table:
        """What a level has produced, as messages for the next."""
        if step.topology.packs(level):
            return produced
        above, below = step.topology.incoming(level), step.topology.outgoing(level - 1)
        tags = produced.column(TAG).to_numpy()
        pointers = produced.filter(pa.array(kinds_of(tags) != Kind.ROW))
        parts = [with_slots(pointers, above)]
        for tag, (operator, source) in step.topology.fed_by_level(level - 1).items():
            mine = produced.filter(pa.array(tags == tag))
            rows = named_rows(mine, below, tag, operator)
            messages = self._messages(step, rows, tag, source, above, self.passes(rows, operator.filters))
            parts += _to_all_sites(step, tag, _shared(step, tag, messages))
        return pa.concat_tables(parts)

    def _messages(
        self,
        step: Step[Tables],
        rows: pa.Table,
        tag: int,
        source: Input,
        layout: Layout,
        passes: pa.Array,
        *,
        keeps_all: bool = False,
    ) -> pa.Table:
        """Hash, drop or mark what joins nothing, route, and put the columns into their slots."""
        keys = [self.evaluate(rows, key.sql) for key in source.keys]
        joins = reduce(pc.and_, (key.is_valid() for key in keys), passes)
        if not keeps_all:
            kept = passes if step.topology.is_preserved(tag) else joins
            rows, keys = rows.filter(kept), [key.filter(kept) for key in keys]
            joins, passes = joins.filter(kept), passes.filter(kept)
        is_joined = joins.to_numpy(zero_copy_only=False).astype(np.bool_)
        is_unmatched = passes.to_numpy(zero_copy_only=False).astype(np.bool_) & step.topology.is_preserved(tag)
        others = np.where(is_unmatched, tag_of(Kind.UNMATCHED, tag), tag_of(Kind.UNJOINED, tag))
        hashes = np.zeros(len(is_joined), dtype=np.uint64)
        hashes[is_joined] = self.hash_keys([key.filter(joins) for key in keys], [key.type for key in source.keys])
        routing = np.array(step.manifest.operators[step.topology.inputs[tag][0].id].routing, dtype=np.int32)
        columns = {
            SITE: pa.array(routing[group_of(hashes, step.manifest.groups)]),
            TAG: pa.array(np.where(is_joined, tag, others).astype(np.int32)),
            BODY: pa.nulls(len(hashes), pa.binary()),
            HASH: pa.array(hashes.view(np.int64)),
        }
        values = {slot: self._value(rows, column, source, keys) for column, slot in layout.columns[tag]}
        for slot, kind in enumerate(layout.slots):
            columns[slot_name(slot)] = values[slot].cast(kind) if slot in values else pa.nulls(len(hashes), kind)
        return pa.table(columns)

    def _value(self, rows: pa.Table, column: Column, source: Input, keys: Sequence[pa.Array]) -> pa.Array:
        computed = dict(source.computed)
        for key, values in zip(source.keys, keys, strict=True):
            if key.column == column and column.field.startswith("#") and column not in computed:
                return values
        if column.field.endswith(WORD):
            return self._word(rows, Column(column.stream, column.field.removesuffix(WORD)))
        if column.field == ROW:
            return self.evaluate(rows, f"TO_JSON({quoted(column.stream)})").cast(pa.string())
        return self.evaluate(rows, computed.get(column, column.sql))

    def passes(self, rows: pa.Table, filters: Sequence[str]) -> pa.Array:
        """Which rows filters let pass."""
        passed = (self.evaluate(rows, condition).fill_null(fill_value=False) for condition in filters)
        return reduce(pc.and_, passed, pa.array(np.ones(len(rows), dtype=np.bool_)))


def _shared(step: Step[Tables], tag: int, messages: pa.Table) -> pa.Table:
    """The messages, with those of split groups dealt out, or with copies of them if they are joined at this level."""
    operator, source = step.topology.inputs[tag]
    is_copied = source.operator is not None or operator.level == 0
    sites, index = messages.column(SITE).to_numpy().copy(), np.arange(len(messages))
    own = group_of(messages.column(HASH).to_numpy().view(np.uint64), step.manifest.groups)
    more = [index]
    for split in step.manifest.operators[operator.id].splits:
        mine = np.flatnonzero(own == split.group)
        if split.input == source.name:
            sites[mine] = np.array(split.sites)[mine % len(split.sites)]
        elif is_copied:
            more += [mine] * (len(split.sites) - 1)
            sites = np.concatenate([sites, *(np.full(len(mine), site, np.int32) for site in split.sites[1:])])
    shared = messages.take(pa.array(np.concatenate(more)))
    return shared.set_column(shared.column_names.index(SITE), SITE, pa.array(sites.astype(np.int32)))


def _to_all_sites(step: Step[Tables], tag: int, messages: pa.Table) -> list[pa.Table]:
    """The messages, with a copy for every site that stores any rows if they go everywhere."""
    if not step.topology.specs[tag].go_everywhere:
        return [messages]
    sites = sorted(set(step.manifest.operators[step.topology.inputs[tag][0].id].routing))
    copies = [pa.array(np.full(len(messages), site, dtype=np.int32)) for site in sites]
    return [messages.set_column(messages.column_names.index(SITE), SITE, site) for site in copies]
