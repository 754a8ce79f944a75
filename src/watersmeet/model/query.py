"""A logical query: what the user wrote, as frozen values. `watersmeet.planning` turns it into a plan."""

from typing import Literal

import msgspec
import pyarrow as pa


class StreamNode(msgspec.Struct, frozen=True):
    """A registered stream; the schema is the DataFrame's in Arrow types.

    ``time`` is the column of its event times, ``window_us`` how long a row lives, and ``delay_us`` how far rows may lag
    behind the latest one; None: for ever, and any number of years.
    """

    name: str
    schema: pa.Schema
    time: str | None = None
    window_us: int | None = None
    delay_us: int | None = None


How = Literal["inner", "left", "right", "full", "semi", "anti"]
"""The kinds of joins. All but the first are of two relations."""


class JoinNode(msgspec.Struct, frozen=True):
    """A join of two or more relations on a SQL condition, as the user wrote it."""

    inputs: tuple["Node", ...]
    on: str
    how: How = "inner"


class FilterNode(msgspec.Struct, frozen=True):
    """Rows of a relation for which a SQL condition holds."""

    input: "Node"
    condition: str


Node = StreamNode | JoinNode | FilterNode


class Query(msgspec.Struct, frozen=True):
    """A relation and the columns its consumer reads.

    ``needed`` holds the SQL expressions evaluated over the joined row; None means all of every stream's columns.
    """

    node: Node
    needed: tuple[str, ...] | None = None
    case_sensitive: bool = False
