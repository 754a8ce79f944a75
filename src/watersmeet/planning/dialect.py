"""Spark's SQL, read and written back word for word.

sqlglot rewrites functions it knows into others it holds to be equal, and some are not quite: ``log10(x)`` becomes
``LOG(10, x)``, which rounds differently, and ``date_format(d, 'y')`` becomes ``'yyyy'``. Results must be exact, so this
dialect knows no function: a call is a name with arguments, written as it was read. What remains to the parser is what a
planner needs: operators, names, literals, casts and lambda functions.
"""

from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser

from watersmeet.model.errors import QueryError

_WITH_SYNTAX_OF_THEIR_OWN = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM")
_WITHOUT_PARENTHESES = ("ANY", "CASE", "IF")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WITH_A_UNIT = _words("TIMESTAMPADD TIMESTAMPDIFF DATEADD DATE_ADD DATEDIFF DATE_DIFF TIMEDIFF")
_UNITS = _words("""
    YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND
    YEARS QUARTERS MONTHS WEEKS DAYS HOURS MINUTES SECONDS MILLISECONDS MICROSECONDS
""")
_NOT_REPEATABLE = _words("""
    RAND RANDN RANDOM RANDSTR UNIFORM UUID SHUFFLE MONOTONICALLY_INCREASING_ID SPARK_PARTITION_ID
    INPUT_FILE_NAME INPUT_FILE_BLOCK_START INPUT_FILE_BLOCK_LENGTH REFLECT TRY_REFLECT JAVA_METHOD
""")
_GENERATORS = _words("EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE INLINE_OUTER STACK JSON_TUPLE")
_AGGREGATES = _words("""
    ANY_VALUE APPROX_COUNT_DISTINCT APPROX_PERCENTILE APPROX_TOP_K AVG BIT_AND BIT_OR BIT_XOR BOOL_AND BOOL_OR
    COLLECT_LIST COLLECT_SET CORR COUNT COUNT_IF COUNT_MIN_SKETCH COVAR_POP COVAR_SAMP CUME_DIST DENSE_RANK EVERY
    FIRST FIRST_VALUE GROUPING GROUPING_ID HISTOGRAM_NUMERIC KURTOSIS LAG LAST LAST_VALUE LEAD LISTAGG MAX MAX_BY
    MEAN MEDIAN MIN MIN_BY MODE NTH_VALUE NTILE PERCENTILE PERCENTILE_APPROX PERCENTILE_CONT PERCENTILE_DISC
    PERCENT_RANK RANK REGR_AVGX REGR_AVGY REGR_COUNT REGR_INTERCEPT REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY
    ROW_NUMBER SKEWNESS STD STDDEV STDDEV_POP STDDEV_SAMP SUM TRY_AVG TRY_SUM VARIANCE VAR_POP VAR_SAMP
""")


_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


class Verbatim(Spark):
    """Spark's dialect without knowledge of any function."""

    class Parser(SparkParser):
        """A parser to which every call is a name with arguments."""

        FUNCTIONS: ClassVar = {}
        ARRAY_CONSTRUCTORS: ClassVar = {}
        FUNCTION_PARSERS: ClassVar = {name: SparkParser.FUNCTION_PARSERS[name] for name in _WITH_SYNTAX_OF_THEIR_OWN}
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in _WITHOUT_PARENTHESES
        }


def parse(sql: str, kind: type[exp.Expr]) -> exp.Expr:
    """The tree of a condition (``exp.Condition``) or of a select item, which may have an alias (``exp.Expr``)."""
    try:
        tree = sqlglot.parse_one(sql, dialect=Verbatim, into=kind)
    except SqlglotError as error:
        raise _unparsed(sql, error) from error
    if isinstance(tree, exp.Block):
        raise QueryError(f"'{sql}' is more than one expression", why="it has a semicolon", how="combine them with AND")
    if parameter := tree.find(exp.Placeholder, exp.Parameter):
        raise QueryError(f"'{sql}' has a parameter, {write(parameter)}", why="it has no value", how="write the value")
    for call in tree.find_all(exp.Anonymous):
        _mark_unit(call)
    return _without_parentheses(tree)


def write(tree: exp.Expr) -> str:
    """The SQL of a tree, every name in backquotes.

    >>> write(parse("log10( a.X )>1 -- big", exp.Condition))
    'LOG10(`a`.`X`) > 1'
    """
    return tree.sql(dialect=Verbatim, identify=True, comments=False)


def _without_parentheses(tree: exp.Expr) -> exp.Expr:
    """The tree without parentheses that change nothing: around arguments, other ones, and sums that are compared."""
    for paren in list(tree.find_all(exp.Paren)):
        parent, child = paren.parent, paren.this
        is_closed = isinstance(child, exp.Column | exp.Dot | exp.Anonymous | exp.Literal | exp.Paren | exp.Cast)
        is_argument = isinstance(parent, exp.Anonymous | exp.Paren) and not isinstance(child, exp.Lambda)
        is_compared = isinstance(parent, _COMPARISONS) and isinstance(child, _ARITHMETIC)
        if parent is not None and (is_closed or is_argument or is_compared):
            paren.replace(child)
    return tree


