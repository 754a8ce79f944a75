"""The conditions of an outer join or a ring that are no keys: whether a pair matches has to be known where it is found.

Of other inner joins, Spark evaluates them on the results. A row that matches nothing is a result of an outer join, too,
and a ring would give Spark every pair there is. So what a condition says of one stream alone is computed by Spark
before the join, and kept as a column; what compares streams is left for `watersmeet.operators.predicate`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from watersmeet.model.errors import TypeMismatchError, UnsupportedError
from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Column, Test
from watersmeet.planning.bands import Band, band_of, whole_limits
from watersmeet.planning.expressions import Conjunct, expression_of, parsed
from watersmeet.planning.keys import KeyTypes
from watersmeet.planning.names import COMPUTED, Scope, readable
from watersmeet.planning.predicates import has_predicate, is_predicate
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
    """The tests of one operator, and the columns that have to be computed for them.

    ``sides`` are the streams of each input; without them, every stream is by itself.
    """

    operator: OperatorId
    scope: Scope
    types: KeyTypes
    sides: tuple[frozenset[str], ...] = ()
    computed: dict[Column, str] = field(default_factory=dict)
    kinds: dict[Column, pa.DataType] = field(default_factory=dict)

    def of(self, conditions: Sequence[Conjunct]) -> tuple[Test, ...]:
        """The tests that pairs of rows have to pass, each by itself: rings find rows by such ones."""
        tests = (self._test(parsed(each.sql, exp.Condition), each) for each in conditions)
        return tuple(part for test in tests for part in _parts(test))

    def _test(self, tree: exp.Expr, whole: Conjunct) -> Test:
        tree = tree.unnest()
        if not whole.repeatable:
            raise _refused(whole, "its value changes from one evaluation to the next")
        if self._is_of_one_side(expression_of(tree, self.scope).streams) and not has_predicate(whole.sql):
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
        return self._compared(tree, whole)

    def _compared(self, tree: exp.Expr, whole: Conjunct) -> Test:
        if isinstance(tree, exp.Anonymous) and is_predicate(tree.name):
            return Test("call", tuple(self._argument(each, whole) for each in tree.expressions), name=tree.name.lower())
        if band := band_of(tree):
            return self._band(band, whole)
        if isinstance(tree, exp.Binary) and type(tree) in _COMPARED:
            return Test(_COMPARED[type(tree)], self._operands(tree.left, tree.right, whole)[:2])
        raise _refused(whole, "it does more with columns of two streams than compare them")

    def _argument(self, tree: exp.Expr, whole: Conjunct) -> str:
        value = expression_of(tree.unnest(), self.scope)
        if value.column is None:
            raise _refused(whole, f"{readable(value.sql)} is no column")
        return value.column.name

    def _is_of_one_side(self, streams: frozenset[str]) -> bool:
        return len(streams) <= 1 or any(streams <= side for side in self.sides)

    def _band(self, band: Band, whole: Conjunct) -> Test:
        """How far two numbers may be apart; whole numbers are never too large for that."""
        left, right, kind = self._operands(band.left, band.right, whole)
        if pa.types.is_integer(kind):
            within = Test("within", (left, right), *whole_limits(band.low, band.high, excluded=band.excluded))
        elif kind == pa.float64():
            low, high = (None if each is None else float(each) for each in (band.low, band.high))
            within = Test("within", (left, right), low, high, excluded=band.excluded)
        else:
            raise _refused(whole, f"differences of {ddl(kind)} are computed by Spark alone")
        return Test("not", (within,)) if band.negated else within

    def _operands(self, first: exp.Expr, second: exp.Expr, whole: Conjunct) -> tuple[str, str, pa.DataType]:
        sides = [expression_of(side.unnest(), self.scope) for side in (first, second)]
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
        return left, right, shared

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


def _parts(test: Test) -> Iterator[Test]:
    """What has to hold for a test to hold; BETWEEN is two comparisons.

    >>> low, high = Test("ge", ("A.x", "B.x")), Test("le", ("A.x", "B.y"))
    >>> [part.function for part in _parts(Test("and", (low, high)))], [*_parts(low)] == [low]
    (['ge', 'le'], True)
    """
    parts = [each for each in test.arguments if isinstance(each, Test)] if test.function == "and" else []
    if not parts:
        yield test
    for part in parts:
        yield from _parts(part)


def _refused(condition: Conjunct, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"an outer join is on {readable(condition.sql)}",
        why=f"{why}, and whether a row has a match must be known where it is stored",
        how="compute it as a column of one of the streams, and compare that; or apply it with where() after the join",
    )
