"""`Relation`: a stream, or a join of streams, with filters and a projection. The counterpart of Spark's DataFrame."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from watersmeet.api.arguments import columns_of, item_of, items_of, name_of, names_of
from watersmeet.api.distinct import distinct
from watersmeet.api.grouping import GroupedRelation, grouped
from watersmeet.api.joining import On, join_relations
from watersmeet.api.options import DEFAULT_GROUPS
from watersmeet.api.refusals import refused_call
from watersmeet.api.shape import Shape
from watersmeet.model.errors import QueryError, UnknownAttributeError, UnknownNameError
from watersmeet.model.plan import Plan, quoted
from watersmeet.planning.describe import explain
from watersmeet.planning.dialect import is_repeatable_text, makes_rows
from watersmeet.planning.rename import renamed_node, renamed_view
from watersmeet.planning.views import Output, View, item_rewritten, selected
from watersmeet.runners.spark.projection import Call, Item, Projection, Select, Step, Where
from watersmeet.runners.spark.session import default_sites

if TYPE_CHECKING:
    from watersmeet.api.writer import StreamWriter

P = ParamSpec("P")


class Relation:
    """Streaming rows: one struct column per stream, until `select` changes that.

    Relations are immutable; every method returns a new one, and raises at once if the call is wrong. Columns are named
    as in Spark: ``"A.x"``, ``F.col("A.x")``, ``a.x`` or ``a["x"]``; the stream can be omitted where only one has the
    column.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape, self._flow, self._view = shape, shape.flow, shape.view

    def join(self, *others: "Relation | On", on: On | None = None, how: str | None = None) -> "Relation":
        """Join with other relations in an operator above this one. ``on`` and ``how`` may be positional, as in Spark.

        ``on`` is a column that all have, a list of such columns, a condition in SQL, or Columns or predicates.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> a, b = (flow.stream(name, rates) for name in "AB")
        >>> a.join(b, "value").select("value", "A.timestamp").columns
        ['value', 'timestamp']
        >>> a.join(b, a.value == b.value, "inner")
        Relation(A, B)
        >>> a.join(b, on="A.valu = B.value")
        Traceback (most recent call last):
        watersmeet.model.errors.UnknownNameError: ...did you mean 'A.value'?...
        """
        return join_relations(self._flow, (self, *others), on, how)

    def where(self, condition: Item) -> "Relation":
        """Keep the rows for which a condition holds; the condition is pushed below the joins.

        A Column that has no SQL, such as a Python UDF, is evaluated on the results.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> flow.stream("A", rates).where("A.value > 3")
        Relation(A)
        """
        item = item_of("where", condition)
        text = self._shape.text(item)
        if text is None:
            return self._and_then(Where(item))
        return Relation(self._shape.filtered(self._view.rewritten(text)))

    filter = where

    def select(self, *items: Item | list[Item]) -> "Relation":
        """Project to expressions: SQL texts as ``"A.x"``, ``"D.y AS y"`` or ``"A.*"``, or Spark's Columns.

        State keeps only the columns that the query needs, or all if there is a Column without SQL.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> a, b = (flow.stream(name, rates) for name in "AB")
        >>> a.join(b, on="A.value = B.value").select("A.value AS v", "B.timestamp").columns
        ['v', 'timestamp']
        """
        flat = items_of("select", items)
        texts = [self._shape.text(item) for item in flat]
        if any(text is None or makes_rows(text) or not is_repeatable_text(text) for text in texts):
            is_rows = self._view.is_plain and self._shape.is_open
            shown = [item_rewritten(self._view, each) if isinstance(each, str) and is_rows else each for each in flat]
            return self._and_then(Select(tuple(shown)))
        return self._showing(selected(self._view, [text for text in texts if text], self._shape.spark_name))

    def groupBy(self, *cols: Item | list[Item]) -> GroupedRelation:
        """Group rows by columns or expressions, as ``"A.k"`` or ``"window(A.ts, '1 minute')"``; then `agg`.

        With ``outputMode("append")`` a group is emitted once, when no row for it can arrive any more; with ``"update"``
        whenever it has changed.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> a, b = (flow.stream(name, rates, time="timestamp", window="1 hour", watermark="1 minute") for name in "AB")
        >>> hourly = a.join(b, "value").groupBy("window(A.timestamp, '1 hour')").agg("count(*) AS n")
        >>> hourly.columns
        ['window', 'n']
        """
        return grouped(self._shape, cols)

    groupby = groupBy

    def distinct(self) -> "Relation":
        """Distinct rows: each is emitted once, when it first arrives.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.select("value % 10 AS digit").distinct().columns
        ['digit']
        """
        return Relation(distinct(self._shape, None))

    def dropDuplicates(self, subset: list[str] | None = None) -> "Relation":
        """Rows with distinct values in some columns: the first to arrive; of several in one epoch, any of them.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.dropDuplicates(["value"]).columns
        ['timestamp', 'value']
        """
        return Relation(distinct(self._shape, None if subset is None else names_of("dropDuplicates", subset)))

    drop_duplicates = dropDuplicates

    def selectExpr(self, *expr: str | list[str]) -> "Relation":
        """Project to SQL expressions.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.selectExpr("value + 1 AS next").columns
        ['next']
        """
        return self.select(*names_of("selectExpr", expr))

    def withColumn(self, colName: str, col: Item) -> "Relation":
        """Add a column, or replace the one of that name.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.withColumn("half", rates.value / 2).columns
        ['timestamp', 'value', 'half']
        """
        name, item = name_of("withColumn", colName), item_of("withColumn", col)
        text = self._shape.text(item)
        if text is None or not is_repeatable_text(text):
            return self._and_then(Call("withColumn", (name, F.expr(item) if isinstance(item, str) else item)))
        new = Output(name, self._view.rewritten(text))
        if not any(self._is(each, name) for each in self._view.members):
            return self._showing((*self._view.members, new))
        return self._showing(tuple(new if self._is(each, name) else each for each in self._view.members))

    def withColumns(self, colsMap: Mapping[str, Item]) -> "Relation":
        """Add or replace several columns."""
        relation = self
        for name, item in columns_of("withColumns", colsMap).items():
            relation = relation.withColumn(name, item)
        return relation

    def withColumnRenamed(self, existing: str, new: str) -> "Relation":
        """Rename a column; as in Spark, an unknown name is ignored.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.withColumnRenamed("value", "id").columns
        ['timestamp', 'id']
        """
        old, name = name_of("withColumnRenamed", existing), name_of("withColumnRenamed", new)
        if not self._shape.is_open:
            return self._and_then(Call("withColumnRenamed", (old, name)))
        return self._showing(tuple(each.called(name) if self._is(each, old) else each for each in self._view.members))

    def withColumnsRenamed(self, colsMap: Mapping[str, str]) -> "Relation":
        """Rename several columns."""
        relation = self
        for old, new in columns_of("withColumnsRenamed", colsMap).items():
            relation = relation.withColumnRenamed(old, str(new))
        return relation

    def drop(self, *cols: Item) -> "Relation":
        """Drop columns; as in Spark, unknown names are ignored.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.drop("timestamp").columns
        ['value']
        """
        given = items_of("drop", cols)
        if not self._shape.is_open:
            return self._and_then(Call("drop", tuple(given)))
        texts = [each if isinstance(each, str) else self._shape.text(each) or "" for each in given]
        left = [each for each in self._view.members if not any(self._names(text, each) for text in texts)]
        if not left:
            raise QueryError("drop leaves no columns", why="a row needs at least one", how="keep one of them")
        return self._showing(tuple(left))

    def alias(self, alias: str) -> "Relation":
        """Give the relation a name: its columns are then ``V.x``, and in a joined row it is the struct column ``V``.

        A stream under an alias is a separate stream, so a stream can be joined with itself.

        >>> import watersmeet as wm
        >>> rates = wm.Flow(spark).stream("A", spark.readStream.format("rate").load())
        >>> rates.join(rates.alias("B"), "A.value = B.value")
        Relation(A, B)
        """
        name, streams = name_of("alias", alias), self._shape.streams
        if name == self._view.name:
            return self
        if len(streams) > 1 or not self._shape.is_open:
            self._flow.check_name(name, taken=())
            return Relation(replace(self._shape, view=self._view.called(name)))
        self._flow.add_alias(streams[0], name)
        node = renamed_node(self._shape.node, streams[0], name)
        return Relation(Shape(self._flow, node, renamed_view(self._view, streams[0], name)))

    def transform(
        self, func: "Callable[Concatenate[Relation, P], Relation]", *args: P.args, **kwargs: P.kwargs
    ) -> "Relation":
        """Apply a function that takes and returns a relation, for chaining."""
        made = func(self, *args, **kwargs)
        if not isinstance(made, Relation):
            raise QueryError(
                f"the function given to transform made {made!r}",
                why="it must return a relation",
                how="return the result of a method of the relation",
            )
        return made

    @property
    def schema(self) -> StructType:
        """The schema of the rows that a sink gets.

        >>> import watersmeet as wm
        >>> wm.Flow(spark).stream("A", spark.readStream.format("rate").load()).schema.simpleString()
        'struct<timestamp:timestamp,value:bigint>'
        """
        return self._shape.frame().schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns a sink gets."""
        return (
            list(self._shape.frame().columns) if not self._shape.is_open else [each.name for each in self._view.outputs]
        )

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """The names of the columns and their types."""
        return list(self._shape.frame().dtypes)

    @property
    def isStreaming(self) -> bool:
        """True: a relation is a stream."""
        return True

    @property
    def sparkSession(self) -> Any:
        """The session of the flow."""
        return self._flow.spark

    def printSchema(self, level: int | None = None) -> None:
        """Print the columns and types as a tree."""
        self._shape.frame().printSchema(level)

    def explain(self, extended: object = None, mode: object = None) -> None:
        """Print the plan: operators, keys, and the columns in the state. The arguments are Spark's, and have no effect.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> a, b = (flow.stream(name, rates) for name in "AB")
        >>> a.join(b, "value").select("value").explain()
        1 operator over 2 streams; 300 partition groups an operator, on ... sites
        <BLANKLINE>
        join1 joins A, B
            on A.value = B.value (bigint, decided by the hash)
        ...
        """
        del extended, mode
        text = explain(self.plan(), DEFAULT_GROUPS, default_sites(self._flow.spark))
        print(text)  # noqa: T201 -- that is what it is for

    @property
    def writeStream(self) -> "StreamWriter":
        """The writer that sets the sink and starts the query.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> a, b = (flow.stream(name, rates) for name in "AB")
        >>> writer = a.join(b, on="A.value = B.value").writeStream.format("noop").option("sites", 2)
        """
        from watersmeet.api.writer import StreamWriter  # noqa: PLC0415 -- the writer needs relations in turn

        return StreamWriter(self._flow, self)

    @property
    def shape(self) -> Shape:
        """The parts of the relation."""
        return self._shape

    @property
    def projection(self) -> Projection:
        """All that Spark does to the joined rows."""
        return self._shape.projection

    def plan(self) -> Plan:
        """The operators that will produce the rows."""
        return self._shape.plan()

    def _showing(self, members: tuple[Output | View, ...]) -> "Relation":
        return Relation(self._shape.showing(members))

    def _and_then(self, step: Step) -> "Relation":
        return Relation(self._shape.and_then(step))

    def _is(self, member: Output | View, name: str) -> bool:
        return self._view.fold(member.name or "") == self._view.fold(name)

    def _names(self, text: str, member: Output | View) -> bool:
        if self._is(member, text):
            return True
        try:
            return self._view.rewritten(text) == member.sql
        except QueryError:
            return False

    def __getitem__(self, item: object) -> Any:
        if isinstance(item, SparkColumn):
            return self.where(item)
        if isinstance(item, list | tuple):
            return self.select(*item)
        if isinstance(item, int) and not isinstance(item, bool):
            item = self.columns[item] if -len(self.columns) <= item < len(self.columns) else f"#{item}"
        name = name_of("[]", item)
        if self._shape.is_open:
            self._view.find([name])
        return F.col(f"{quoted(self._view.name)}.{quoted(name)}" if self._view.name else quoted(name))

    def __getattr__(self, name: str) -> SparkColumn:
        if name.startswith("_"):
            raise AttributeError(name)
        if refused := refused_call(name):
            raise refused
        try:
            column: SparkColumn = self[name]
        except UnknownNameError as error:
            raise UnknownAttributeError(error.what, why=error.why, how=error.how) from error
        return column

    def __repr__(self) -> str:
        return f"Relation({', '.join(self._shape.streams)})"
