"""SQL expressions: what a condition says, and of which columns.

1. Parse the text in Spark's dialect; refuse what has no meaning for a single row (subqueries, aggregates).
2. Find the references. A name bound by a lambda function (``x -> x + 1``) is not one.
3. Spell each reference as its schema does, in backquotes, and write the SQL again: equal expressions get equal texts.

A condition is a conjunction; its *conjuncts* are what the planner moves about. They can be joined with AND as they are.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
import pyarrow as pa
from sqlglot import exp

from watersmeet.model.errors import UnsupportedError
from watersmeet.model.plan import Column
from watersmeet.planning import dialect
from watersmeet.planning.names import Reference, Scope, Source

NULL_SAFE = "null_safe"
"""The field of the struct that holds a side of ``<=>``."""


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
    tree = parsed(condition, exp.Condition)
    if call := dialect.generator(tree):
        raise _refused(condition, "a generator", call)
    canonical = parsed(expression_of(tree, scope).sql, exp.Condition)
    return tuple(_conjunct(part, scope) for part in _flattened(canonical))


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
    tree = parsed(expression, exp.Expr)
    if any(not isinstance(star.parent, exp.Column) for star in tree.find_all(exp.Star)):
        return frozenset(scope.columns())
    return frozenset().union(*(_read_by(column, scope) for column in _names(tree, scope)))


def _read_by(column: exp.Column, scope: Scope) -> frozenset[Column]:
    parts = [identifier.name for identifier in path_of(column)[0]]
    if len(parts) == 1 and (stream := scope.stream(parts[0])):
        return scope.columns_of(stream.name)
    return frozenset({scope.reference(parts).column})


def parsed(sql: str, kind: type[exp.Expr]) -> exp.Expr:
    """The tree of an expression that is evaluated on one row alone."""
    tree = dialect.parse(sql, kind)
    if beyond := dialect.beyond_one_row(tree):
        raise _refused(sql, *beyond)
    return tree


def parse_item(sql: str) -> None:
    """Refuse what is no select item."""
    dialect.parse(sql, exp.Expr)


def _refused(sql: str, kind: str, at: exp.Expr) -> UnsupportedError:
    how = "compute it with Spark on the DataFrame before the join, or on the query's output"
    return UnsupportedError(
        f"'{sql}' has {kind}, {at.sql(dialect=dialect.Verbatim)}",
        why="it is evaluated on each row alone",
        how="tell it of groups, as in groupBy(...).agg(...)" if kind == "an aggregate" else how,
    )


def _flattened(tree: exp.Expr) -> Iterator[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from _flattened(tree.left)
        yield from _flattened(tree.right)
    elif isinstance(tree, exp.Or) and (common := _common_equalities(tree)):
        yield from common
        yield from _flattened_rest(tree, common)
    else:
        yield tree


def _branches(tree: exp.Expr) -> list[exp.Expr]:
    tree = tree.unnest()
    return [*_branches(tree.left), *_branches(tree.right)] if isinstance(tree, exp.Or) else [tree]


def _common_equalities(tree: exp.Or) -> list[exp.Expr]:
    """The equalities that hold whichever branch of an OR does."""
    first, *others = (list(_flattened(branch)) for branch in _branches(tree))
    return [each for each in first if equated(each) and all(each in other for other in others)]


def _flattened_rest(tree: exp.Or, common: list[exp.Expr]) -> Iterator[exp.Expr]:
    """What an OR still says once its common equalities are known to hold; nothing where a branch had no more."""
    branches = [[each for each in _flattened(branch) if each not in common] for branch in _branches(tree)]
    if all(branches):
        yield exp.or_(*(exp.and_(*branch) for branch in branches))


def _conjunct(tree: exp.Expr, scope: Scope) -> Conjunct:
    if isinstance(tree, exp.Null):  # by itself it has no type, and Spark filters by booleans
        tree = exp.cast(tree, exp.DataType.Type.BOOLEAN)
    whole = expression_of(exp.paren(tree) if isinstance(tree, exp.Or) else tree, scope)
    return Conjunct(**msgspec.structs.asdict(whole), sides=_sides(tree, scope))


def _sides(tree: exp.Expr, scope: Scope) -> tuple[Expression, Expression] | None:
    """The operands of an equality; none where Spark could read a chain such as ``a = b > c`` in another way."""
    found = equated(tree)
    if found is None or any(isinstance(side, exp.Predicate | exp.Not) for side in found):
        return None
    left, right = (_operand(side, scope) for side in found)
    return (_held(left), _held(right)) if isinstance(tree, exp.NullSafeEQ) else (left, right)


def equated(tree: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The two sides of ``x = y``, ``x IN (y)`` or ``x <=> y``."""
    if isinstance(tree, exp.EQ | exp.NullSafeEQ):
        return tree.left, tree.right
    if isinstance(tree, exp.In) and len(tree.expressions) == 1 and not tree.args.get("query"):
        return tree.this, tree.expressions[0]
    return None


def _held(side: Expression) -> Expression:
    """A side of ``<=>`` in a struct: two values are equal or both null if and only if such structs are equal."""
    type_ = None if side.type is None else pa.struct([pa.field(NULL_SAFE, side.type)])
    sql = f"NAMED_STRUCT('{NULL_SAFE}', {side.sql})"
    return Expression(sql, side.columns, None, type_, side.repeatable, side.collated)


def _operand(tree: exp.Expr, scope: Scope) -> Expression:
    """One side of an equality, in parentheses unless it is a name or a call."""
    tree = tree.unnest()
    is_closed = isinstance(tree, exp.Column | exp.Dot | exp.Anonymous | exp.Cast)
    return expression_of(tree if is_closed else exp.paren(tree), scope)


def expression_of(tree: exp.Expr, scope: Scope) -> Expression:
    """What a tree says, and of which columns."""
    tree = tree.copy()
    columns = set()
    plain: Reference | None = None
    for column in list(_names(tree, scope)):
        identifiers, top = path_of(column)
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
    return (column for column in tree.find_all(exp.Column) if not is_bound(column, scope.fold))


def is_bound(column: exp.Column, fold: Callable[[str], str]) -> bool:
    """Whether a name is a variable of a lambda function around it."""
    name = fold(column.parts[0].name)
    function = column.find_ancestor(exp.Lambda)
    while function:
        if name in {fold(variable.name) for variable in function.expressions}:
            return True
        function = function.find_ancestor(exp.Lambda)
    return False


def path_of(column: exp.Column) -> tuple[list[exp.Identifier], exp.Expr]:
    """The identifiers of a dotted name, and the node that holds them all."""
    identifiers = [part for part in column.parts if isinstance(part, exp.Identifier)]
    top: exp.Expr = column
    while isinstance(dot := top.parent, exp.Dot) and isinstance(dot.expression, exp.Identifier) and dot.this is top:
        identifiers.append(dot.expression)
        top = dot
    return identifiers, top
