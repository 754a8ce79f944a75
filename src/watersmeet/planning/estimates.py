"""Arithmetic on columns of two streams, as a test that can be asked before Spark is (`watersmeet.operators.estimates`).

    SQRT(POW(A.x - B.x, 2) + POW(A.y - B.y, 2)) < 3

Only what is made of these is known; what concerns one stream alone is a column. Of decimals, Spark rounds products and
quotients in ways of its own, so they are left to it.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa
from sqlglot import exp

from watersmeet.model.plan import Test
from watersmeet.planning.types import is_integer

Leaf = Callable[[exp.Expr], str | None]
"""The column that holds what is made of one stream's columns; None where a tree reads several."""

KNOWN_MOST = 1e18
"""Sums and products beyond may overflow."""

_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply", exp.Div: "divide"}
_SQUARE = exp.Literal.number(2)


def compared(tree: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """What is less than what, or the same, if a condition holds.

    >>> import sqlglot
    >>> [f"{less.sql()} <= {more.sql()}" for less, more in compared(sqlglot.parse_one("a.x * b.x BETWEEN 1 AND 3"))]
    ['1 <= a.x * b.x', 'a.x * b.x <= 3']
    """
    tree = tree.unnest()
    if isinstance(tree, exp.Between):
        return [(tree.args["low"], tree.this), (tree.this, tree.args["high"])]
    if isinstance(tree, exp.LT | exp.LTE):
        return [(tree.left, tree.right)]
    if isinstance(tree, exp.GT | exp.GTE):
        return [(tree.right, tree.left)]
    return [(tree.left, tree.right), (tree.right, tree.left)] if isinstance(tree, exp.EQ) else []


def arithmetic(tree: exp.Expr, leaf: Leaf) -> Test | str | None:
    """A value as a test over columns; None where it is made of anything else.

    >>> import sqlglot
    >>> of = lambda sql: arithmetic(sqlglot.parse_one(sql), lambda tree: tree.sql() if "b." not in tree.sql() else None)
    >>> of("a.x + 1"), of("POW(2 * 3, 2)").function, of("UPPER(b.x)")
    ('a.x + 1', 'multiply', None)
    """
    tree = tree.unnest()
    if isinstance(tree, exp.Literal):
        return None if tree.is_string else Test("number", (), low=float(tree.name))
    column = leaf(tree) if tree.find(exp.Column) else None
    if column is not None:
        return column
    function, arguments = _called(tree)
    parts = [arithmetic(each, leaf) for each in arguments]
    known = tuple(part for part in parts if part is not None)
    return Test(function, known) if function and len(known) == len(parts) else None


def _called(tree: exp.Expr) -> tuple[str, Sequence[exp.Expr]]:
    """What a tree does, and with what; nothing that is known by an empty name."""
    if type(tree) in _OPERATORS and isinstance(tree, exp.Binary):
        return _OPERATORS[type(tree)], (tree.left, tree.right)
    if isinstance(tree, exp.Neg):
        return "subtract", (exp.Literal.number(0), tree.this)
    name, arguments = _function(tree)
    if name in ("SQRT", "ABS") and len(arguments) == 1:
        return name.lower(), arguments
    if name in ("POW", "POWER") and len(arguments) == 2 and arguments[1] == _SQUARE:  # noqa: PLR2004
        return "multiply", (arguments[0], arguments[0])
    if name == "HYPOT" and len(arguments) == 2:  # noqa: PLR2004
        squares = [exp.Mul(this=exp.paren(each), expression=exp.paren(each)) for each in arguments]
        return "sqrt", (exp.Add(this=squares[0], expression=squares[1]),)
    return "", ()


def _function(tree: exp.Expr) -> tuple[str, Sequence[exp.Expr]]:
    if isinstance(tree, exp.Anonymous):
        return tree.name.upper(), tree.expressions
    names: dict[type[exp.Expr], str] = {exp.Sqrt: "SQRT", exp.Abs: "ABS", exp.Pow: "POW"}
    return names.get(type(tree), ""), [each for each in (tree.this, tree.args.get("expression")) if each is not None]


def known_most(kinds: Sequence[pa.DataType]) -> float | None:
    """Below which absolute value a step of arithmetic on such columns does not overflow; None where it is not known."""
    if not all(is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return None
    return min([KNOWN_MOST, *(float(1 << (kind.bit_width - 1)) for kind in kinds if is_integer(kind))])
