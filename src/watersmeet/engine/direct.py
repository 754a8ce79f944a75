"""Results that leave from where they are made: written by the site tasks, not passed through Spark's rows.

Turning Arrow batches into Spark's rows is the dearest part of a large epoch. A sink that takes plain columns needs no
rows: ``noop`` drops the batches in the task, ``parquet`` writes them there. Filters and expressions above the root, and
options of the sink other than its compression, go through Spark as ever.

A task writes to a hidden file of its own attempt, and tells its name with its effects. Before the commit the driver
publishes one attempt's files under the epoch's name; a replay publishes over them.

    .epoch-000000000007-<query>-1-<attempt>.parquet   ->   epoch-000000000007-<query>-1.parquet
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.engine.shape import Select, Shape
from watersmeet.model.ids import EpochId, SiteId
from watersmeet.model.plan import Plan
from watersmeet.storage.failures import reported
from watersmeet.storage.open import delete_by_prefix, open_files

ROW_GROUP_BYTES = 64 << 20
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


class DirectWriter:
    """Takes the results of one attempt; a file comes into being with the first."""

    def __init__(self, direct: Direct, epoch: EpochId, site: SiteId) -> None:
        self._direct, self._name = direct, direct.attempt_name(epoch, site)
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of the schema's columns."""
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> tuple[str, ...]:
        """Finish; the names of the files written."""
        self._flush()
        if self._writer is None:
            return ()
        with reported("finish", f"{self._direct.path}/{self._name}"):
            self._writer.close()
            self._file.close()
        return (self._name,)

    def _flush(self) -> None:
        if not self._waiting:
            return
        with reported("write", f"{self._direct.path}/{self._name}"):
            if self._writer is None:
                files, root = open_files(str(self._direct.path))
                files.makedirs(root, exist_ok=True)
                self._file = files.open(f"{root}/{self._name}", "wb")
                self._writer = pq.ParquetWriter(self._file, self._direct.schema, compression=_codec(self._direct))
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._bytes = [], 0


def publish(direct: Direct, epoch: EpochId, written: Sequence[tuple[SiteId, str]], *, first: bool) -> None:
    """Give one attempt's files the epoch's names; a first epoch replaces all that a killed driver left of it."""
    if direct.path is None:
        return
    files, root = open_files(direct.path)
    with reported("publish results in", direct.path):
        for site, name in written:
            files.mv(f"{root}/{name}", f"{root}/{direct.file_name(epoch, site)}")
    if first:
        ours = {direct.file_name(epoch, site) for site, _ in written}
        delete_by_prefix(direct.path, epoch_prefix(epoch, direct.query), but=ours)
        _leave_no_traces(direct, files, root, epoch)


def _leave_no_traces(direct: Direct, files: fsspec.AbstractFileSystem, root: str, epoch: EpochId) -> None:
    """Delete hidden files of lost attempts, and make the folder readable even if no result has come yet."""
    for lost in files.glob(f"{root}/.epoch-*-{direct.query[:8]}-*"):
        files.rm_file(lost)
    files.makedirs(root, exist_ok=True)
    if not files.glob(f"{root}/epoch-*.parquet") and direct.schema is not None:
        with files.open(f"{root}/{epoch_prefix(epoch, direct.query)}-none.parquet", "wb") as file:
            pq.write_table(direct.schema.empty_table(), file, compression=_codec(direct))


def _codec(direct: Direct) -> str:
    return "none" if direct.compression == "uncompressed" else direct.compression
