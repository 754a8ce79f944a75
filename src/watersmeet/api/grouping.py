"""Groups of a relation's rows, as Spark's users write them: ``groupBy(...).agg(...)``, ``distinct`` and duplicates.

`watersmeet.api.telling` reads the aggregates from SQL; `watersmeet.api.aggregating` makes an operator of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Never

from pyspark.sql import Column as SparkColumn
from pyspark.sql.types import NumericType

from watersmeet.api.aggregating import aggregated, check_open, window_of
from watersmeet.api.arguments import items_of, name_of, names_of
from watersmeet.api.shape import Shape
from watersmeet.api.telling import Telling
from watersmeet.model.errors import QueryError, UnsupportedCallError, UnsupportedError
from watersmeet.model.plan import quoted
from watersmeet.model.query import History, Mode
from watersmeet.planning.dialect import is_name, is_stream_column
from watersmeet.planning.history import history_of
from watersmeet.planning.planner import plan_name
from watersmeet.planning.tree import streams_of
from watersmeet.planning.views import Output, View, selected
from watersmeet.runners.spark.projection import Item

if TYPE_CHECKING:
    from watersmeet.api.relation import Relation


@dataclass(frozen=True)
class GroupedRelation:
    """Rows of a relation by some expressions; `agg` computes aggregates per group.

    >>> import pyarrow as pa
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

    def over(self, *wrong: object, rows: int | None = None, time: str | timedelta | None = None) -> "GroupedRelation":
        """The same groups, of which only the last rows count: a number of rows, or those of a range of event time.

        A group is emitted in every epoch that brings it rows, with the aggregates of its last rows among all so far,
        ordered by the stream's ``time``. Rows as late as the last one that counts all count. A range of time
        ends with the group's latest row, which is in it, and has the given length.

        >>> import pyarrow as pa
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
        if wrong:
            raise QueryError(
                f"over was given {', '.join(map(repr, wrong))}",
                why="it must be clear whether a number of rows or a length of time is meant",
                how='write over(rows=100) or over(time="10 minutes")',
            )
        return replace(self, history=history_of(rows, time))

    def agg(self, *aggregates: Item | Mapping[str, str]) -> "Relation":
        """Compute aggregates for each group: ``count(*) AS n``, ``sum(B.v)``, avg, min, max, stddev, distinct counts.

        An aggregate may be restricted to some rows, as in ``sum(B.v) FILTER (WHERE B.v > 0)``. Expressions may combine
        several aggregates. A dict maps columns to functions.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> by_minute = rates.groupBy("window(A.timestamp, '1 minute')")
        >>> by_minute.agg("sum(A.value) / count(*) AS mean", "count_if(A.value > 3) AS many").columns
        ['window', 'mean', 'many']
        >>> by_minute.agg({"value": "max"}).columns
        ['window', 'max(value)']
        """
        if not aggregates:
            raise QueryError(
                "agg was given nothing", why="it needs at least one aggregate", how='write agg("count(*) AS n")'
            )
        from watersmeet.api.relation import Relation  # noqa: PLC0415 -- a relation is grouped

        given = aggregates[0]
        items = _calls_of(given) if isinstance(given, Mapping) else items_of("agg", aggregates)
        keys = [_key(each) for each in selected(self.shape.view, self.keys, self._name_of)]
        telling = Telling(self.shape, plan_name(streams_of(self.shape.node)), keys)
        shown = [telling.add(_text(self.shape, "agg", item)) for item in items]
        mode: Mode = "append" if self.history is None else "update"
        return Relation(aggregated(self.shape, keys, telling.calls, mode, self.history, shown))

    def _name_of(self, sql: str) -> str:
        return "window" if window_of(self.shape, sql) else self.shape.spark_name(sql)

    def count(self) -> "Relation":
        """The number of rows of each group, as ``count``.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.groupBy("window(A.timestamp, '1 minute')").count().columns
        ['window', 'count']
        """
        return self.agg("count(*) AS count")

    def sum(self, *columns: str) -> "Relation":
        """The sum of each of some columns, or of all numeric columns.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> by_minute = rates.groupBy("window(A.timestamp, '1 minute')")
        >>> by_minute.sum("value").columns
        ['window', 'sum(value)']
        """
        return self._of_each("sum", columns)

    def avg(self, *columns: str) -> "Relation":
        """The average of each of some columns, or of all numeric columns.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.groupBy("window(A.timestamp, '1 minute')").avg("value").columns
        ['window', 'avg(value)']
        """
        return self._of_each("avg", columns)

    mean = avg

    def min(self, *columns: str) -> "Relation":
        """The least value of each of some columns, or of all numeric columns.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.groupBy("window(A.timestamp, '1 minute')").min("value").columns
        ['window', 'min(value)']
        """
        return self._of_each("min", columns)

    def max(self, *columns: str) -> "Relation":
        """The greatest value of each of some columns, or of all numeric columns.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.groupBy("window(A.timestamp, '1 minute')").max("value").columns
        ['window', 'max(value)']
        """
        return self._of_each("max", columns)

    def _of_each(self, function: str, columns: Sequence[str]) -> "Relation":
        names = names_of(function, columns) if columns else self._numbers(function)
        return self.agg(*(_call_of(function, name) for name in names))

    def _numbers(self, function: str) -> list[str]:
        """All columns with numbers, those that rows are grouped by among them, as Spark takes them."""
        fields = [field.name for field in self.shape.frame().schema if isinstance(field.dataType, NumericType)]
        found = [quoted(name) for name in fields]
        if not found:
            raise QueryError(
                f"{function} was given no columns",
                why="the relation has no numeric columns of its own: a joined stream is one struct column",
                how=f'name some, as in .{function}("A.x")',
            )
        return found

    def __getattr__(self, name: str) -> Never:
        """Refuse Spark's other methods of groups, with a reason."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedCallError(
            f"groups have no {name}",
            why="they have agg, count, sum, avg, mean, min, max, and over for the last rows",
            how='write agg("count(*) AS n"), or do it on what the sink has written',
        )


def grouped(shape: Shape, items: Sequence[object]) -> GroupedRelation:
    """The groups of a relation by some columns or expressions."""
    check_open(shape)
    flat = items_of("groupBy", items) if items else []  # without any, all rows are one group
    return GroupedRelation(shape, tuple(_text(shape, "groupBy", item) for item in flat))


def _calls_of(given: Mapping[str, str]) -> list[str]:
    """What a dict says, from columns to functions."""
    items = [(name_of("agg", name), name_of("agg", function)) for name, function in given.items()]
    return [_call_of({"mean": "avg"}.get(function, function), name) for name, function in items]


def _call_of(function: str, name: str) -> str:
    """A call, named as Spark names it."""
    plain = name.replace("`", "")
    shown = "count(1)" if name == "*" else f"{function}({plain})"
    is_plain = name == "*" or is_name(name) or is_stream_column(name)
    return f"{function}({name if is_plain else quoted(plain)}) AS {quoted(shown)}"


def _key(each: Output | View) -> Output:
    if isinstance(each, View):
        raise QueryError(
            f"rows are grouped by {each.name}", why="it is a stream, not a column", how="name one of its columns"
        )
    return each


def _text(shape: Shape, method: str, item: object) -> str:
    text = item if isinstance(item, str) else shape.sql_of(item) if isinstance(item, SparkColumn) else None
    if text is None:
        raise UnsupportedError(
            f"{method} was given {item}",
            why="it cannot be written as SQL",
            how=f'write it as a text, as in {method}("A.x")',
        )
    return text
