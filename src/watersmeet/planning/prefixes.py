"""Conditions that a text begins with another one, by which rows are found: said outright, or a part of LIKE."""

from sqlglot import exp

from watersmeet.planning.expressions import parsed

_SPECIAL = ("'%'", "'_'", "CHR(92)")
"""What a pattern does not take for itself; the last one is a backslash."""


def prefix_of(tree: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The text and what it has to begin with, of ``startswith(x, y)`` and ``LEFT(x, LENGTH(y)) = y``.

    >>> [str(each) for each in prefix_of(parsed("startswith(A.t, B.t)", exp.Condition))]
    ['A.t', 'B.t']
    >>> [str(each) for each in prefix_of(parsed("B.t = left(A.t, length(B.t))", exp.Condition))]
    ['A.t', 'B.t']
    >>> prefix_of(parsed("left(A.t, 2) = B.t", exp.Condition))
    """
    if _is_call(tree, "STARTSWITH", 2):
        return tree.expressions[0], tree.expressions[1]
    sides = [(tree.left, tree.right), (tree.right, tree.left)] if isinstance(tree, exp.EQ) else []
    for cut, prefix in sides:
        if _is_call(cut, "LEFT", 2) and _is_call(cut.expressions[1], "LENGTH", 1):
            text, length = cut.expressions
            if length.expressions[0] == prefix:
                return text, prefix
    return None


def like_prefix(tree: exp.Expr) -> exp.Expr | None:
    """That a text begins with what a pattern has before its first wildcard, which is a part of what LIKE says.

    >>> str(like_prefix(parsed("A.t LIKE B.t", exp.Condition)))[:45]
    'STARTSWITH(A.t, SUBSTRING_INDEX(SUBSTRING_IND'
    """
    tree = tree.unnest()
    if not is_like(tree):
        return None
    pattern = tree.expression.copy()
    for special in _SPECIAL:
        ends = parsed(special, exp.Expr), exp.Literal.number(1)
        pattern = exp.Anonymous(this="SUBSTRING_INDEX", expressions=[pattern, *ends])
    return exp.Anonymous(this="STARTSWITH", expressions=[tree.this.copy(), pattern])


def is_like(tree: exp.Expr) -> bool:
    """Whether it is LIKE with one pattern, and a backslash before what stands for itself.

    >>> is_like(parsed("A.t LIKE B.t", exp.Condition)), is_like(parsed("A.t LIKE ALL (B.t, B.u)", exp.Condition))
    (True, False)
    """
    said = {name for name, each in tree.args.items() if each}
    is_one = isinstance(tree, exp.Like) and not isinstance(tree.expression, exp.Any | exp.All)
    return is_one and said == {"this", "expression"}


def _is_call(tree: exp.Expr, name: str, arguments: int) -> bool:
    return isinstance(tree, exp.Anonymous) and tree.name.upper() == name and len(tree.expressions) == arguments
