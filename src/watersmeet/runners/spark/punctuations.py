"""Punctuations as users write them, in their normal form (`watersmeet.operators.promises.patterns`).

A column that has the type of the stream's is a value, an array of such a set, a struct of two a range ``[low, high)``;
a null is anything. A set is as many punctuations as it has values.
"""

from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from watersmeet.model.errors import TypeMismatchError
from watersmeet.model.plan import quoted
from watersmeet.operators.promises.patterns import SHAPE, shape_of
from watersmeet.runners.spark.schemas import arrow_schema

_WHOLE = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
_BOUNDS = 2
_IS_ANY = "#is_any"


def normal_form(stream: str, frame: DataFrame, named: Mapping[str, spark_types.DataType]) -> DataFrame:
    """A stream's punctuations in their normal form; ``named`` are the columns of the stream that they name, in order.

    The columns of the punctuations have the same names, perhaps spelled in another case; of others, they say nothing.
    """
    own_names = {own.lower(): own for own in frame.columns}
    spelled = {name: own_names[name.lower()] for name in named if name.lower() in own_names}
    for name, own in spelled.items():
        _check(stream, name, frame.schema[own].dataType, named[name])
    for name, own in spelled.items():
        if _is_set(frame.schema[own].dataType, named[name]):
            frame = _exploded(frame, own)
    columns, shape = [], F.lit(0).cast("bigint")
    for number, (name, wanted) in enumerate(named.items()):
        if name not in spelled:
            columns += [F.lit(None).cast(wanted).alias(each) for each in (name, f"{name}#until")]
            continue
        own = spelled[name]
        kind = frame.schema[own].dataType
        is_range, low, high = False, _column(own), F.lit(None)
        if isinstance(kind, spark_types.StructType) and kind != wanted:
            is_range, (low, high) = True, _bounds(kind, own)
        columns += [low.cast(wanted).alias(name), high.cast(wanted).alias(f"{name}#until")]
        bit = shape_of([], [number]) if is_range else shape_of([number])
        shape = shape + F.when(_column(own).isNull(), F.lit(0)).otherwise(F.lit(bit)).cast("bigint")
    return frame.select(shape.alias(SHAPE), *columns)


def _exploded(frame: DataFrame, own: str) -> DataFrame:
    """A row for each value of a set; nulls in it say nothing, and no set at all is anything.

    Nulls are left out after that: Spark fails on an array from a file that has nothing else and is made compact.
    """
    values = F.coalesce(_column(own), F.array(F.lit(None)))
    told = frame.withColumn(_IS_ANY, _column(own).isNull()).withColumn(own, F.explode(values))
    return told.where(_column(own).isNotNull() | F.col(f"`{_IS_ANY}`")).drop(_IS_ANY)


def _bounds(kind: spark_types.StructType, own: str) -> tuple[SparkColumn, SparkColumn]:
    names = {name.lower(): name for name in kind.names}
    low, high = (names["low"], names["high"]) if set(names) == {"low", "high"} else kind.names
    return _column(own).getField(low), _column(own).getField(high)


def _column(name: str) -> SparkColumn:
    return F.col(quoted(name))


def _is_set(kind: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    return isinstance(kind, spark_types.ArrayType) and kind != wanted


def _check(stream: str, name: str, kind: spark_types.DataType, wanted: spark_types.DataType) -> None:
    """Refuse values that are not exactly those of the stream's column."""
    parts = [kind]
    if _is_set(kind, wanted):
        parts = [kind.elementType]  # type: ignore[attr-defined]
    elif isinstance(kind, spark_types.StructType) and kind != wanted and len(kind) == _BOUNDS:
        parts = [field.dataType for field in kind]
    if not all(_fits(each, wanted) for each in parts):
        told = kind.simpleString(), wanted.simpleString()
        raise TypeMismatchError(
            f"punctuations of stream {stream} have {name} as {told[0]}, the stream has it as {told[1]}",
            why="a value, the values of a set and the bounds of a range are compared with those of the stream",
            how=f"cast it, as in F.col('{name}').cast('{told[1]}'), or, for a range, "
            f"F.struct(F.lit(1).alias('low'), F.lit(5).alias('high'))",
        )


def _fits(kind: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    if isinstance(kind, spark_types.NullType) or kind == wanted:
        return True
    if isinstance(kind, _WHOLE) and isinstance(wanted, _WHOLE):
        return _WHOLE.index(type(kind)) <= _WHOLE.index(type(wanted))
    both = [arrow_schema(spark_types.StructType([spark_types.StructField("x", each)]), "x") for each in (kind, wanted)]
    return bool(both[0].field(0).type == both[1].field(0).type)
