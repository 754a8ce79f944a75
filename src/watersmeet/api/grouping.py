"""Groups of a relation's rows, as Spark's users write them: ``groupBy(...).agg(...)``, ``distinct`` and duplicates.

What a key or an aggregate is called and of which type it is, Spark's analyser says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from sqlglot import exp

from watersmeet.api.arguments import items_of
from watersmeet.api.shape import Shape
from watersmeet.model.errors import QueryError, UnsupportedError
from watersmeet.model.plan import quoted
from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, History, Mode
from watersmeet.planning.dialect import parse, write
from watersmeet.planning.history import history_of
from watersmeet.planning.names import Scope
from watersmeet.planning.planner import plan_name
from watersmeet.planning.tree import streams_of
from watersmeet.planning.types import ddl
from watersmeet.planning.views import Output, View, selected
from watersmeet.planning.windows import TimeWindow, time_window
from watersmeet.runners.spark.projection import Item
from watersmeet.runners.spark.schemas import arrow_schema

if TYPE_CHECKING:
    from watersmeet.api.relation import Relation

_FUNCTIONS = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    "stddev": "stddev",
    "stddev_samp": "stddev",
    "std": "stddev",
    "stddev_pop": "stddev_pop",
    "variance": "variance",
    "var_samp": "variance",
    "var_pop": "var_pop",
    "approx_count_distinct": "count_distinct",
}
_OF_NUMBERS = {"sum", "avg", "stddev", "stddev_pop", "variance", "var_pop"}


@dataclass(frozen=True)
class GroupedRelation:
    """Rows of a relation by some expressions; `agg` tells something of each group.

    >>> import watersmeet as wm
    >>> flow = wm.Flow(spark)
    >>> sales = wm.testing.replay(spark, [pa.table({"shop": ["a", "b", "a"], "cents": [100, 250, 50]})])
    >>> by_shop = flow.stream("S", sales).groupBy("S.shop").agg("count(*) AS n", "sum(S.cents) AS total")
    >>> query = (
    ...     by_shop.writeStream.format("memory")
    ...     .queryName("shops")
    ...     .outputMode("append")
    ...     .option("endOfInput", "true")
    ...     .trigger(availableNow=True)
    ...     .start()
    ... )
    >>> query.awaitTermination(60)
    True
    >>> sorted(tuple(row) for row in spark.table("shops").collect())
    [('a', 2, 150), ('b', 1, 250)]
    """

    shape: Shape
    keys: tuple[str, ...]
    history: History | None = None

    def over(self, *, rows: int | None = None, time: str | timedelta | None = None) -> "GroupedRelation":
        """The same groups, of which only the last rows count: so many, or those of a length of event time.

        A group comes out in every epoch that brings it rows, with the values of its last rows among all that came so
        far, ordered by the stream's ``time``. Rows as late as the last one that counts all count. A range of time
        ends with the group's latest row, which is in it, and has the given length.

        >>> import watersmeet as wm
        >>> from datetime import datetime
        >>> flow = wm.Flow(spark)
        >>> moments = [datetime(2024, 1, 1, 12, minute) for minute in (0, 4, 9)]
        >>> sales = pa.table({"shop": ["a", "a", "a"], "cents": [100, 250, 50], "at": moments})
        >>> by_shop = flow.stream("S", wm.testing.replay(spark, [sales[:2], sales[2:]]), time="at").groupBy("S.shop")
        >>> last_two = by_shop.over(rows=2).agg("sum(S.cents) AS total")
        >>> query = last_two.writeStream.format("memory").queryName("last").trigger(availableNow=True).start()
        >>> query.awaitTermination(60)
        True
        >>> sorted(tuple(row) for row in spark.table("last").collect())
        [('a', 300), ('a', 350)]
        >>> by_shop.over(time="5 minutes").agg("sum(S.cents) AS total").columns
        ['shop', 'total']
        """
        return replace(self, history=history_of(rows, time))

    def agg(self, *aggregates: Item) -> "Relation":
        """What is told of each group: ``count(*) AS n``, ``sum(B.v)``, avg, min, max, stddev, distinct counts."""
        if not aggregates:
            raise QueryError(
                "agg was given nothing", why="it tells something of a group", how='write agg("count(*) AS n")'
            )
        from watersmeet.api.relation import Relation  # noqa: PLC0415 -- a relation is grouped

        calls = [_call(self.shape, _text(self.shape, "agg", item)) for item in items_of("agg", aggregates)]
        keys = [_key(each) for each in selected(self.shape.view, self.keys, self._name_of)]
        mode: Mode = "append" if self.history is None else "update"
        return Relation(aggregated(self.shape, keys, calls, mode, self.history))

    def _name_of(self, sql: str) -> str:
        return "window" if _window(self.shape, sql) else self.shape.spark_name(sql)

    def count(self) -> "Relation":
        """How many rows each group has, as ``count``.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.groupBy("window(A.timestamp, '1 minute')").count().columns
        ['window', 'count']
        """
        return self.agg("count(*) AS count")


def grouped(shape: Shape, items: Sequence[object]) -> GroupedRelation:
    """The groups of a relation by some columns or expressions."""
    check_open(shape)
    flat = items_of("groupBy", items) if items else []  # without any, all rows are one group
    return GroupedRelation(shape, tuple(_text(shape, "groupBy", item) for item in flat))


def aggregated(
    shape: Shape, keys: Sequence[Output], calls: Sequence["Call"], mode: Mode, history: History | None = None
) -> Shape:
    """What is told of the groups of a relation's rows."""
    windows = [_window(shape, key.sql) for key in keys]
    known = [window.sql if window else key.sql for key, window in zip(keys, windows, strict=True)]
    schema = _schema(shape, known, calls, [key.name for key in keys])
    fields = list(arrow_schema(schema, "the aggregate"))
    named = [GroupKey(key.name, key.sql, field.type) for key, field in zip(keys, fields, strict=False)]
    told = [_aggregate(shape, call, field) for call, field in zip(calls, fields[len(named) :], strict=True)]
    node = AggregateNode(shape.node, tuple(named), tuple(told), mode, history)
    name = plan_name(streams_of(shape.node))
    outputs = tuple(Output(field.name, f"{quoted(name)}.{quoted(field.name)}") for field in fields)
    view = View(outputs, case_sensitive=shape.view.case_sensitive)
    made = replace(shape, node=node, view=view, made=(name, schema))
    made.plan()
    return made


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function: of some SQL over the streams' columns, or of rows."""

    text: str
    function: str
    sql: str | None
    spark_sql: str


