"""Predicates: user functions that decide which rows are joined."""

import inspect
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle

from watersmeet.model.errors import QueryError
from watersmeet.planning.dialect import is_stream_column


class Predicate:
    """A function and the columns it is called with; made by `predicate`."""

    def __init__(self, function: Callable[..., Any], columns: tuple[str, ...]) -> None:
        self.function, self.columns = function, columns

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def call(self, name: str) -> str:
        """A call of it, as SQL."""
        return f"{name}({', '.join(self.columns)})"

    def __repr__(self) -> str:
        return f"predicate({self.call(self.name)})"


def _check_arguments(made: Predicate, how: str) -> None:
    """A function without an inspectable signature is checked when it is called."""
    try:
        signature = inspect.signature(made.function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*made.columns)
    except TypeError as error:
        raise QueryError(
            f"predicate {made.name}{signature} is given {len(made.columns)} columns, {', '.join(made.columns)}",
            why=f"it is called with an array for each of them, by position: {error}",
            how=how,
        ) from error


def predicate(function: Callable[..., Any], *columns: str) -> Predicate:
    """A vectorised Python function that decides which rows a join brings together.

    It is called with Arrow arrays, the columns of many pairs of rows at a time, and returns a boolean for each: an
    Arrow or NumPy array; null is no match. Its result must depend on its arguments alone.

    >>> import pyarrow.compute as pc
    >>> import watersmeet as wm
    >>> wm.predicate(lambda left, right: pc.less(pc.bit_wise_xor(left, right), 4), "A.code", "B.code")
    predicate(<lambda>(A.code, B.code))
    >>> wm.predicate("A.code", "B.code")
    Traceback (most recent call last):
    watersmeet.model.errors.QueryError: [QueryError] a predicate is 'A.code': it has to be a function. To fix it, ...
    """
    how = 'write wm.predicate(fn, "A.x", "B.y") with a function that takes one Arrow array for each column'
    if not callable(function):
        raise QueryError(f"a predicate is {function!r}", why="it has to be a function", how=how)
    for column in columns:
        if not isinstance(column, str) or not is_stream_column(column):
            raise QueryError(f"a predicate reads {column!r}", why="it is called with columns, as A.x", how=how)
    if len(columns) < 2:  # noqa: PLR2004
        raise QueryError(
            f"a predicate reads {len(columns)} columns", why="it decides on rows of two streams or more", how=how
        )
    made = Predicate(function, columns)
    _check_arguments(made, how)
    try:
        cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise QueryError(
            f"{made} cannot be sent to Spark's workers",
            why=f"it cannot be pickled ({error})",
            how="keep connections, locks and sessions out of it; open these inside the function",
        ) from error
    return made
