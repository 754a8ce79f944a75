"""Between Spark's types and Arrow's. Stored columns have canonical Arrow types, whatever the session's settings."""

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from watersmeet.model.errors import UnsupportedError


def arrow_schema(schema: spark_types.StructType, stream: str) -> pa.Schema:
    """A DataFrame's schema in canonical Arrow types."""
    return pa.schema([pa.field(field.name, _arrow(field, stream)) for field in schema.fields])


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


def _arrow(field: spark_types.StructField, stream: str) -> pa.DataType:
    _refuse_collations(field.dataType, f"{stream}.{field.name}")
    try:
        _refuse_variants(field.dataType)
        return to_arrow_type(field.dataType, timezone="UTC")
    except Exception as error:
        raise UnsupportedError(
            f"column {stream}.{field.name} has type {field.dataType.simpleString()}",
            why="it has no Arrow type, so it cannot be kept in state",
            how="drop it from the stream, or cast it to a type that has one",
        ) from error


def _refuse_variants(kind: spark_types.DataType) -> None:
    if "variant" in kind.simpleString():
        raise TypeError(kind)


def _refuse_collations(kind: spark_types.DataType, name: str) -> None:
    if isinstance(kind, spark_types.StringType) and kind != spark_types.StringType():
        raise UnsupportedError(
            f"column {name} has type {kind.simpleString()}",
            why="only binary equality of strings is exact here",
            how=f"cast it to STRING COLLATE UTF8_BINARY, or use lower({name})",
        )
