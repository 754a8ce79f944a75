"""What follows from conditions between sums, as ``ABS(A.price - B.price) < A.tolerance`` or ``A.x + B.x = 3``: ranges.

Spark alone knows what they are worth: decimals, floats and overflows have rules of their own. But a pair can only pass
if the part of one input, as a double, is no more than that of the other, but for what doubles round. So each input has
what its part is at least and at most, rows are found by that, and Spark decides on the pairs that are left.

    A.x + B.y - 2 < B.z      ->      least(A.x - 2)  <=  most(B.z - B.y)

A part that is so large that a sum of doubles might overflow has no bounds. Whole numbers are never too large: a pair of
which Spark cannot tell the difference does not pass. So nothing that passes is ever left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from watersmeet.planning.types import is_integer

TERMS_MOST = 4
"""Of how many terms a sum is; each may be rounded by a part of 2e-16, which a part of 1e-15 is enough for."""

LONG_DIGITS, DECIMAL_DIGITS_MOST = 20, 38
"""Of a whole number as a decimal, and of any."""


class Term(NamedTuple):
    """A part of a sum, added or subtracted."""

    tree: exp.Expr
    is_added: bool = True


Sum = tuple[Term, ...]


def bounded(tree: exp.Expr) -> list[Sum]:
    """Sums that are 0 or less if a condition holds.

    >>> import sqlglot
    >>> def shown(sql):
    ...     sums = bounded(sqlglot.parse_one(sql))
    ...     return [" ".join(f"{'+' if term.is_added else '-'} {term.tree.sql()}" for term in each) for each in sums]
    >>> shown("a.x + b.y < 3"), shown("a.x = b.y")
    (['+ a.x + b.y - 3'], ['+ a.x - b.y', '+ b.y - a.x'])
    >>> shown("ABS(a.x - b.x) < a.t")
    ['+ a.x - b.x - a.t', '- a.x + b.x - a.t']
    >>> shown("ABS(a.x - b.x) > 3"), shown("a.x <> b.x")
    ([], [])
    """
    tree = tree.unnest()
    if isinstance(tree, exp.Between):
        low, high = tree.args["low"], tree.args["high"]
        return [*_no_more(tree.this, high), *_no_more(low, tree.this)]
    if isinstance(tree, exp.LT | exp.LTE):
        return _no_more(tree.left, tree.right)
    if isinstance(tree, exp.GT | exp.GTE):
        return _no_more(tree.right, tree.left)
    if isinstance(tree, exp.EQ):
        return [*_no_more(tree.left, tree.right), *_no_more(tree.right, tree.left)]
    return []


def _no_more(less: exp.Expr, more: exp.Expr) -> list[Sum]:
    sums = [(*one, *other) for one in _sums(less, is_added=True) for other in _sums(more, is_added=False)]
    return [each for each in sums if len(each) <= TERMS_MOST]


def _sums(tree: exp.Expr, *, is_added: bool) -> list[Sum]:
    """What is no more than a part of a sum; nothing where that is not known, as if an absolute value is taken away."""
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        return _sums(tree.this, is_added=not is_added)
    if isinstance(tree, exp.Add | exp.Sub):
        second = is_added == isinstance(tree, exp.Add)
        return [
            (*one, *other)
            for one in _sums(tree.left, is_added=is_added)
            for other in _sums(tree.right, is_added=second)
        ]
    inner = _absolute(tree)
    if inner is None:
        return [(Term(tree, is_added),)]
    return [*_sums(inner, is_added=True), *_sums(inner, is_added=False)] if is_added else []


def _absolute(tree: exp.Expr) -> exp.Expr | None:
    if isinstance(tree, exp.Abs):
        inner: exp.Expr = tree.this
        return inner
    is_call = isinstance(tree, exp.Anonymous) and tree.name.upper() == "ABS" and len(tree.expressions) == 1
    return tree.expressions[0] if is_call else None


def is_number(tree: exp.Expr) -> bool:
    """Whether a tree is made of numbers alone.

    >>> import sqlglot
    >>> [is_number(sqlglot.parse_one(each)) for each in ("2 * -3.5", "'2'", "pi()")]
    [True, False, False]
    """
    if isinstance(tree, exp.Literal):
        return not tree.is_string and tree.name.replace(".", "", 1).isdigit()
    if isinstance(tree, exp.Neg | exp.Paren):
        return is_number(tree.this)
    return isinstance(tree, exp.Mul | exp.Add | exp.Sub) and is_number(tree.left) and is_number(tree.right)


class Rounding(NamedTuple):
    """How far a sum of doubles may be off, as a part of what its terms are, and when it may overflow, if ever."""

    part: str
    most: str | None = None

    @classmethod
    def of(cls, kinds: Sequence[pa.DataType], literals: Sequence[exp.Expr] = ()) -> "Rounding | None":
        """That of a condition on such numbers; None if they are none, or decimals of which Spark drops digits.

        >>> Rounding.of([pa.int64()]), Rounding.of([pa.int64(), pa.float32()])
        (Rounding(part='1E-15', most=None), Rounding(part='1E-6', most='1E37'))
        >>> Rounding.of([pa.string()]), Rounding.of([pa.decimal128(38, 2), pa.decimal128(38, 4)])
        (None, None)
        """
        if not all(map(_is_numeric, kinds)):
            return None
        if pa.float32() in kinds:
            return cls("1E-6", "1E37")
        if pa.float64() in kinds:
            return cls("1E-15", "1E300")
        return cls("1E-15") if _keeps_digits(kinds, literals) else None


def bounds(terms: Sequence[tuple[str, bool]], rounding: Rounding, *, is_least: bool) -> str:
    """What a sum is at least, or at most, as SQL: a double, null where a term is.

    >>> bounds([("A.x", True), ("2", False)], Rounding("1E-15"), is_least=True)[:58]
    'CAST(A.x AS DOUBLE) - CAST(2 AS DOUBLE) - 1E-15 * (ABS(CAS'
    """
    doubles = [(f"CAST({sql} AS DOUBLE)", is_added) for sql, is_added in terms]
    size = " + ".join(f"ABS({sql})" for sql, _ in doubles)
    total = "".join(f" {'+' if is_added else '-'} {sql}" for sql, is_added in doubles)
    total = total.removeprefix(" + ") if doubles[0][1] else f"0{total}"
    whole = f"{total} {'-' if is_least else '+'} {rounding.part} * ({size})"
    if rounding.most is None:
        return whole
    unknown = "-Infinity" if is_least else "NaN"
    return f"CASE WHEN {size} >= {rounding.most} THEN CAST('{unknown}' AS DOUBLE) ELSE {whole} END"


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _keeps_digits(kinds: Sequence[pa.DataType], literals: Sequence[exp.Expr]) -> bool:
    """Whether decimals have so few digits that Spark adds and compares them without dropping any."""
    decimals = [kind for kind in kinds if pa.types.is_decimal(kind)]
    before = max((kind.precision - kind.scale for kind in decimals), default=0)
    said = [each.name.partition(".")[2] for tree in literals for each in tree.find_all(exp.Literal)]
    after = max([*(kind.scale for kind in decimals), sum(map(len, said))])
    return bool(max(before, LONG_DIGITS) + after + TERMS_MOST <= DECIMAL_DIGITS_MOST)
