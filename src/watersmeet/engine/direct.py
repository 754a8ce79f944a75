"""Results that leave from where they are made: written by the site tasks, not passed through Spark's rows.

Turning Arrow batches into Spark's rows is the dearest part of a large epoch. A sink that takes plain columns needs no
rows: ``noop`` drops the batches in the task, ``parquet`` writes them there. Filters and expressions above the root, and
options of the sink other than its compression, go through Spark as ever.

`direct_files` writes and publishes the files.
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from watersmeet.engine.shape import Select, Shape
from watersmeet.model.ids import EpochId, SiteId
from watersmeet.model.plan import Plan

_PLAIN = re.compile(r"\s*`?(\w+)`?\s*\.\s*`?(\w+)`?(?:\s+as\s+`?(\w+)`?)?\s*", re.IGNORECASE)

Codec = Literal["none", "snappy", "zstd", "gzip", "lz4", "brotli"]
CODECS: tuple[str, ...] = ("none", "uncompressed", "snappy", "zstd", "gzip", "lz4", "brotli")


@dataclass(frozen=True)
class Direct:
    """What the tasks of the root do with results: drop them, or write the columns of ``schema`` to files.

    ``columns`` are the names of the root's columns, in the order of the schema; None means the joined row as it is.
    """

    path: str | None
    schema: pa.Schema | None = None
    columns: tuple[str, ...] | None = None
    compression: str = "snappy"
    query: str = ""

    def file_name(self, epoch: EpochId, site: SiteId) -> str:
        """The name of an epoch's file."""
        return f"{epoch_prefix(epoch, self.query)}-{site}.parquet"

    def attempt_name(self, epoch: EpochId, site: SiteId) -> str:
        """A hidden name for one attempt at it."""
        return f".{epoch_prefix(epoch, self.query)}-{site}-{uuid.uuid4().hex[:12]}.parquet"


def epoch_prefix(epoch: EpochId, query: str) -> str:
    """How the names of an epoch's files begin: with the epoch and its query.

    >>> epoch_prefix(EpochId(7), "3f9c21aa-0c1d")
    'epoch-000000000007-3f9c21aa'
    """
    return f"epoch-{epoch:012d}-{query[:8]}"


def plain_columns(shape: Shape, plan: Plan) -> tuple[tuple[str, str], ...] | None:
    """The columns of a projection and their new names, if it has nothing but columns in it.

    >>> from watersmeet.model.plan import Column
    >>> plan = Plan((), (), {Column("A", "x"): pa.int64()})
    >>> plain_columns(Shape((Select(("A.x AS y", "A.x")),)), plan)
    (('A.x', 'y'), ('A.x', 'x'))
    >>> plain_columns(Shape((Select(("A.x + 1",)),)), plan)
    """
    if len(shape.steps) != 1 or not isinstance(shape.steps[0], Select):
        return None
    known = {column.name for column in plan.types}
    found = [_PLAIN.fullmatch(item) if isinstance(item, str) else None for item in shape.steps[0].items]
    pairs = [(f"{match[1]}.{match[2]}", match[3] or match[2]) for match in found if match]
    fits = len(pairs) == len(found) and all(name in known for name, _ in pairs)
    return tuple(pairs) if fits and len({new.lower() for _, new in pairs}) == len(pairs) else None


def direct_output(
    form: str, path: str | None, options: Mapping[str, str], shape: Shape, plan: Plan, row: pa.Schema
) -> Direct | None:
    """How a sink can be written directly, or None where its rows have to pass through Spark."""
    if plan.root.filters:
        return None
    columns = plain_columns(shape, plan)
    if form == "noop" and (columns or not shape.steps):
        return Direct(None)
    extra = {name.lower(): value.lower() for name, value in options.items()}
    codec = extra.pop("compression", "snappy")
    if form != "parquet" or extra or codec not in CODECS or not (columns or not shape.steps):
        return None
    if any(pa.types.is_duration(kind) or pa.types.is_interval(kind) for kind in plan.types.values()):
        return None  # parquet has no such types, and Spark has a way of its own to write them
    if columns is None:
        return Direct(path, row, None, codec)
    types = {column.name: kind for column, kind in plan.types.items()}
    schema = pa.schema([pa.field(new, types[name]) for name, new in columns])
    return Direct(path, schema, tuple(name for name, _ in columns), codec)
