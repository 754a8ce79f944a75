"""A stream under another name, in the conditions and columns of a relation."""

from typing import overload

import msgspec
from sqlglot import exp

from watersmeet.model.errors import UnsupportedError
from watersmeet.model.plan import Column
from watersmeet.model.query import FilterNode, Node, StreamNode
from watersmeet.planning import dialect
from watersmeet.planning.expressions import is_bound, parsed
from watersmeet.planning.views import Output, View


def renamed_sql(sql: str, old: str, new: str) -> str:
    """Canonical SQL with another name for a stream.

    >>> renamed_sql("UPPER(`A`.`x`) > 'A'", "A", "B")
    "UPPER(`B`.`x`) > 'A'"
    """
    tree = parsed(sql, exp.Condition)
    for column in tree.find_all(exp.Column):
        if not is_bound(column, str) and column.parts[0].name == old:
            column.parts[0].set("this", new)
    return dialect.write(tree)


def renamed_node(node: Node, old: str, new: str) -> Node:
    """A stream and the filters on it, under another name."""
    if isinstance(node, StreamNode):
        return msgspec.structs.replace(node, name=new)
    if isinstance(node, FilterNode):
        return FilterNode(renamed_node(node.input, old, new), renamed_sql(node.condition, old, new))
    raise UnsupportedError("a join cannot be renamed", why="it has several streams", how="give it an alias")


@overload
def renamed_view(view: View, old: str, new: str) -> View: ...
@overload
def renamed_view(view: Output, old: str, new: str) -> Output: ...
def renamed_view(view: View | Output, old: str, new: str) -> View | Output:
    """The columns of a stream under another name."""
    if isinstance(view, Output):
        origin = Column(new, view.origin.field) if view.origin and view.origin.stream == old else view.origin
        return Output(view.name, renamed_sql(view.sql, old, new), origin)
    members = tuple(renamed_view(each, old, new) for each in view.members)
    stream = new if view.stream == old else view.stream
    return msgspec.structs.replace(view, members=members, name=new if view.name == old else view.name, stream=stream)
