"""All streams as one streaming DataFrame: the input of every epoch.

Each row has the number of its stream, and its columns in slots that all streams share. Filters and projections are
evaluated here, by Spark; of a stream with event times all rows go on, with a mark where a filter holds them back. Keys
are not evaluated here: which column a row is joined on is the plan's business, and the plan may change while the
streaming query goes on. They are hashed in the select of each batch (`levels`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.driver.topology import PROMISES_OF, WORD, Topology, promises_name
from watersmeet.model.plan import Column, Key, Stream, quoted
from watersmeet.operators.promises.patterns import KEY
from watersmeet.runners.spark.schemas import null
from watersmeet.runners.spark.split import all_of, expression, hash_of, is_whole
from watersmeet.site.layout import ROW, Layout, pack, slot_name

STREAM = "#stream"

JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How a row is written as JSON: whole, and the same in every session."""


@dataclass(frozen=True)
class UnionLayout:
    """The streams by number, and the slots their columns are in."""

    streams: tuple[str, ...]
    layout: Layout

    @classmethod
    def of(cls, topology: Topology) -> "UnionLayout":
        """The layout of a query's streams, which is the same for all of its plans."""
        columns = topology.stream_columns()
        names = [stream.name for stream in topology.plan.streams if stream.name in columns]
        flags = {name: (passes(name),) if holds_back(topology.plan.stream(name)) else () for name in names}
        told = {name: (*columns[name], *flags[name]) for name in names}
        told |= {promises_name(each.name): topology.promise_columns(each) for each in topology.promise_tags().values()}
        kinds = {column: pa.bool_() for flag in flags.values() for column in flag}
        types = topology.types_of(column for some in told.values() for column in some if column not in kinds)
        return cls(tuple(told), pack(dict(enumerate(told.values())), {**types, **kinds}))

    def union(self, topology: Topology, frames: Mapping[str, DataFrame]) -> DataFrame:
        """All streams as one, with their punctuations."""
        first, *others = (self._part(topology, number, frames[name]) for number, name in enumerate(self.streams))
        for part in others:
            first = first.union(part)
        return first

    def _part(self, topology: Topology, number: int, frame: DataFrame) -> DataFrame:
        name, is_promise = self.streams[number].removesuffix(PROMISES_OF), PROMISES_OF in self.streams[number]
        frame, stream = frame.alias(name), topology.plan.stream(name)
        for condition in () if holds_back(stream) or is_promise else stream.filters:
            frame = frame.where(condition)
        keys = topology.promised_key(stream) if is_promise else ()
        value = partial(_promise_value, keys=keys) if is_promise else partial(_value, stream=stream)
        own = {slot: value(column) for column, slot in self.layout.columns[number]}
        slots = [
            own[slot].alias(slot_name(slot)) if slot in own else null(kind, slot_name(slot))
            for slot, kind in enumerate(self.layout.slots)
        ]
        return frame.select(F.lit(number).alias(STREAM), *slots)


def passes(stream: str) -> Column:
    """The column that tells whether a stream's filters let a row pass."""
    return Column(stream, "#passes")


def holds_back(stream: Stream) -> bool:
    """Whether rows that filters do not let pass are only marked: they still tell how far the stream's time has come."""
    return stream.is_checked and bool(stream.filters)


def _value(column: Column, stream: Stream) -> SparkColumn:
    if column == passes(stream.name):
        return F.coalesce(all_of([F.expr(condition) for condition in stream.filters]), F.lit(False))
    if column.field.endswith(WORD):
        return _word(Column(column.stream, column.field.removesuffix(WORD)))
    if column.field == ROW:
        own = (expression(f"{quoted(stream.name)}.{quoted(name)}").alias(name) for name in stream.schema.names)
        return F.to_json(F.struct(*own), JSON)
    return expression(column.sql)


def _promise_value(column: Column, keys: Sequence[Key]) -> SparkColumn:
    """A column of a stream's punctuations, whose values have the names that the stream's columns have."""
    stream = column.stream.removesuffix(PROMISES_OF)
    if column.field == KEY:
        parts = [key.sql for key in keys]
        return F.when(is_whole(parts), hash_of(parts)) if parts else F.lit(None).cast("bigint")
    if column.field.endswith(WORD):
        return _word(Column(stream, column.field.removesuffix(WORD)))
    return expression(Column(stream, column.field).sql)


def _word(column: Column) -> SparkColumn:
    """What is hashed of a column; of a null, nothing."""
    return F.when(expression(column.sql).isNotNull(), hash_of([column.sql]))
