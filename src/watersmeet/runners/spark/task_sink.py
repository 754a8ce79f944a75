"""Which sinks the site tasks can serve themselves: those that take plain columns as they are.

Filters and expressions above the root, and options of the sink other than its compression, go through Spark as ever.
"""

import re
from collections.abc import Mapping
from typing import Literal

import pyarrow as pa

from watersmeet.model.plan import Plan
from watersmeet.runners.spark.projection import Projection, Select
from watersmeet.runners.spark.staging import fits_parquet
from watersmeet.site.result_files import ResultFormat

_PLAIN = re.compile(r"\s*`?(\w+)`?\s*\.\s*`?(\w+)`?(?:\s+as\s+`?(\w+)`?)?\s*", re.IGNORECASE)

Codec = Literal["none", "snappy", "zstd", "gzip", "lz4", "brotli"]
CODECS: tuple[str, ...] = ("none", "uncompressed", "snappy", "zstd", "gzip", "lz4", "brotli")


def plain_columns(projection: Projection, plan: Plan) -> tuple[tuple[str, str], ...] | None:
    """The columns of a projection and their new names, if it has nothing but columns in it.

    >>> from watersmeet.model.plan import Column
    >>> plan = Plan((), (), ((Column("A", "x"), pa.int64()),))
    >>> plain_columns(Projection((Select(("A.x AS y", "A.x")),)), plan)
    (('A.x', 'y'), ('A.x', 'x'))
    >>> plain_columns(Projection((Select(("A.x + 1",)),)), plan)
    """
    if len(projection.steps) != 1 or not isinstance(projection.steps[0], Select):
        return None
    known = {column.name for column in plan.types}
    found = [_PLAIN.fullmatch(item) if isinstance(item, str) else None for item in projection.steps[0].items]
    pairs = [(f"{match[1]}.{match[2]}", match[3] or match[2]) for match in found if match]
    fits = len(pairs) == len(found) and all(name in known for name, _ in pairs)
    return tuple(pairs) if fits and len({new.lower() for _, new in pairs}) == len(pairs) else None


def result_format(
    form: str, path: str | None, options: Mapping[str, str], projection: Projection, plan: Plan, row: pa.Schema
) -> ResultFormat | None:
    """How a sink can be written directly, or None where its rows have to pass through Spark."""
    if plan.root.filters:
        return None
    columns = plain_columns(projection, plan)
    if form == "noop" and (columns or not projection.steps):
        return ResultFormat(None)
    extra = {name.lower(): value.lower() for name, value in options.items()}
    codec = extra.pop("compression", "snappy")
    if form != "parquet" or extra or codec not in CODECS or not (columns or not projection.steps):
        return None
    if not fits_parquet(row):
        return None  # Spark has a way of its own to write such types
    if columns is None:
        return ResultFormat(path, row, None, codec)
    types = {column.name: kind for column, kind in plan.types.items()}
    schema = pa.schema([pa.field(new, types[name]) for name, new in columns])
    return ResultFormat(path, schema, tuple(name for name, _ in columns), codec)