def escaped(text: str) -> str:
    r"""A text as it stands between the quotes of a literal.

    >>> escaped("it's")
    "it\\'s"
    """
    return text.replace("\\", "\\\\").replace("'", "\\'")


def is_repeatable(tree: exp.Expr) -> bool:
    """Whether an expression has the same value wherever and however often it is evaluated on a row.

    >>> is_repeatable(parse("A.x > 1", exp.Condition)), is_repeatable(parse("rand() > A.x", exp.Condition))
    (True, False)
    """
    return not any(call.name.upper() in _NOT_REPEATABLE for call in tree.find_all(exp.Anonymous))


def is_repeatable_text(sql: str) -> bool:
    """`is_repeatable` of a select item."""
    return is_repeatable(parse(sql, exp.Expr))


def makes_rows(sql: str) -> bool:
    """Whether a select item makes several rows of one, as ``explode(A.items)``."""
    return generator(parse(sql, exp.Expr)) is not None


def is_name(sql: str) -> bool:
    """Whether a text is the name of a column and nothing else.

    >>> is_name("id"), is_name("A.id"), is_name("a = b")
    (True, False, False)
    """
    tree = _condition(sql)
    return isinstance(tree, exp.Column) and len(tree.parts) == 1


def is_stream_column(sql: str) -> bool:
    """Whether a text is a column of a stream, as ``A.x``.

    >>> is_stream_column("A.x"), is_stream_column("x"), is_stream_column("A.x + 1")
    (True, False, False)
    """
    tree = _condition(sql)
    return isinstance(tree, exp.Column) and len(tree.parts) > 1


def is_condition(sql: str) -> bool:
    """Whether a text compares something, so that it cannot be meant as the name of a column.

    >>> is_condition("A.id = B.id"), is_condition("odd name"), is_condition("a-b")
    (True, False, False)
    """
    tree = _condition(sql)
    return tree is not None and isinstance(tree.unnest(), exp.Predicate | exp.Connector | exp.Not)


def _condition(sql: str) -> exp.Expr | None:
    """A text as an expression; None where it is none."""
    try:
        return sqlglot.parse_one(sql, dialect=Verbatim, into=exp.Condition)
    except SqlglotError:
        return None


def is_collated(tree: exp.Expr) -> bool:
    """Whether an expression says by a COLLATE which texts are equal."""
    return any(isinstance(node, exp.Collate) or node.name.upper() == "COLLATE" for node in tree.find_all(exp.Func))


def beyond_one_row(tree: exp.Expr) -> tuple[str, exp.Expr] | None:
    """What in an expression needs more than the row at hand: its kind, and the place."""
    for kind, name in ((exp.Query, "a subquery"), (exp.Window, "a window function")):
        if found := tree.find(kind):
            return name, found
    aggregate = next((call for call in tree.find_all(exp.Anonymous) if is_aggregate(call.name)), None)
    return ("an aggregate", aggregate) if aggregate else None


def generator(tree: exp.Expr) -> exp.Expr | None:
    """The call that makes several rows of one, if there is one."""
    return next((call for call in tree.find_all(exp.Anonymous) if call.name.upper() in _GENERATORS), None)


def is_aggregate(name: str) -> bool:
    """Whether a function is of several rows.

    >>> is_aggregate("count"), is_aggregate("abs")
    (True, False)
    """
    return name.upper() in _AGGREGATES or "AGG" in name.upper().split("_")


def _mark_unit(call: exp.Anonymous) -> None:
    """Turn the DAY of ``datediff(DAY, ...)``, which looks like a column, into the word it is."""
    for column in call.expressions[:1] if call.name.upper() in _WITH_A_UNIT else ():
        if isinstance(column, exp.Column) and len(column.parts) == 1 and column.name.upper() in _UNITS:
            column.replace(exp.var(column.name.upper()))


def _unparsed(sql: str, error: SqlglotError) -> QueryError:
    if not sql.strip():
        return QueryError("the expression is empty", why="there is nothing to evaluate", how="write a SQL expression")
    how = "write it as in Spark SQL, with names that are keywords or have odd characters in backquotes"
    if not isinstance(error, ParseError) or not error.errors:
        return QueryError(f"'{sql}' is not SQL", why=str(error), how=how)
    first = error.errors[0]
    complaint = str(first["description"]).split(" for <class")[0]
    place = f"at '{first['highlight']}' (line {first['line']}, column {first['col']})"
    return QueryError(f"'{sql}' is not SQL", why=f"{complaint} {place}", how=how)
