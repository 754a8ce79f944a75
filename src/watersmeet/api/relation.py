"""`Relation`: a stream, or a join of streams, with filters and a projection."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column as SparkColumn

from watersmeet.driver.topology import Topology
from watersmeet.model.errors import QueryError
from watersmeet.model.plan import Plan
from watersmeet.model.query import FilterNode, JoinNode, Node, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.runners.spark.projection import Item, Projection, Select, Where
from watersmeet.runners.spark.types import empty_frame

if TYPE_CHECKING:
    from watersmeet.api.flow import Flow
    from watersmeet.api.writer import StreamWriter


class Relation:
    """Rows to come: one struct column per stream, until `select` says otherwise.

    Relations are values; every method gives a new one. Mistakes are told at once.
    """

    def __init__(self, flow: "Flow", node: Node, projection: Projection | None = None) -> None:
        self._flow, self._node, self._projection = flow, node, projection or Projection()

    def join(self, *others: "Relation", on: str) -> "Relation":
        """Join with other relations: an operator above this one.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> a, b = (flow.stream(name, rates) for name in "AB")
        >>> a.join(b, on="A.valu = B.value")
        Traceback (most recent call last):
        watersmeet.model.errors.UnknownNameError: ...did you mean 'A.value'?...
        """
        return join_relations(self._flow, (self, *others), on)

    def where(self, condition: Item) -> "Relation":
        """Keep the rows for which a condition holds; pushed below the joins where it is text.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> flow.stream("A", rates).where("A.value > 3")
        Relation(A)
        """
        if isinstance(condition, str) and not self._projection.steps:
            return self._checked(Relation(self._flow, FilterNode(self._node, condition)))
        return Relation(self._flow, self._node, Projection((*self._projection.steps, Where(condition))))

    filter = where

    def select(self, *items: Item | Sequence[Item]) -> "Relation":
        """Project to expressions: SQL texts as ``"A.x"``, ``"D.y AS y"`` or ``"A.*"``, or Spark's Columns.

        State keeps only the columns that are needed above; a Column cannot be looked into, so it needs all.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> a, b = (flow.stream(name, rates) for name in "AB")
        >>> a.join(b, on="A.value = B.value").select("A.value AS v", "B.timestamp").columns
        ['v', 'timestamp']
        """
        flat = [item for each in items for item in ([each] if isinstance(each, str | SparkColumn) else each)]
        if not flat:
            raise QueryError("select has no columns", why="a row needs at least one", how='write .select("A.x")')
        return self._checked(
            Relation(self._flow, self._node, Projection((*self._projection.steps, Select(tuple(flat)))))
        )

    selectExpr = select

    @property
    def columns(self) -> list[str]:
        """The names of the columns a sink gets."""
        rows = empty_frame(self._flow.spark, Topology(self.plan()).row_schema())
        return list(self._projection.apply(rows).columns)

    @property
    def writeStream(self) -> "StreamWriter":
        """Say where the rows go, and start.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> a, b = (flow.stream(name, rates) for name in "AB")
        >>> writer = a.join(b, on="A.value = B.value").writeStream.format("noop").option("sites", 2)
        """
        from watersmeet.api.writer import StreamWriter  # noqa: PLC0415 -- the writer needs relations in turn

        return StreamWriter(self._flow, self)

    @property
    def projection(self) -> Projection:
        """What Spark does to the joined rows."""
        return self._projection

    def plan(self) -> Plan:
        """The operators that will produce the rows."""
        query = Query(self._node, self._projection.needed, self._flow.case_sensitive)
        return plan(query, self._flow.type_of)

    def __repr__(self) -> str:
        return f"Relation({', '.join(_streams(self._node))})"

    def _checked(self, relation: "Relation") -> "Relation":
        if not isinstance(_core(relation._node), StreamNode):  # noqa: SLF001
            _ = relation.columns
        return relation


def join_relations(flow: "Flow", relations: Sequence[Relation], on: str) -> Relation:
    """An inner join, checked."""
    for relation in relations:
        _check_joinable(flow, relation)
    if len(relations) < 2:  # noqa: PLR2004
        raise QueryError("a join has one relation", why="there is nothing to join it with", how="give two or more")
    joined = Relation(flow, JoinNode(tuple(relation._node for relation in relations), on))  # noqa: SLF001
    joined.plan()
    return joined


def _check_joinable(flow: "Flow", relation: object) -> None:
    if not isinstance(relation, Relation):
        raise QueryError(
            f"join was given a {type(relation).__name__}",
            why="it joins the relations of a flow",
            how='register a streaming DataFrame first, as flow.stream("A", df)',
        )
    if relation._flow is not flow:  # noqa: SLF001
        raise QueryError(
            f"{relation} belongs to another flow", why="a query has one flow", how="register all streams in one Flow"
        )
    if relation.projection.steps:
        raise QueryError(
            f"{relation} was projected or filtered by a Column before the join",
            why="a join needs its streams' own columns",
            how="join first and select last; filter with text, as .where('A.x > 3')",
        )


def _core(node: Node) -> Node:
    while isinstance(node, FilterNode):
        node = node.input
    return node


def _streams(node: Node) -> list[str]:
    if isinstance(node, StreamNode):
        return [node.name]
    children = node.inputs if isinstance(node, JoinNode) else (node.input,)
    return [name for child in children for name in _streams(child)]
