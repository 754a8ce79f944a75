"""Between Spark's types and Arrow's. Stored columns have canonical Arrow types, whatever the session's settings."""

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from watersmeet.planning.unkept import unkept_field


def arrow_schema(schema: spark_types.StructType, stream: str) -> pa.Schema:
    """A DataFrame's schema in canonical Arrow types; columns that state cannot keep say why."""
    return pa.schema([_field(field, stream) for field in schema.fields])


def spark_type(kind: pa.DataType) -> spark_types.DataType:
    """The Spark type of a canonical Arrow type."""
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def spark_schema(schema: pa.Schema) -> spark_types.StructType:
    """A Spark schema; everything may be null."""
    return spark_types.StructType([spark_types.StructField(field.name, spark_type(field.type)) for field in schema])


def null(kind: pa.DataType, name: str) -> Column:
    """A column of nulls."""
    return F.lit(None).cast(spark_type(kind)).alias(name)


def empty_frame(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """No rows of a schema, made by Spark alone, for its analyser to check expressions against."""
    return spark.range(0).select(*(null(field.type, field.name) for field in schema))


def _field(field: spark_types.StructField, stream: str) -> pa.Field:
    kind = field.dataType
    if isinstance(kind, spark_types.StringType) and kind != spark_types.StringType():
        why = "only binary equality of strings is exact here"
        how = f"cast it to STRING COLLATE UTF8_BINARY, or use lower({stream}.{field.name})"
        return unkept_field(field.name, kind.simpleString(), why, how)
    try:
        _refuse_variants(kind)
        return pa.field(field.name, to_arrow_type(kind, timezone="UTC"))
    except Exception:  # noqa: BLE001 -- Spark has many for this
        why = "it has no Arrow type, so it cannot be kept in state"
        how = "leave it out of the select, drop it from the stream, or cast it to a type that has one"
        return unkept_field(field.name, kind.simpleString(), why, how)


def _refuse_variants(kind: spark_types.DataType) -> None:
    if "variant" in kind.simpleString():
        raise TypeError(kind)


def has_map(kind: pa.DataType) -> bool:
    """Whether values of a type have maps in them, which Spark does not hash.

    >>> [has_map(each) for each in (pa.int64(), pa.list_(pa.map_(pa.string(), pa.int64())))]
    [False, True]
    """
    if pa.types.is_map(kind):
        return True
    return any(has_map(kind.field(number).type) for number in range(kind.num_fields))
