"""SQL expressions: what a condition says, and of which columns.

1. Parse the text in Spark's dialect; refuse what has no meaning for a single row (subqueries, aggregates).
2. Find the references. A name bound by a lambda function (``x -> x + 1``) is not one.
3. Spell each reference as its schema does, in backquotes, and write the SQL again: equal expressions get equal texts.

A condition is a conjunction; its *conjuncts* are what the planner moves about. They can be joined with AND as they are.
"""

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
from sqlglot import exp

from watersmeet.model.errors import UnsupportedError
from watersmeet.model.plan import Column
from watersmeet.planning import dialect
from watersmeet.planning.names import Reference, Scope, Source


class Expression(msgspec.Struct, frozen=True):
    """A SQL expression over columns, canonically spelled.

    ``column`` is set where the expression is a column and nothing else; ``type`` where the schemas tell it.
    ``repeatable`` is False for functions such as ``rand()``, and ``collated`` is True where COLLATE redefines equality.
    """

    sql: str
    columns: frozenset[Column]
    column: Column | None = None
    type: pa.DataType | None = None
    repeatable: bool = True
    collated: bool = False

    @property
    def streams(self) -> frozenset[str]:
        """The streams the expression reads."""
        return frozenset(column.stream for column in self.columns)


class Conjunct(Expression, frozen=True):
    """One condition of a conjunction; ``sides`` are the two operands where it is an equality."""

    sides: tuple[Expression, Expression] | None = None


def conjuncts(condition: str, scope: Scope) -> tuple[Conjunct, ...]:
    """The conditions that must all hold for the whole one to hold.

    >>> from watersmeet.model.query import StreamNode
    >>> scope = Scope([StreamNode("A", pa.schema([("x", pa.int64()), ("y", pa.int64())]))])
    >>> [conjunct.sql for conjunct in conjuncts("a.X > 3 and (a.y = 1 or a.y = 2)", scope)]
    ['`A`.`x` > 3', '(`A`.`y` = 1 OR `A`.`y` = 2)']
    """
    tree = _parsed(condition, exp.Condition)
    if call := dialect.generator(tree):
        raise _refused(condition, "a generator", call)
    return tuple(_conjunct(part, scope) for part in _flattened(tree))


def columns_of(expression: str, streams: Iterable[Source], *, case_sensitive: bool = False) -> frozenset[Column]:
    """The columns a select item reads. ``A`` and ``A.*`` are all columns of stream A, ``*`` is all there are.

    >>> from watersmeet.model.query import StreamNode
    >>> a = StreamNode("A", pa.schema([("x", pa.int64()), ("y", pa.int64())]))
    >>> columns_of("upper(A.x) AS name", [a])
    frozenset({Column(stream='A', field='x')})
    >>> sorted(column.name for column in columns_of("A.*", [a]))
    ['A.x', 'A.y']
    """
    return columns_read(expression, Scope(streams, case_sensitive=case_sensitive))


def columns_read(expression: str, scope: Scope) -> frozenset[Column]:
    """The columns an expression reads; see `columns_of`."""
    tree = _parsed(expression, exp.Expr)
    if any(not isinstance(star.parent, exp.Column) for star in tree.find_all(exp.Star)):
        return frozenset(scope.columns())
    return frozenset().union(*(_read_by(column, scope) for column in _names(tree, scope)))


def _read_by(column: exp.Column, scope: Scope) -> frozenset[Column]:
    parts = [identifier.name for identifier in _path(column)[0]]
    if len(parts) == 1 and (stream := scope.stream(parts[0])):
        return scope.columns_of(stream.name)
    return frozenset({scope.reference(parts).column})


def _parsed(sql: str, kind: type[exp.Expr]) -> exp.Expr:
    tree = dialect.parse(sql, kind)
    if beyond := dialect.beyond_one_row(tree):
        raise _refused(sql, *beyond)
    return tree


def _refused(sql: str, kind: str, at: exp.Expr) -> UnsupportedError:
    return UnsupportedError(
        f"'{sql}' has {kind}, {at.sql(dialect=dialect.Verbatim)}",
        why="it is evaluated on each row alone",
        how="compute it with Spark on the DataFrame before the join, or on the query's output",
    )


def _flattened(tree: exp.Expr) -> Iterator[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from _flattened(tree.left)
        yield from _flattened(tree.right)
    else:
        yield tree


def _conjunct(tree: exp.Expr, scope: Scope) -> Conjunct:
    whole = _expression(exp.paren(tree) if isinstance(tree, exp.Or) else tree, scope)
    return Conjunct(**msgspec.structs.asdict(whole), sides=_sides(tree, scope))


def _sides(tree: exp.Expr, scope: Scope) -> tuple[Expression, Expression] | None:
    """The operands of an equality; none where Spark could read a chain such as ``a = b > c`` in another way."""
    if not isinstance(tree, exp.EQ):
        return None
    if isinstance(tree.left, exp.Predicate | exp.Not) or isinstance(tree.right, exp.Predicate | exp.Not):
        return None
    return _operand(tree.left, scope), _operand(tree.right, scope)


def _operand(tree: exp.Expr, scope: Scope) -> Expression:
    """One side of an equality, in parentheses unless it is a name or a call."""
    tree = tree.unnest()
    is_closed = isinstance(tree, exp.Column | exp.Dot | exp.Anonymous | exp.Cast)
    return _expression(tree if is_closed else exp.paren(tree), scope)


def _expression(tree: exp.Expr, scope: Scope) -> Expression:
    tree = tree.copy()
    columns = set()
    plain: Reference | None = None
    for column in list(_names(tree, scope)):
        identifiers, top = _path(column)
        reference = scope.reference([identifier.name for identifier in identifiers])
        for identifier, part in zip(identifiers, reference.parts, strict=True):
            identifier.set("this", part)
        columns.add(reference.column)
        plain = reference if top is tree else plain
    return Expression(
        sql=dialect.write(tree),
        columns=frozenset(columns),
        column=plain.column if plain and not plain.nested else None,
        type=plain.type if plain else None,
        repeatable=dialect.is_repeatable(tree),
        collated=dialect.is_collated(tree),
    )


def _names(tree: exp.Expr, scope: Scope) -> Iterator[exp.Column]:
    """The columns named in an expression, without the variables of lambda functions."""
    return (column for column in tree.find_all(exp.Column) if not _is_bound(column, scope))


def _is_bound(column: exp.Column, scope: Scope) -> bool:
    name = scope.fold(column.parts[0].name)
    function = column.find_ancestor(exp.Lambda)
    while function:
        if name in {scope.fold(variable.name) for variable in function.expressions}:
            return True
        function = function.find_ancestor(exp.Lambda)
    return False


def _path(column: exp.Column) -> tuple[list[exp.Identifier], exp.Expr]:
    """The identifiers of a dotted name, and the node that holds them all."""
    identifiers = [part for part in column.parts if isinstance(part, exp.Identifier)]
    top: exp.Expr = column
    while isinstance(dot := top.parent, exp.Dot) and isinstance(dot.expression, exp.Identifier) and dot.this is top:
        identifiers.append(dot.expression)
        top = dot
    return identifiers, top
