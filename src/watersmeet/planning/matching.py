"""The conditions of an outer join or a ring that are no keys: whether a pair matches has to be known where it is found.

Of other inner joins, Spark evaluates them on the results. A row that matches nothing is a result of an outer join, too,
and a ring would give Spark every pair there is. So what a condition says of one stream alone is computed by Spark
before the join, and kept as a column; in an outer join it makes the key of a row null that it excludes, so that the
row is without a match at once. What compares streams is left for `watersmeet.operators.predicate`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from msgspec.structs import replace
from sqlglot import exp

from watersmeet.model.errors import TypeMismatchError, UnsupportedError
from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Column, Key, Test
from watersmeet.planning.arithmetic import Arithmetic
from watersmeet.planning.bands import Band, band_of, whole_limits
from watersmeet.planning.estimates import arithmetic, compared, known_most
from watersmeet.planning.expressions import Conjunct, expression_of, parsed
from watersmeet.planning.keys import KeyTypes
from watersmeet.planning.linear import Rounding, Sum, bounded, bounds, is_number
from watersmeet.planning.names import COMPUTED, Scope, readable
from watersmeet.planning.predicates import as_written, function_name, functions_in, has_predicate, is_predicate
from watersmeet.planning.prefixes import is_like, like_prefix, prefix_of
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

    def implied(self, conditions: Sequence[Conjunct]) -> tuple[Test, ...]:
        """Tests that follow from conditions which only Spark can evaluate: they leave it fewer pairs."""
        patterns = ((each, like_prefix(parsed(each.sql, exp.Condition))) for each in conditions if each.repeatable)
        return tuple(self._compared(prefix, each) for each, prefix in patterns if prefix is not None)

    def leading(self, conditions: Sequence[Conjunct]) -> tuple[Test, ...]:
        """Tests that lead to the rows for which such conditions may hold (`watersmeet.planning.linear`)."""
        found: list[Test | None] = []
        for each in conditions if all(each.repeatable for each in conditions) else ():
            tree = parsed(each.sql, exp.Condition).unnest()
            if isinstance(tree, exp.In) and tree.expressions and not tree.args.get("query"):
                same = exp.or_(*(exp.EQ(this=tree.this, expression=value) for value in tree.expressions))
                found.append(replace(self._test(same, each), name=readable(each.sql)))
                continue
            sums = [self._no_more(terms) for terms in bounded(tree)]
            found += sums if any(sums) else [self._estimated(*sides) for sides in compared(tree)]
        return tuple(test for test in found if test is not None)

    def _estimated(self, less: exp.Expr, more: exp.Expr) -> Test | None:
        """That a value may be less than another one, by what arithmetic gives about."""
        values = [expression_of(side, self.scope) for side in (less, more)]
        if self._is_of_one_side(values[0].streams | values[1].streams):
            return None
        computed, kinds, found = dict(self.computed), dict(self.kinds), list[pa.DataType]()
        sides = [arithmetic(side, lambda tree: self._double(tree, found)) for side in (less, more)]
        most, known = known_most(found), tuple(side for side in sides if side is not None)
        if most is None or len(known) < len(sides):
            self.computed, self.kinds = computed, kinds
            return None
        part = 1e-6 if pa.float32() in found else 1e-15
        return Test("may_be_less", known, most, part, name=" <= ".join(readable(value.sql) for value in values))

    def _double(self, tree: exp.Expr, kinds: list[pa.DataType]) -> str | None:
        """The column that holds a number of one stream, as a double."""
        value = expression_of(tree, self.scope)
        if len(value.streams) != 1:
            return None
        kinds.append(self.types.of(value))
        if value.column is not None and kinds[-1] == pa.float64():
            return value.column.name
        return self._column(parsed(f"CAST({value.sql} AS DOUBLE)", exp.Condition), pa.float64()).name

    def _no_more(self, sums: Sum) -> Test | None:
        """That a sum is 0 or less, told apart by inputs: the part of the one is no more than what the other leaves."""
        values = [expression_of(term.tree, self.scope) for term in sums]
        streams = sorted(frozenset().union(*(value.streams for value in values)))
        is_known = all(
            len(value.streams) == 1 or is_number(term.tree) for value, term in zip(values, sums, strict=True)
        )
        if len(streams) != 2 or not is_known or self._is_of_one_side(frozenset(streams)):  # noqa: PLR2004
            return None
        kinds = [self.types.of(value) for value in values if value.streams]
        rounding = Rounding.of(
            kinds, [term.tree for value, term in zip(values, sums, strict=True) if not value.streams]
        )
        if rounding is None:
            return None
        parts = [[n for n, value in enumerate(values) if (streams[1] in value.streams) == second] for second in (0, 1)]
        named, said = [], []
        for numbers, is_least in zip(parts, (True, False), strict=True):
            terms = [(f"({values[n].sql})", sums[n].is_added == is_least) for n in numbers]
            sql = bounds(terms, rounding, is_least=is_least)
            named.append(self._column(parsed(sql, exp.Condition), pa.float64()).name)
            said.append(
                "".join(f" {'+' if sums[n].is_added == is_least else '-'} {readable(values[n].sql)}" for n in numbers)
            )
        return Test("le", (named[0], named[1]), name=" <= ".join(text.removeprefix(" + ").strip() for text in said))

    def _test(self, tree: exp.Expr, whole: Conjunct) -> Test:
        tree = tree.unnest()
        if not whole.repeatable:
            raise self._refused(whole, "its value changes from one evaluation to the next")
        value = expression_of(tree, self.scope)
        if self._is_of_one_side(value.streams) and not has_predicate(value.sql):
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
            name = tree.name.lower()
            return Test("call", tuple(self._argument(each, name) for each in tree.expressions), name=name)
        if prefixed := prefix_of(tree):
            left, right, kind = self._columns(*prefixed, whole)
            if pa.types.is_string(kind):
                return Test("starts_with", (left, right))
        if not self.sides and is_like(tree):
            left, right, kind = self._columns(tree.this, tree.expression, whole)
            if pa.types.is_string(kind):
                return Test("like", (left, right))
        if band := band_of(tree):
            return self._band(band, whole)
        if isinstance(tree, exp.Binary) and type(tree) in _COMPARED:
            return Test(_COMPARED[type(tree)], self._operands(tree.left, tree.right, whole)[:2])
        raise self._refused(whole, "it does more with columns of two streams than can be done here")

    def _argument(self, tree: exp.Expr, name: str) -> str:
        """What a function reads: a column, or what is made of those of one stream."""
        value = expression_of(tree.unnest(), self.scope)
        if value.column is not None:
            return value.column.name
        if len(value.streams) != 1:
            raise UnsupportedError(
                f"predicate {function_name(name)} reads {readable(value.sql)}",
                why="it is called with columns, and with what is made of the columns of one stream",
                how="have it read the columns themselves, or compute the value in the DataFrame of a stream, before "
                "flow.stream(...)",
            )
        return self._column(tree, self.types.of(value) if value.type is None else value.type).name

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
            raise self._refused(whole, f"differences of {ddl(kind)} are computed by Spark alone")
        return Test("not", (within,)) if band.negated else within

    def _operands(
        self, first: exp.Expr, second: exp.Expr, whole: Conjunct
    ) -> tuple[Test | str, Test | str, pa.DataType]:
        """Two sides of a comparison: columns, or of an outer join what is computed of several streams."""
        streams = [expression_of(side.unnest(), self.scope).streams for side in (first, second)]
        if not self.sides and any(len(each) > 1 for each in streams):
            computing = Arithmetic(
                lambda tree: expression_of(tree, self.scope),
                self.types.of,
                lambda sql, kind: self._column(parsed(sql, exp.Condition), kind).name,
            )
            found = computing.sides(first, second)
            if found is None:
                why = "it does more with columns of two streams than compare, add or multiply whole numbers or doubles"
                raise self._refused(whole, why)
            (left, right), kind = found
            return left, right, kind
        return self._columns(first, second, whole)

    def _columns(self, first: exp.Expr, second: exp.Expr, whole: Conjunct) -> tuple[str, str, pa.DataType]:
        sides = [expression_of(side.unnest(), self.scope) for side in (first, second)]
        if any(len(side.streams) != 1 for side in sides):
            raise self._refused(whole, "a side of a comparison reads several streams, or none")
        if any(side.collated for side in sides):
            raise self._refused(whole, "only Spark knows the order of texts under a collation")
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
        stream = self._home(value.streams)
        known = {sql: column for column, sql in self.computed.items() if column.stream == stream}
        if value.sql not in known:
            column = Column(stream, f"{COMPUTED}{self.operator}.test{len(self.computed)}")
            self.computed[column], self.kinds[column] = value.sql, kind
            return column
        return known[value.sql]

    def _home(self, streams: frozenset[str]) -> str:
        """The stream whose column a value becomes: the first of those it reads, or, of a constant, of any here."""
        here = streams or frozenset().union(*self.sides)
        return next(each.name for each in self.scope.streams if not here or each.name in here)

    def _refused(self, condition: Conjunct, why: str) -> UnsupportedError:
        """Of an inner join, only conditions with functions have to be tests."""
        text = as_written(readable(condition.sql))
        if not self.sides:
            is_difference = any(pa.types.is_timestamp(self.scope.types[each]) for each in condition.columns)
            return UnsupportedError(
                f"an outer join is on {text}",
                why=f"{why}, and whether a row has a match must be known where it is stored",
                how="compare one time with the other plus a length, as in B.ts <= A.ts + INTERVAL 5 SECONDS"
                if is_difference
                else "compute it as a column of one of the streams, and compare that; or apply it with where() after "
                "the join",
            )
        called = ", ".join(functions_in(readable(condition.sql))) or "what is tested here"
        return UnsupportedError(
            f"a join is on {text}",
            why=f"{why}, and Spark cannot call {called}",
            how=f"have {called} decide on all of it, with the columns it takes as further arguments; or join with AND",
        )


def matchable(keys: Sequence[Key], conditions: Sequence[Conjunct]) -> tuple[Key, ...]:
    """The keys of one side of an outer join, null for rows that match nothing: those are decided as they arrive.

    >>> [made] = matchable([Key("`A`.`k`", pa.int64())], [Conjunct("`A`.`v` > 3", frozenset())])
    >>> made.sql, made.bare
    ('CASE WHEN `A`.`v` > 3 THEN `A`.`k` END', '`A`.`k`')
    """
    if not conditions:
        return tuple(keys)
    first, *others = keys
    told = " AND ".join(f"({each.sql})" if len(conditions) > 1 else each.sql for each in conditions)
    return (replace(first, sql=f"CASE WHEN {told} THEN {first.sql} END", bare=first.sql), *others)


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
