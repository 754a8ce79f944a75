"""What a relation is: joins and filters over streams, the columns it shows, and what only Spark can do to them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from watersmeet.model.plan import Plan, quoted
from watersmeet.model.query import AggregateNode, FilterNode, Mode, Node, Query
from watersmeet.planning import plan
from watersmeet.planning.predicates import numbered
from watersmeet.planning.promises import with_punctuations
from watersmeet.planning.tree import streams_of
from watersmeet.planning.views import Output, View
from watersmeet.runners.spark.columns import sql_of
from watersmeet.runners.spark.projection import Item, Projection, Select, Step, Where, aggregates

if TYPE_CHECKING:
    from watersmeet.api.flow import Flow


@dataclass(frozen=True)
class Shape:
    """The parts of a relation; each method that changes one has Spark check the outcome at once.

    What an aggregate has ``made`` is a struct of its name, with the columns of its groups.
    """

    flow: "Flow"
    node: Node
    view: View
    steps: Projection = field(default_factory=Projection)
    made: tuple[str, StructType] | None = None

    @property
    def streams(self) -> list[str]:
        """The names of the streams below."""
        return [stream.name for stream in streams_of(self.node)]

    @property
    def is_open(self) -> bool:
        """Whether the planner can still look into it: nothing is left to Spark."""
        return not self.steps.steps and self.made is None

    @property
    def projection(self) -> Projection:
        """All that Spark does to the joined rows."""
        if self.view.is_plain and [each.name for each in self.view.members] == self.streams:
            return self.steps
        return Projection((_items(self.view), *self.steps.steps))

    @property
    def is_aggregate(self) -> bool:
        """Whether it shows groups, which come again whenever they change if the output mode says so.

        What is told of the latest rows of a group is never final: it comes with every change, whatever the mode.
        """
        return isinstance(self.node, AggregateNode) and self.node.mode != "first" and self.node.history is None

    def plan(self, mode: Mode | None = None, *, endless: bool = True) -> Plan:
        """The operators that will produce the rows; ``mode`` tells when groups come out.

        Whether a join on any condition may be ``endless``, without windows, is known when a query of it is started.
        """
        node, _ = numbered(with_punctuations(self.node, self.flow.punctuated))
        if isinstance(node, AggregateNode):
            node = msgspec.structs.replace(node, mode=mode) if mode and self.is_aggregate else node
            return plan(Query(node, None, self.flow.case_sensitive), self.flow.type_of, endless=endless)
        needed = tuple(each.sql for each in self.view.outputs)
        return plan(Query(node, needed, self.flow.case_sensitive), self.flow.type_of, endless=endless)

    @property
    def functions(self) -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
        """The functions that joins are on, with the columns they read, by the names they have in the plan."""
        _, names = numbered(self.node)
        return {new: self.flow.predicates[old] for new, old in names.items()}

    def frame(self) -> DataFrame:
        """A DataFrame without rows that has the relation's columns."""
        return self.steps.apply(_shown(self.view, self.row()))

    def text(self, item: Item) -> str | None:
        """An item as SQL that the planner can look into; None where only Spark can evaluate it."""
        if not self.is_open:
            return None
        return item if isinstance(item, str) else self.sql_of(item)

    def sql_of(self, column: SparkColumn) -> str | None:
        """A Column over this relation as SQL, if it has any."""
        return sql_of(column, (make() for make in (self.frame, self._opened)))

    def spark_name(self, sql: str) -> str:
        """What Spark calls an expression over the streams' own columns."""
        return str(Projection((Select((sql,)),)).apply(self.row()).columns[0])

    def checked(self, condition: str) -> "Shape":
        """Itself, if Spark takes a condition over the streams' own columns for one."""
        Projection((Where(condition),)).apply(self.row())
        return self

    def filtered(self, condition: str) -> "Shape":
        """With the rows for which a condition over the streams' own columns holds."""
        return replace(self, node=FilterNode(self.node, condition)).checked(condition)

    def showing(self, members: tuple[Output | View, ...]) -> "Shape":
        """With other columns. A stream stays one, under its name, with other columns."""
        old = self.view
        view = View(members, old.name, shared=old.shared, case_sensitive=old.case_sensitive, how=old.how)
        shown = replace(self, view=view)
        shown.frame()
        return shown

    def and_then(self, step: Step) -> "Shape":
        """With one more thing that only Spark can do."""
        shape = replace(self, steps=Projection((*self.steps.steps, step)))
        top = shape.frame()._jdf.queryExecution().analyzed()  # noqa: SLF001 -- only the analysed plan knows
        if top.getClass().getSimpleName() == "Aggregate":
            raise aggregates()
        return shape

    def row(self) -> DataFrame:
        """A DataFrame without rows that has what expressions over the streams' own columns speak of."""
        if self.made is not None:
            name, schema = self.made
            return self.flow.spark.range(0).select(F.lit(None).cast(schema).alias(name))
        return self.flow.row_frame(self.streams)

    def _opened(self) -> DataFrame:
        """The columns of streams by themselves, as Spark has them in a join."""
        row = self.row()
        frames = [(each.name, _shown(each, row)) for each in self.view.opened()]
        return reduce(DataFrame.crossJoin, (frame.alias(name) if name else frame for name, frame in frames))


def _items(view: View) -> Select:
    return Select(tuple(f"{each.sql} AS {quoted(each.name)}" for each in view.outputs))


def _shown(view: View, row: DataFrame) -> DataFrame:
    return Projection((_items(view),)).apply(row)
