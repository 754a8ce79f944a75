"""The tables of a query file, as values: which keys each may have, and of which types."""

from typing import Annotated, Any

import msgspec

Value = str | bool | int | float
Table = dict[str, Any]


class SourceTable(msgspec.Struct, frozen=True):
    """A source of Spark's."""

    format: str
    path: str | None = None
    schema: str | None = None
    where: str | None = None
    options: dict[str, Value] = {}


class StreamTable(SourceTable, frozen=True, kw_only=True):
    """``[streams.NAME]``: a source, and what is known of its rows: their event times, and which columns are unique."""

    time: str | None = None
    window: str | None = None
    watermark: str | None = None
    unique: str | list[str] | None = None


class PunctuationsTable(SourceTable, frozen=True, kw_only=True):
    """``[punctuations.NAME]``: which rows of a stream will not come any more; ``select`` makes its columns."""

    select: list[str] | None = None


class JoinTable(msgspec.Struct, frozen=True):
    """``[[joins]]``: a join of streams and of joins above it in the file."""

    inputs: Annotated[list[str], msgspec.Meta(min_length=2)]
    on: str
    how: str | None = None
    name: str | None = None


class OverTable(msgspec.Struct, frozen=True):
    """``over``: which rows of a group count."""

    rows: int | None = None
    time: str | None = None


class SinkTable(msgspec.Struct, frozen=True):
    """``[sink]``: where results go."""

    format: str
    path: str | None = None
    partition_by: list[str] = []
    query_name: str | None = None
    output_mode: str | None = None
    options: dict[str, Value] = {}


class TriggerTable(msgspec.Struct, frozen=True):
    """``[trigger]``: when epochs begin; as soon as the last one has ended where nothing is said."""

    available_now: bool | None = None
    processing_time: str | None = None


class SparkTable(msgspec.Struct, frozen=True):
    """``[spark]``: the session."""

    master: str = "local[*]"
    app_name: str = "watersmeet"
    conf: dict[str, Value] = {}

    @property
    def settings(self) -> dict[str, str]:
        """The settings as Spark writes them."""
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in self.conf.items()
        }


class Tables(msgspec.Struct, frozen=True):
    """The file, its tables not yet looked into."""

    streams: dict[str, Table]
    sink: Table
    punctuations: dict[str, Table] = {}
    joins: list[Table] = []
    where: str | None = None
    group_by: list[str] | None = None
    over: Table | None = None
    aggregate: list[str] | None = None
    having: str | None = None
    select: list[str] | None = None
    distinct: bool | list[str] = False
    options: dict[str, Value] = {}
    trigger: Table | None = None
    spark: Table = {}


class QueryFile(msgspec.Struct, frozen=True):
    """A query, checked as far as it can be without Spark."""

    streams: dict[str, StreamTable]
    punctuations: dict[str, PunctuationsTable]
    joins: list[JoinTable]
    sink: SinkTable
    where: str | None
    group_by: list[str] | None
    over: OverTable | None
    aggregate: list[str] | None
    having: str | None
    select: list[str] | None
    distinct: bool | list[str]
    options: dict[str, Value]
    trigger: TriggerTable | None
    spark: SparkTable
