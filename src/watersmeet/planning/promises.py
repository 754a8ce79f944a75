"""The columns of a stream that promises name: checked, before anything runs."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from watersmeet.model.errors import TypeMismatchError, UnknownNameError, UnsupportedError, nearest
from watersmeet.model.plan import Column
from watersmeet.model.query import JoinNode, Node, StreamNode
from watersmeet.planning.names import Scope
from watersmeet.planning.types import ddl, may_be_key

COLUMNS_MOST = 31


def named_columns(stream: StreamNode, names: Sequence[str], scope: Scope) -> tuple[Column, ...]:
    """The columns of a stream that punctuations or ``unique`` name, in the stream's order."""
    own = {scope.fold(column.field): column for column in scope.columns() if column.stream == stream.name}
    for name in names:
        if scope.fold(name) not in own:
            raise UnknownNameError(
                f"stream {stream.name} has no column {name}, which a promise names",
                why="a promise is about the stream's own columns",
                how=f"check the spelling ({nearest(name, [column.field for column in own.values()])})",
            )
    if len(names) > COLUMNS_MOST:
        raise UnsupportedError(
            f"punctuations name {len(names)} columns of stream {stream.name}",
            why=f"they may name {COLUMNS_MOST}",
            how="select those that have values in them",
        )
    wanted = {scope.fold(name) for name in names}
    found = tuple(column for folded, column in own.items() if folded in wanted)
    for column in found:
        if not may_be_key(scope.types[column]) or str(scope.types[column]).startswith(("struct", "list")):
            raise TypeMismatchError(
                f"column {column.name} of type {ddl(scope.types[column])} cannot be promised",
                why="promises are about integers, decimals, floats, strings, booleans, dates and timestamps",
                how="name another column, or make one of its parts a column of the stream",
            )
    return found


def with_punctuations(node: Node, columns: Mapping[str, tuple[str, ...]]) -> Node:
    """A query whose streams have punctuations, which name these columns."""
    if isinstance(node, StreamNode):
        return replace(node, punctuated=columns[node.name]) if node.name in columns else node
    if isinstance(node, JoinNode):
        return replace(node, inputs=tuple(with_punctuations(each, columns) for each in node.inputs))
    return replace(node, input=with_punctuations(node.input, columns))
