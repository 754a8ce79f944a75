"""Epochs by hand: a list of Arrow tables becomes a stream that delivers one table per epoch.

1. Cast every table to types that Spark has (``spark_type``), so that nothing depends on how Parquet is read.
2. Write table *i* as ``epoch-0000i.parquet``, all or nothing, dated *i* seconds after a fixed day. Spark's file source
   goes by these dates, so the order is the list's, in this process and in one that continues it.
3. Read the folder as a stream, one file per trigger.

Every source of a query takes its next file in each batch, so epoch *i* of all streams arrives together. A table
without rows is a file too, hence an epoch. A stream that has ended adds nothing to later epochs.
"""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from watersmeet.model.errors import QueryError

FIRST_EPOCH_S = 946_684_800
"""When the first file was last changed, as far as Spark can see: 1 January 2000. The next is one second younger."""


def replay(spark: SparkSession, tables: Sequence[pa.Table], path: str | None = None) -> DataFrame:
    """Turn Arrow tables into a streaming DataFrame that delivers one table per epoch, in order.

    With ``path``, a local folder, the files stay there, and a later process that gives the same tables, or these and
    more, continues the stream; existing files are not written again. Without one they are removed when the
    process ends. All tables must have the same columns. Timestamps keep microseconds; unsigned, dictionary and other
    types that Spark lacks become the nearest type of Spark.

    Example::

        a = replay(spark, [pa.table({"x": [1, 2]}), pa.table({"x": [3]})])
        b = replay(spark, [pa.table({"x": [1]}), pa.table({"x": [3]})])
        a.union(b).writeStream.trigger(availableNow=True).foreachBatch(print).start()
        # batch 0 holds 1, 2, 1; batch 1 holds 3, 3
    """
    ready = _same_schema([_cast(table) for table in tables])
    folder = _folder(path)
    _check_folder(folder, ready)
    for epoch, table in enumerate(ready):
        _write(folder / _file_name(epoch), table, FIRST_EPOCH_S + epoch)
    schema = from_arrow_schema(ready[0].schema)
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"file://{folder}")


def _same_schema(tables: list[pa.Table]) -> list[pa.Table]:
    if not tables:
        raise QueryError("replay got no tables", why="a stream's columns are taken from them", how="give an empty one")
    first = tables[0].schema
    for epoch, table in enumerate(tables):
        if not table.schema.equals(first):
            what = f"table {epoch} has other columns than table 0"
            raise QueryError(what, why=_difference(table.schema, first), how="give all tables the same schema")
    return tables


def _difference(schema: pa.Schema, first: pa.Schema) -> str:
    """Describe two schemas by the fields that differ.

    >>> _difference(pa.schema({"x": pa.int64()}), pa.schema({"x": pa.int32(), "y": pa.int8()}))
    'x int64 against x int32, y int8'
    """

    def only(one: pa.Schema, other: pa.Schema) -> str:
        fields = [field for field in one if field not in list(other)] or list(one)
        return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in fields)

    return f"{only(schema, first)} against {only(first, schema)}"


def _folder(path: str | None) -> Path:
    if path is None:
        folder = tempfile.mkdtemp(prefix="watersmeet-replay-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)
    if re.search(r"[*?\[\]{}\\]", path):
        raise QueryError(f"replay cannot use {path}", why="Spark takes it for a pattern", how="use plain letters")
    Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path).absolute()


def _check_folder(folder: Path, tables: list[pa.Table]) -> None:
    """Refuse a folder that holds anything but a beginning of this stream: Spark would deliver it."""
    expected = {_file_name(epoch): table for epoch, table in enumerate(tables)}
    for file in sorted(folder.iterdir()):
        if not file.name.startswith((".", "_")) and not _holds(file, expected.get(file.name)):
            raise QueryError(
                f"{file} is not part of this stream",
                why="a folder can hold the tables of one stream only",
                how="give the tables that were given before, or another path",
            )


def _holds(file: Path, table: pa.Table | None) -> bool:
    if table is None:
        return False
    there = pq.read_metadata(file)
    same_schema = from_arrow_schema(there.schema.to_arrow_schema()) == from_arrow_schema(table.schema)
    return bool(same_schema and there.num_rows == table.num_rows)


def _file_name(epoch: int) -> str:
    return f"epoch-{epoch:05}.parquet"


def _write(file: Path, table: pa.Table, changed_s: int) -> None:
    """Write a file atomically with its date; an existing one is kept."""
    if not file.exists():
        temporary = file.with_name(f".{file.name}-{os.getpid()}.tmp")
        pq.write_table(table, temporary)
        os.utime(temporary, (changed_s, changed_s))
        temporary.replace(file)


# --- types -----------------------------------------------------------------------------------------------------------

_NEAREST = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
_SAME = {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()}
_SAME |= {pa.string(), pa.binary(), pa.date32()}
_DECIMAL_DIGITS = 38


def _cast(table: pa.Table) -> pa.Table:
    kinds = [spark_type(field.type, field.name) for field in table.schema]
    pairs = zip(table.columns, kinds, strict=True)
    columns = [pc.cast(column, options=pc.CastOptions(kind, allow_time_truncate=True)) for column, kind in pairs]
    return pa.Table.from_arrays(columns, names=table.column_names)


def spark_type(kind: pa.DataType, column: str) -> pa.DataType:
    """Give the Arrow type that Spark has for a type: itself, or the nearest that loses nothing but nanoseconds.

    >>> spark_type(pa.dictionary(pa.int8(), pa.large_string()), "x")
    DataType(string)
    >>> spark_type(pa.struct({"t": pa.timestamp("ns"), "u": pa.list_(pa.uint32())}), "x")
    StructType(struct<t: timestamp[us], u: list<item: int64>>)
    >>> spark_type(pa.time64("us"), "x")
    Traceback (most recent call last):
    watersmeet.model.errors.QueryError: [QueryError] column x is of type time64[us]: Spark has no such type in files. \
To fix it, cast it, as to int64 or string.
    """
    if kind in _SAME:
        return kind
    found = _NEAREST.get(kind) or _scalar(kind) or _nested(kind, column)
    if found is None:
        what = f"column {column} is of type {kind}"
        raise QueryError(what, why="Spark has no such type in files", how="cast it, as to int64 or string")
    return found


def _scalar(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    return None


def _nested(kind: pa.DataType, column: str) -> pa.DataType | None:
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type, column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(spark_type(kind.value_type, f"{column}[]"))
    if pa.types.is_map(kind):
        return pa.map_(spark_type(kind.key_type, f"{column} key"), spark_type(kind.item_type, f"{column} value"))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, spark_type(field.type, f"{column}.{field.name}")) for field in kind])
    return None
