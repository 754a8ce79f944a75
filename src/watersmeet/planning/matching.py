"""The conditions of an outer join that are no keys: whether a pair of rows matches has to be known where it is found.

Of an inner join, Spark evaluates them on the results. Here a row that matches nothing is a result, too. So what a
condition says of one stream alone is computed by Spark before the join, and kept as a column; what compares streams is
left for `watersmeet.operators.predicate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from watersmeet.model.errors import TypeMismatchError, UnsupportedError
from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Column, Test
from watersmeet.planning.expressions import Conjunct, expression_of, parsed
from watersmeet.planning.keys import KeyTypes
from watersmeet.planning.names import COMPUTED, Scope, readable
from watersmeet.planning.types import cast, common, ddl

_COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "null_safe_eq",
}
_COMBINED: dict[type[exp.Expr], str] = {exp.And: "and", exp.Or: "or"}


@dataclass
class Tests:
    """The tests of one operator, and the columns that have to be computed for them."""

    operator: OperatorId
    scope: Scope
    types: KeyTypes
    computed: dict[Column, str] = field(default_factory=dict)
    kinds: dict[Column, pa.DataType] = field(default_factory=dict)

    def of(self, conditions: Sequence[Conjunct]) -> tuple[Test, ...]:
        """The tests that pairs of rows have to pass."""
        return tuple(self._test(parsed(each.sql, exp.Condition), each) for each in conditions)

    def _test(self, tree: exp.Expr, whole: Conjunct) -> Test:
        tree = tree.unnest()
        if not whole.repeatable:
            raise _refused(whole, "its value changes from one evaluation to the next")
        if len(expression_of(tree, self.scope).streams) <= 1:
            column = self._column(tree, pa.bool_())
            return Test("and", (column.name, column.name))
        if isinstance(tree, exp.Between):
            low, high = tree.args["low"], tree.args["high"]
            ends = exp.GTE(this=tree.this, expression=low), exp.LTE(this=tree.this.copy(), expression=high)
            return Test("and", tuple(self._test(each, whole) for each in ends))
        if isinstance(tree, exp.Not):
            return Test("not", (self._test(tree.this, whole),))
        if isinstance(tree, exp.And | exp.Or):
            return Test(_COMBINED[type(tree)], (self._test(tree.left, whole), self._test(tree.right, whole)))
        if isinstance(tree, exp.Binary) and type(tree) in _COMPARED:
            return Test(_COMPARED[type(tree)], self._operands(tree, whole))
        raise _refused(whole, "it does more with columns of two streams than compare them")

    def _operands(self, tree: exp.Binary, whole: Conjunct) -> tuple[str, str]:
        sides = [expression_of(side.unnest(), self.scope) for side in (tree.left, tree.right)]
        if any(len(side.streams) != 1 for side in sides):
            raise _refused(whole, "a side of a comparison reads several streams, or none")
        if any(side.collated for side in sides):
            raise _refused(whole, "only Spark knows the order of texts under a collation")
        kinds = [self.types.of(side) for side in sides]
        shared = common(*kinds)
        if shared is None or pa.types.is_nested(shared) or pa.types.is_boolean(shared):
            left, right = (readable(side.sql) for side in sides)
            raise TypeMismatchError(
                f"{left} is {ddl(kinds[0])} and {right} is {ddl(kinds[1])}",
                why="the two types are not compared exactly",
                how=f"cast one side, as in CAST({left} AS {ddl(kinds[1]).upper()})",
            )
        left, right = (
            self._column(parsed(cast(side.sql, kind, shared), exp.Condition), shared).name
            for side, kind in zip(sides, kinds, strict=True)
        )
        return left, right

    def _column(self, tree: exp.Expr, kind: pa.DataType) -> Column:
        """The column that holds a value of one stream: its own, or one that is computed."""
        value = expression_of(tree, self.scope)
        if value.column is not None:
            return value.column
        stream = next(iter(value.streams), self.scope.streams[0].name)
        known = {sql: column for column, sql in self.computed.items() if column.stream == stream}
        if value.sql not in known:
            column = Column(stream, f"{COMPUTED}{self.operator}.test{len(self.computed)}")
            self.computed[column], self.kinds[column] = value.sql, kind
            return column
        return known[value.sql]


def _refused(condition: Conjunct, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"an outer join is on {readable(condition.sql)}",
        why=f"{why}, and whether a row has a match must be known where it is stored",
        how="compute it as a column of one of the streams, and compare that; or apply it with where() after the join",
    )
