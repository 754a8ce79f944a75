"""Rows and messages as tables, for steps in this process: streams as struct columns, and slots."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from watersmeet.model.plan import Operator
from watersmeet.site.layout import Layout, slot_name
from watersmeet.site.messages import BODY, HASH, SITE, TAG, Kind, tag_of
from watersmeet.site.spec import LevelSpec
from watersmeet.site.travel import HEAD


def as_structs(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Streams as struct columns, the way expressions see them."""
    return pa.table({name: table.to_struct_array() for name, table in tables.items()})


def no_messages(spec: LevelSpec) -> pa.Table:
    """None, with the columns of a level's messages."""
    slots = [pa.field(slot_name(slot), kind) for slot, kind in enumerate(spec.incoming.slots)]
    return pa.schema([*HEAD, pa.field(HASH, pa.int64()), *slots]).empty_table()


def promise_messages(tag: int, count: int, layout: Layout, values: Mapping[int, pa.Array]) -> pa.Table:
    """Punctuations as messages, whose columns are in slots."""
    columns = {
        SITE: pa.array(np.zeros(count, dtype=np.int32)),
        TAG: pa.array(np.full(count, tag_of(Kind.PROMISE, tag), dtype=np.int32)),
        BODY: pa.nulls(count, pa.binary()),
        HASH: pa.array(np.zeros(count, dtype=np.int64)),
    }
    for slot, kind in enumerate(layout.slots):
        columns[slot_name(slot)] = values[slot].cast(kind) if slot in values else pa.nulls(count, kind)
    return pa.table(columns)


def with_slots(pointers: pa.Table, layout: Layout) -> pa.Table:
    """Pointers beside rows: their slots are empty."""
    count = pointers.num_rows
    empty = {slot_name(slot): pa.nulls(count, kind) for slot, kind in enumerate(layout.slots)}
    head = {name: pointers.column(name) for name in HEAD.names}
    return pa.table({**head, HASH: pa.nulls(count, pa.int64()), **empty})


def named_rows(rows: pa.Table, layout: Layout, tag: int, operator: Operator) -> pa.Table:
    """Slots under their columns' names."""
    by_stream: dict[str, dict[str, pa.ChunkedArray]] = {}
    slots = dict(layout.columns[tag])
    for column in operator.output:
        by_stream.setdefault(column.stream, {})[column.field] = rows.column(slot_name(slots[column]))
    return as_structs({stream: pa.table(fields) for stream, fields in by_stream.items()})
