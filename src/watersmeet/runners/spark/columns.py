"""Spark's Columns as SQL, so that the planner can look into them.

A Column is a tree of nodes in the JVM, whose own text has operators as functions (``=(A.id, B.id)``). It is written as
SQL here, and taken only if Spark's analyser makes the same of the SQL as of the Column. What has no SQL, as a Python
function, stays a Column, which Spark evaluates on the results.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from watersmeet.model.errors import QueryError
from watersmeet.model.plan import quoted
from watersmeet.planning.expressions import parse_item

Node = Any
"""A node of a Column, as py4j gives it."""

_INFIX = frozenset("= == <=> < > <= >= + - * / % & | ^ and or".split())  # noqa: SIM905 -- as one reads them
_BETWEEN = {"like": "LIKE", "rlike": "RLIKE", "ilike": "ILIKE"}
_BEHIND = {"isNull": "IS NULL", "isnull": "IS NULL", "isNotNull": "IS NOT NULL", "isnotnull": "IS NOT NULL"}


def sql_of(column: Column, frames: Iterable[DataFrame]) -> str | None:
    """The SQL of a Column over one of some frames; None where there is none. Refuses what Spark cannot analyse."""
    failure: Exception | None = None
    for frame in frames:
        try:
            meant = frame.select(column)
        except PySparkException as error:
            failure = failure or error
            continue
        text = _text(column)
        return text if text and _is_same(frame, text, meant) else None
    raise refused(failure) from failure


def refused(error: Exception | None) -> QueryError:
    """What Spark's analyser says, in one line."""
    return QueryError(
        "Spark does not accept an expression of the query",
        why=_first_line(error),
        how="correct the expression; a joined row has one struct column per stream, so write A.x",
    )


def _first_line(error: Exception | None) -> str:
    """What Spark says; the text of a parser's error begins with an empty line, py4j's own with where it was called."""
    told = str(error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error)
    return told.strip().split("\n", 1)[0].split(" SQLSTATE")[0].rstrip(".")


def _is_same(frame: DataFrame, text: str, meant: DataFrame) -> bool:
    try:
        parse_item(text)
        read = frame.select(F.expr(text))
        plans = [each._jdf.queryExecution().analyzed() for each in (read, meant)]  # noqa: SLF001
        return bool(plans[0].sameResult(plans[1])) and read.columns == meant.columns
    except (PySparkException, Py4JError, QueryError):
        return False


def _text(column: Column) -> str | None:
    try:
        node: Node = column._jc  # noqa: SLF001 -- it has no public name
        return _sql(node.node(), is_top=True)
    except (Py4JError, ValueError):
        return None


def _sql(node: Node, *, is_top: bool = False) -> str:
    kind = str(node.getClass().getSimpleName())
    if kind == "Alias" and is_top and node.name().size() == 1:
        return f"{_sql(node.child())} AS {quoted(str(node.name().head()))}"
    if kind == "SqlExpression" and is_top:
        return str(node.expression())
    if kind not in _KINDS:
        raise ValueError(kind)
    return _KINDS[kind](node)


def _call(node: Node) -> str:
    name, given = str(node.functionName()), [_argument(each) for each in _each(node.arguments())]
    if node.isUserDefinedFunction() or node.isInternal() or ("*" in given and name != "count"):
        raise ValueError(name)
    if name in _INFIX and len(given) == 2:  # noqa: PLR2004
        return f"({given[0]} {'=' if name == '==' else name.upper()} {given[1]})"
    if name in ("!", "not") and len(given) == 1:
        return f"(NOT {given[0]})"
    if name in _BEHIND:
        return f"({given[0]} {_BEHIND[name]})"
    if name in _BETWEEN and len(given) == 2:  # noqa: PLR2004
        return f"({given[0]} {_BETWEEN[name]} {given[1]})"
    if name == "in":
        return f"({given[0]} IN ({', '.join(given[1:])}))"
    return f"{name}({'DISTINCT ' if node.isDistinct() else ''}{', '.join(given)})"


def _argument(node: Node) -> str:
    is_star = str(node.getClass().getSimpleName()) == "UnresolvedStar" and node.unparsedTarget().isEmpty()
    return "*" if is_star else _sql(node)


def _case(node: Node) -> str:
    branches = [f"WHEN {_sql(each._1())} THEN {_sql(each._2())}" for each in _each(node.branches())]  # noqa: SLF001
    last = [f"ELSE {_sql(node.otherwise().get())}"] if node.otherwise().isDefined() else []
    return " ".join(["CASE", *branches, *last, "END"])


def _literal(node: Node) -> str:
    text, value = str(node.sql()), node.value()
    if isinstance(value, float):
        return f"{text}D"
    kind = str(node.dataType().get().sql()) if node.dataType().isDefined() else ""
    is_bare = not isinstance(value, str | bool | int) and kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
    return f"{kind}'{text}'" if is_bare and "'" not in text else text


def _each(sequence: Node) -> Iterator[Node]:
    return (sequence.apply(place) for place in range(sequence.size()))


def _name(node: Node) -> str:
    return ".".join(quoted(str(part)) for part in _each(node.nameParts()))


_KINDS: dict[str, Callable[[Node], str]] = {
    "UnresolvedAttribute": _name,
    "UnresolvedFunction": _call,
    "Literal": _literal,
    "CaseWhenOtherwise": _case,
    "Cast": lambda node: f"CAST({_sql(node.child())} AS {node.dataType().sql()})",
    "SqlExpression": lambda node: f"({node.expression()})",
    "UnresolvedExtractValue": lambda node: f"{_sql(node.child())}[{_sql(node.extraction())}]",
}
