"""The aggregates of a group, read from SQL: calls of aggregate functions, and expressions over them.

``sum(a) / count(*) AS ratio`` is two aggregates, and a column that Spark makes of their values and of the group's keys
when these come out. An aggregate that is written twice is computed once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from watersmeet.api.shape import Shape
from watersmeet.model.errors import QueryError, UnsupportedError
from watersmeet.model.plan import Column
from watersmeet.planning.dialect import beyond_one_row, is_aggregate, parse, write
from watersmeet.planning.expressions import path_of
from watersmeet.planning.views import Output

_FUNCTIONS = {
    "count": "count",
    "count_if": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    "stddev": "stddev",
    "stddev_samp": "stddev",
    "std": "stddev",
    "stddev_pop": "stddev_pop",
    "variance": "variance",
    "var_samp": "variance",
    "var_pop": "var_pop",
    "approx_count_distinct": "count_distinct",
}
_TOLD = "count, count_if, sum, avg, min, max, stddev, variance, approx_count_distinct and count(DISTINCT x, ...)"


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function by the name of its value: of some SQL over the streams' columns, or of rows.

    Spark's analyser gives the type of ``spark_sql``.
    """

    name: str
    text: str
    function: str
    sql: str | None
    spark_sql: str


@dataclass
class Telling:
    """Collects the aggregate calls of a query and the columns that are shown of an aggregate."""

    shape: Shape
    aggregate: str
    keys: Sequence[Output]
    calls: list[Call] = field(default_factory=list)

    def add(self, text: str) -> Output:
        """Add an aggregate; returns the column that shows it."""
        tree = parse(text, exp.Expr)
        body, name = (tree.this, tree.alias) if isinstance(tree, exp.Alias) else (tree, text)
        if _is_call(body):
            self.calls.append(self._call(body, text, name))
            return Output(name, self._column(name).sql)
        return Output(name, self._expression(body, text))

    def _expression(self, body: exp.Expr, text: str) -> str:
        """An expression over calls, in terms of the aggregate's columns."""
        if isinstance(body, exp.Window) or (beyond := beyond_one_row(body)) is None or beyond[0] != "an aggregate":
            raise _untold(text)
        whole = exp.paren(body.copy())
        made = set()
        for call in list(_calls(whole)):
            column = self._name_of(call, text)
            made.add(id(column))
            call.replace(column)
        for column in [each for each in whole.find_all(exp.Column) if id(each) not in made]:
            self._replace_key(column, text)
        if beyond_one_row(whole) is not None:
            raise _untold(text)
        return write(whole)

    def _name_of(self, tree: exp.Expr, text: str) -> exp.Column:
        """The column of a call within an expression: an existing one, or a new one that is not shown."""
        made = self._call(tree, write(tree), write(tree))
        same = next((each for each in self.calls if (each.function, each.sql) == (made.function, made.sql)), None)
        if same is None:
            taken = {each.name for each in self.calls} | {key.name for key in self.keys}
            name = made.name
            while name in taken:
                name += "'"
            same = self._call(tree, text, name)
            self.calls.append(same)
        return exp.column(exp.to_identifier(same.name, quoted=True), exp.to_identifier(self.aggregate, quoted=True))

    def _replace_key(self, column: exp.Column, text: str) -> None:
        """A column outside of all calls is a key, or a part of one."""
        identifiers, top = path_of(column)
        fold = self.shape.view.fold
        named = next((key for key in self.keys if fold(key.name) == fold(identifiers[0].name)), None)
        nested = identifiers[1:]
        if named is None:
            sql, nested = self.shape.view.rewritten(write(top)), []
            named = next((key for key in self.keys if key.sql == sql), None)
        if named is None:
            raise QueryError(
                f"agg was given {text}",
                why=f"{write(top)} is neither in an aggregate nor what rows are grouped by",
                how=f"group by it, too, or write an aggregate of it, as max({write(top)})",
            )
        found: exp.Expr = parse(self._column(named.name).sql, exp.Condition)
        for part in nested:
            found = exp.Dot(this=found, expression=exp.to_identifier(part.name, quoted=True))
        top.replace(found)

    def _column(self, name: str) -> Column:
        return Column(self.aggregate, name)

    def _call(self, tree: exp.Expr, text: str, name: str) -> Call:
        condition = tree.expression.this if isinstance(tree, exp.Filter) else None
        call = tree.this if isinstance(tree, exp.Filter) else tree
        called = call.name.lower()
        function = _FUNCTIONS.get(called)
        arguments = call.expressions[:1] if called == "approx_count_distinct" else call.expressions
        if function is None or len(arguments) != 1:
            raise _untold(text)
        argument = self._argument(arguments[0], called, text)
        function = "count_distinct" if isinstance(arguments[0], exp.Distinct) else function
        if condition is not None:
            told = self.shape.view.rewritten(write(condition))
            argument = f"CASE WHEN {told} THEN {argument or 1} END"
        value = argument or "*"
        spark = f"COUNT(DISTINCT {value})" if function == "count_distinct" else f"{_spark_name(called)}({value})"
        return Call(name, text, function, argument, spark)

    def _argument(self, argument: exp.Expr, called: str, text: str) -> str | None:
        """What is aggregated, as SQL over the streams' columns; None where rows are counted."""
        if isinstance(argument, exp.Distinct):
            if called != "count":
                raise UnsupportedError(f"agg was given {text}", why="only count takes DISTINCT", how="leave it out")
            return _together([self._rewritten(each) for each in argument.expressions])
        if called == "count_if":
            return f"CASE WHEN {self._rewritten(argument)} THEN 1 END"
        is_rows = isinstance(argument, exp.Star) or (isinstance(argument, exp.Literal) and called == "count")
        return None if is_rows else self._rewritten(argument)

    def _rewritten(self, tree: exp.Expr) -> str:
        return self.shape.view.rewritten(write(tree))


def _spark_name(called: str) -> str:
    return "COUNT" if called == "count_if" else called.upper()


def _together(texts: Sequence[str]) -> str:
    """Several expressions as one value; null where any is, as such rows do not count."""
    if len(texts) == 1:
        return texts[0]
    known = " AND ".join(f"{text} IS NOT NULL" for text in map(_closed, texts))
    fields = ", ".join(f"'c{place}', {text}" for place, text in enumerate(texts))
    return f"CASE WHEN {known} THEN NAMED_STRUCT({fields}) END"


def _closed(text: str) -> str:
    return f"({text})"


def _is_call(tree: exp.Expr) -> bool:
    inner = tree.this if isinstance(tree, exp.Filter) else tree
    return isinstance(inner, exp.Anonymous) and is_aggregate(inner.name)


def _calls(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The calls of aggregate functions that are in no other."""
    if _is_call(tree):
        yield tree
        return
    for each in tree.iter_expressions():
        yield from _calls(each)


def _untold(text: str) -> UnsupportedError:
    return UnsupportedError(
        f"agg was given {text}",
        why=f"aggregates are {_TOLD}, each of one expression, and expressions over them and the group's keys",
        how="use one of these",
    )
