"""Joins as Spark's users write them: by columns that both sides have, by SQL, or by Columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame

from watersmeet.api.predicate import Predicate
from watersmeet.api.shape import Shape
from watersmeet.model.errors import QueryError, UnsupportedError
from watersmeet.model.query import AggregateNode, JoinNode
from watersmeet.planning.dialect import is_condition, is_name
from watersmeet.planning.expressions import conjuncts
from watersmeet.planning.kinds import kind_of
from watersmeet.planning.names import Scope, check_names
from watersmeet.planning.predicates import has_predicate
from watersmeet.planning.tree import streams_of
from watersmeet.planning.views import View, joined_view

if TYPE_CHECKING:
    from watersmeet.api.flow import Flow
    from watersmeet.api.relation import Relation

On = str | SparkColumn | Predicate | Sequence[str | SparkColumn | Predicate]


def join_relations(flow: "Flow", given: Sequence[object], on: object, how: object) -> "Relation":
    """A join, checked. After the relations, ``on`` and ``how`` may come by position."""
    from watersmeet.api.relation import Relation  # noqa: PLC0415 -- a relation joins others

    relations = [each for each in given if isinstance(each, Relation)]
    on, how = _by_position(given[len(relations) :], on, how)
    if stray := next((each for each in given[: len(relations)] if not isinstance(each, Relation)), None):
        raise _not_relations(stray)
    for relation in relations:
        _check_joinable(flow, relation)
    if len(relations) < 2:  # noqa: PLR2004
        raise QueryError("a join has one relation", why="there is nothing to join it with", how="give two or more")
    kind = kind_of(how)
    streams = [stream for relation in relations for stream in streams_of(relation.shape.node)]
    check_names(streams, case_sensitive=flow.case_sensitive)
    shapes = [relation.shape for relation in relations]
    shared, condition = _condition(flow, shapes, on)
    node = JoinNode(tuple(each.node for each in shapes), condition, kind)
    joined = Shape(flow, node, joined_view([each.view for each in shapes], shared, kind))
    joined.plan()
    return Relation(joined.checked(_without_predicates(condition, joined)))


def _by_position(rest: Sequence[object], on: object, how: object) -> tuple[object, object]:
    if not rest:
        return on, how
    if on is None and not _looks_like_data(rest[0]):
        on, rest = rest[0], rest[1:]
    if rest and how is None and (rest[0] is None or isinstance(rest[0], str)):
        how, rest = rest[0], rest[1:]
    if rest:
        raise _not_relations(rest[0])
    return on, how


def _looks_like_data(given: object) -> bool:
    return isinstance(given, DataFrame) or given is None or isinstance(given, int | float)


def _condition(flow: "Flow", shapes: Sequence[Shape], on: object) -> tuple[list[str], str]:
    """The names both sides share, where the join is on such, and the condition over the streams' own columns."""
    views = [each.view for each in shapes]
    parts = [on] if isinstance(on, str | SparkColumn | Predicate) else on
    if not isinstance(parts, list | tuple) or not parts:
        raise _no_condition(on)
    if _are_names(on):
        names = [str(part) for part in parts]
        return names, " AND ".join(_equal(views, name) for name in names)
    row = joined_view(views)
    both = Shape(flow, JoinNode(tuple(each.node for each in shapes), "TRUE"), row)
    texts = [part if isinstance(part, str) else _sql_of(part, both) for part in parts]
    return [], " AND ".join(f"({row.rewritten(text)})" if len(texts) > 1 else row.rewritten(text) for text in texts)


def _are_names(on: object) -> bool:
    """Whether it is a name, or a list of names, odd ones included; a list with a condition in it is of conditions."""
    if isinstance(on, str):
        return is_name(on)
    return isinstance(on, list | tuple) and all(isinstance(part, str) and not is_condition(part) for part in on)


def _without_predicates(condition: str, joined: Shape) -> str:
    """A condition as Spark can analyse it: user functions are replaced."""
    if not has_predicate(condition):
        return condition
    scope = Scope(streams_of(joined.node), case_sensitive=joined.flow.case_sensitive)
    texts = [each.sql for each in conjuncts(condition, scope) if not has_predicate(each.sql)]
    return " AND ".join(texts) or "TRUE"


def _sql_of(part: object, both: Shape) -> str:
    if isinstance(part, Predicate):
        return part.call(both.flow.add_predicate(part))
    if not isinstance(part, SparkColumn):
        raise _no_condition(part)
    text = both.sql_of(part)
    if text is None:
        raise UnsupportedError(
            f"the join is on {part}",
            why="Spark can call a Python function on results alone, and rows are joined before",
            how="compute it as a column of the DataFrame before flow.stream(...), and join on that; or give a "
            'function of Arrow arrays, as wm.predicate(fn, "A.x", "B.y")',
        )
    return text


def _equal(views: Sequence[View], name: str) -> str:
    first, *others = (view.rewritten(name if is_name(name) else f"`{name}`") for view in views)
    return " AND ".join(f"{first} = {other}" for other in others)


def _check_joinable(flow: "Flow", relation: "Relation") -> None:
    if relation.shape.flow is not flow:
        raise QueryError(
            f"{relation} belongs to another flow", why="a query has one flow", how="register all streams in one Flow"
        )
    if isinstance(relation.shape.node, AggregateNode):
        raise UnsupportedError(
            f"an aggregate of {relation} is joined",
            why="rows are grouped after all joins of a query",
            how="join first and group then, or write the groups to a table and join what is read from it",
        )
    if not relation.shape.is_open:
        raise QueryError(
            f"{relation} has a column that cannot be read as SQL before the join",
            why="only Spark can evaluate it, and rows are joined before Spark sees them again",
            how="compute it on the DataFrame before flow.stream(...), or join first and compute it last",
        )


def _not_relations(given: object) -> QueryError:
    return QueryError(
        f"join was given {_article(type(given).__name__)}",
        why="it joins the relations of a flow, then takes on and how",
        how='register a streaming DataFrame first, as flow.stream("A", df), and write a.join(b, "id")',
    )


def _no_condition(on: object) -> QueryError:
    what = "the join has no condition" if on is None or on in ([], ()) else f"on is {on!r}"
    return QueryError(
        what,
        why="it is what decides which rows are joined",
        how='write a.join(b, "id"), a.join(b, ["id", "day"]), or on="A.id = B.order" as SQL or as a Column',
    )


def _article(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"
