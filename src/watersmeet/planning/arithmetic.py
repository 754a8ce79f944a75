"""Sums, differences and products of columns of two streams, which an outer join may be on: ``A.v + B.v > 3``.

They are computed where pairs of rows are found, in whole numbers of 64 bits or in doubles, as Spark computes them of
columns of these types. What divides, and numbers of other types, only Spark can compute.
Of other joins Spark decides, so there `watersmeet.planning.estimates` are enough, and know more.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from watersmeet.model.plan import Test
from watersmeet.planning.expressions import Expression
from watersmeet.planning.types import cast, is_integer

_COMPUTED: dict[type[exp.Expr], str] = {exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply"}


@dataclass(frozen=True)
class Arithmetic:
    """Makes what two sides of a comparison compute a test's arguments.

    ``read`` tells of a tree which columns it reads, ``type_of`` its type, ``column`` makes a column of its SQL.
    """

    read: Callable[[exp.Expr], Expression]
    type_of: Callable[[Expression], pa.DataType]
    column: Callable[[str, pa.DataType], str]

    def sides(self, *trees: exp.Expr) -> tuple[tuple[Test | str, ...], pa.DataType] | None:
        """The sides, and the type they are computed in; None where they are more than sums and products."""
        leaves = [leaf for tree in trees for leaf in self._leaves(tree)]
        if None in leaves:
            return None
        kind = self._kind([leaf for leaf in leaves if leaf is not None])
        return None if kind is None else (tuple(self._made(tree, kind) for tree in trees), kind)

    def _leaves(self, tree: exp.Expr) -> Iterator[exp.Expr | None]:
        """What is of one stream or a number; None for what cannot be taken apart into such."""
        tree = tree.unnest()
        if len(self.read(tree).streams) == 1 or _number(tree) is not None:
            yield tree
        elif parts := _parts(tree):
            for part in parts:
                yield from self._leaves(part)
        else:
            yield None

    def _kind(self, leaves: Sequence[exp.Expr]) -> pa.DataType | None:
        numbers = [number for leaf in leaves if (number := _number(leaf)) is not None]
        kinds = [self.type_of(self.read(leaf)) for leaf in leaves if _number(leaf) is None]
        if all(map(is_integer, kinds)):
            return pa.int64() if all(isinstance(number, int) for number in numbers) else None
        return pa.float64() if all(kind == pa.float64() or is_integer(kind) for kind in kinds) else None

    def _made(self, tree: exp.Expr, kind: pa.DataType) -> Test | str:
        tree = tree.unnest()
        number = _number(tree)
        if number is not None:
            return Test("number", (), low=float(number) if kind == pa.float64() else number)
        value = self.read(tree)
        if len(value.streams) == 1:
            return self.column(cast(value.sql, self.type_of(value), kind), kind)
        parts = tuple(self._made(part, kind) for part in _parts(tree))
        return Test(_COMPUTED.get(type(tree), "negate" if isinstance(tree, exp.Neg) else "abs"), parts)


def _parts(tree: exp.Expr) -> list[exp.Expr]:
    """The operands of what is computed; none of all else."""
    if type(tree) in _COMPUTED and isinstance(tree, exp.Binary):
        return [tree.left, tree.right]
    if isinstance(tree, exp.Neg):
        return [tree.this]
    is_size = isinstance(tree, exp.Anonymous) and tree.name.upper() == "ABS" and len(tree.expressions) == 1
    return list(tree.expressions) if is_size else []


def _number(tree: exp.Expr) -> int | float | None:
    """The number a literal is, which may have a sign."""
    if isinstance(tree, exp.Neg):
        inner = _number(tree.this.unnest())
        return None if inner is None else -inner
    if not isinstance(tree, exp.Literal) or tree.is_string:
        return None
    text = str(tree.this)
    return int(text) if text.isdigit() else float(text)
