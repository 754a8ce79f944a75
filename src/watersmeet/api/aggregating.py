"""A relation's groups as an aggregate: the types that Spark's analyser gives keys and aggregates, and the node."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from watersmeet.api.shape import Shape
from watersmeet.api.telling import Call
from watersmeet.model.errors import QueryError, UnsupportedError
from watersmeet.model.plan import Column
from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, History, Mode
from watersmeet.planning.names import Scope
from watersmeet.planning.planner import plan_name
from watersmeet.planning.tree import streams_of
from watersmeet.planning.types import ddl
from watersmeet.planning.views import Output, View
from watersmeet.planning.windows import TimeWindow, time_window
from watersmeet.runners.spark.columns import refused
from watersmeet.runners.spark.schemas import arrow_schema

_OF_NUMBERS = {"sum", "avg", "stddev", "stddev_pop", "variance", "var_pop"}


def aggregated(
    shape: Shape,
    keys: Sequence[Output],
    calls: Sequence[Call],
    mode: Mode,
    history: History | None = None,
    shown: Sequence[Output] | None = None,
) -> Shape:
    """The aggregation of a relation's rows, with its visible columns: those ``shown``, or all."""
    windows = [window_of(shape, key.sql) for key in keys]
    known = [window.sql if window else key.sql for key, window in zip(keys, windows, strict=True)]
    schema = _schema(shape, known, calls, [key.name for key in keys])
    fields = list(arrow_schema(schema, "the aggregate"))
    named = [GroupKey(key.name, key.sql, field.type) for key, field in zip(keys, fields, strict=False)]
    told = [_aggregate(shape, call, field) for call, field in zip(calls, fields[len(named) :], strict=True)]
    node = AggregateNode(shape.node, tuple(named), tuple(told), mode, history)
    name = plan_name(streams_of(shape.node))
    outputs = [Output(field.name, Column(name, field.name).sql) for field in fields]
    members = outputs if shown is None else [*outputs[: len(named)], *shown]
    _check_names([each.name for each in members])
    view = View(tuple(members), case_sensitive=shape.view.case_sensitive)
    made = replace(shape, node=node, view=view, made=(name, schema))
    made.frame()
    made.plan()
    return made


def window_of(shape: Shape, sql: str) -> TimeWindow | None:
    """The window that some SQL denotes; Spark's analyser is not asked, as it is slow for sliding windows."""
    return time_window(sql, Scope(streams_of(shape.node), case_sensitive=shape.flow.case_sensitive))


def _schema(shape: Shape, keys: Sequence[str], calls: Sequence[Call], names: Sequence[str]) -> StructType:
    """The columns as Spark names and types them."""
    _check_names([*names, *(call.name for call in calls)])
    by = [F.expr(key).alias(name) for key, name in zip(keys, names, strict=True)]
    row = shape.row()
    try:
        told = [F.expr(call.spark_sql).alias(call.name) for call in calls]
        made = row.groupBy(*by).agg(*told) if told else row.select(*by)
    except PySparkException as error:
        raise refused(error) from error
    return made.schema


def _check_names(names: Sequence[str]) -> None:
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise QueryError(
            f"two columns of the aggregate are called {again}", why="column names must be unique", how="use AS"
        )


def _aggregate(shape: Shape, call: Call, field: pa.Field) -> Aggregate:
    if call.sql is None:
        return Aggregate(field.name, call.function, field.type)
    argument = shape.row().select(F.expr(call.sql).alias("x"))
    kind = arrow_schema(argument.schema, "the aggregate").field(0).type
    _check_kind(call.text, call.function, kind)
    return Aggregate(field.name, call.function, field.type, call.sql, kind)


def _check_kind(text: str, function: str, kind: pa.DataType) -> None:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if function in _OF_NUMBERS and not is_number:
        raise UnsupportedError(
            f"agg was given {text}",
            why=f"{function} needs numbers, and its argument is of type {ddl(kind)}",
            how=f"cast it, as in {function}(CAST(x AS DOUBLE))",
        )
    is_several = function == "count_distinct" and pa.types.is_struct(kind)
    inner = [each.type for each in kind] if is_several else [kind]
    if any(map(pa.types.is_nested, inner)) and function != "first":
        raise UnsupportedError(
            f"agg was given {text}", why="its argument is nested", how="aggregate a field of it, as in max(A.x.y)"
        )


def check_open(shape: Shape) -> None:
    """Refuse to group what only Spark can compute."""
    if not shape.is_open:
        raise UnsupportedError(
            "a relation is grouped that has a step only Spark can do, or that is grouped already",
            why="rows are grouped where they are joined, before Spark sees them again",
            how="compute it on the DataFrame before flow.stream(...), or group first",
        )
