"""Bands: conditions that say how far two numbers may be apart, as ``ABS(A.x - B.y) < 5`` or ``A.x - B.y >= 2``.

Sorted by one of the numbers, the rows within a band of another are one range (`watersmeet.operators.ring.index`).
"""

import math
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from sqlglot import exp

LIMIT = 1 << 62
"""Whole numbers up to here can be added to others without care."""

_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_STRICT = (exp.LT, exp.GT)


class Band(NamedTuple):
    """``left`` less ``right`` is from ``low`` to ``high``, if these are ``excluded`` between them; or it is not."""

    left: exp.Expr
    right: exp.Expr
    low: Decimal | None
    high: Decimal | None
    excluded: bool
    negated: bool = False


def band_of(tree: exp.Expr) -> Band | None:
    """What a comparison of a difference with a number says; None for any other condition.

    >>> import sqlglot
    >>> band = band_of(sqlglot.parse_one("5 > ABS(a.x - b.y)"))
    >>> str(band.left), str(band.right), band.low, band.high, band.excluded
    ('a.x', 'b.y', Decimal('-5'), Decimal('5'), True)
    """
    if type(tree) not in _MIRRORED or not isinstance(tree, exp.Binary):
        return None
    kind: type[exp.Expr] = type(tree)
    difference, number = tree.left.unnest(), _number(tree.right)
    if number is None:
        kind, difference, number = _MIRRORED[kind], tree.right.unnest(), _number(tree.left)
    if number is None or abs(number) >= LIMIT:
        return None
    is_below = kind in (exp.LT, exp.LTE)
    inner = _absolute(difference)
    if isinstance(inner, exp.Sub):
        excluded = (kind in _STRICT) == is_below
        return Band(inner.left, inner.right, -number, number, excluded, negated=not is_below)
    if isinstance(difference, exp.Sub):
        low, high = (None, number) if is_below else (number, None)
        return Band(difference.left, difference.right, low, high, kind in _STRICT)
    return None


def whole_limits(low: Decimal | None, high: Decimal | None, *, excluded: bool) -> tuple[int | None, int | None]:
    """The limits of a difference of whole numbers, both included.

    >>> whole_limits(Decimal("-2.5"), Decimal("3"), excluded=True)
    (-2, 2)
    """
    least = None if low is None else math.floor(low) + 1 if excluded else math.ceil(low)
    most = None if high is None else math.ceil(high) - 1 if excluded else math.floor(high)
    return least, most


def _absolute(tree: exp.Expr) -> exp.Expr | None:
    """What an absolute value is of."""
    arguments: list[exp.Expr] = [tree.this] if isinstance(tree, exp.Abs) else []
    if isinstance(tree, exp.Anonymous) and tree.name.upper() == "ABS":
        arguments = tree.expressions
    return arguments[0].unnest() if len(arguments) == 1 else None


def _number(tree: exp.Expr) -> Decimal | None:
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        number = _number(tree.this)
        return None if number is None else -number
    if not isinstance(tree, exp.Literal) or tree.is_string:
        return None
    try:
        return Decimal(tree.name)
    except InvalidOperation:
        return None
