"""A logical query: what the user wrote, as frozen values. `watersmeet.planning` turns it into a plan."""

from typing import Literal

import msgspec
import pyarrow as pa


class StreamNode(msgspec.Struct, frozen=True):
    """A registered stream; the schema is the DataFrame's in Arrow types.

    ``time`` is the column of its event times, ``window_us`` how long a row lives, and ``delay_us`` how far rows may lag
    behind the latest one; None: for ever, and any number of years. ``punctuated`` are the columns that punctuations
    name, if there is a stream of them, and ``unique`` those in which rows of different epochs are never alike.
    """

    name: str
    schema: pa.Schema
    time: str | None = None
    window_us: int | None = None
    delay_us: int | None = None
    punctuated: tuple[str, ...] | None = None
    unique: tuple[str, ...] = ()


How = Literal["inner", "left", "right", "full", "semi", "anti"]
"""The kinds of joins. All but the first are of two relations."""


class JoinNode(msgspec.Struct, frozen=True):
    """A join of two or more relations on a SQL condition, as the user wrote it."""

    inputs: tuple["Node", ...]
    on: str
    how: How = "inner"


Mode = Literal["append", "update", "first"]
"""When a group of an aggregate comes out: when it is final, whenever it changes, or when it first comes."""


class GroupKey(msgspec.Struct, frozen=True):
    """An expression that rows are grouped by, its name and its type."""

    name: str
    sql: str
    type: pa.DataType


class Aggregate(msgspec.Struct, frozen=True):
    """An aggregate function of an expression (None: of rows) of a type, and the name and type of its value."""

    name: str
    function: str
    type: pa.DataType
    sql: str | None = None
    argument: pa.DataType | None = None


class History(msgspec.Struct, frozen=True):
    """Which rows of a group count: the latest ``rows``, or those of the last ``time_us`` before the group's latest row.

    Rows of one time count all or not at all. Of the two, one is given.
    """

    rows: int | None = None
    time_us: int | None = None


class AggregateNode(msgspec.Struct, frozen=True):
    """Groups of a relation's rows by expressions, and what is told of each group: of all its rows, or of the latest."""

    input: "Node"
    keys: tuple[GroupKey, ...]
    aggregates: tuple[Aggregate, ...] = ()
    mode: Mode = "append"
    history: History | None = None


class FilterNode(msgspec.Struct, frozen=True):
    """Rows of a relation for which a SQL condition holds."""

    input: "Node"
    condition: str


Node = StreamNode | JoinNode | FilterNode | AggregateNode


class Query(msgspec.Struct, frozen=True):
    """A relation and the columns its consumer reads.

    ``needed`` holds the SQL expressions evaluated over the joined row; None means all of every stream's columns.
    """

    node: Node
    needed: tuple[str, ...] | None = None
    case_sensitive: bool = False