def _window(shape: Shape, sql: str) -> TimeWindow | None:
    """The window some SQL means: Spark's analyser would make a plan of each, and take its time if one slides."""
    return time_window(sql, Scope(streams_of(shape.node), case_sensitive=shape.flow.case_sensitive))


def _key(each: Output | View) -> Output:
    if isinstance(each, View):
        raise QueryError(
            f"rows are grouped by {each.name}", why="it is a stream, not a column", how="name one of its columns"
        )
    return each


def _call(shape: Shape, text: str) -> Call:
    tree = parse(text, exp.Expr)
    call = tree.this if isinstance(tree, exp.Alias) else tree
    function = _FUNCTIONS.get(call.name.lower()) if isinstance(call, exp.Anonymous) else None
    if function is None or len(call.expressions) != 1:
        raise UnsupportedError(
            f"a group is told {text}",
            why="aggregates are count, sum, avg, min, max, stddev, variance, approx_count_distinct and "
            "count(DISTINCT x)",
            how="use one of these, of one expression, and compute further with select",
        )
    argument, many = call.expressions[0], ""
    if isinstance(argument, exp.Distinct):
        if function != "count" or len(argument.expressions) != 1:
            raise UnsupportedError(
                f"a group is told {text}", why="only count takes DISTINCT, of one expression", how="leave DISTINCT out"
            )
        function, argument, many = "count_distinct", argument.expressions[0], "DISTINCT "
    is_rows = isinstance(argument, exp.Star) or (isinstance(argument, exp.Literal) and function == "count")
    sql = None if is_rows else shape.view.rewritten(write(argument))
    alias = f" AS {quoted(tree.alias)}" if isinstance(tree, exp.Alias) else f" AS {quoted(text)}"
    return Call(text, function, sql, f"{call.name}({many}{'*' if sql is None else sql}){alias}")


def _schema(shape: Shape, keys: Sequence[str], calls: Sequence[Call], names: Sequence[str]) -> StructType:
    """The columns as Spark names and types them."""
    by = [F.expr(key).alias(name) for key, name in zip(keys, names, strict=True)]
    row = shape.row()
    made = row.groupBy(*by).agg(*(F.expr(call.spark_sql) for call in calls)) if calls else row.select(*by)
    found = [field.name for field in made.schema]
    again = next((name for name in found if found.count(name) > 1), None)
    if again is not None:
        raise QueryError(
            f"two columns of the aggregate are called {again}", why="they are told apart by name", how="use AS"
        )
    return made.schema


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
            f"a group is told {text}",
            why=f"{function} is of numbers, and its argument is of type {ddl(kind)}",
            how=f"cast it, as in {function}(CAST(x AS DOUBLE))",
        )
    if (pa.types.is_nested(kind) and function != "first") or (function == "avg" and pa.types.is_decimal(kind)):
        raise UnsupportedError(
            f"a group is told {text}",
            why="its argument is nested, or a decimal whose average has more digits than are kept",
            how="aggregate a field of it, or cast it, as in avg(CAST(x AS DOUBLE))",
        )


def check_open(shape: Shape) -> None:
    """Refuse to group what only Spark can compute."""
    if not shape.is_open:
        raise UnsupportedError(
            "a relation is grouped that has a step only Spark can do, or that is grouped already",
            why="rows are grouped where they are joined, before Spark sees them again",
            how="compute it on the DataFrame before flow.stream(...), or group first",
        )


def _text(shape: Shape, method: str, item: object) -> str:
    text = item if isinstance(item, str) else shape.sql_of(item) if isinstance(item, SparkColumn) else None
    if text is None:
        raise UnsupportedError(
            f"{method} was given {item}",
            why="it cannot be written as SQL",
            how=f'write it as a text, as in {method}("A.x")',
        )
    return text
