"""`foreach`: a user's function or object that takes one row after the other, where the rows are."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

from watersmeet.model.errors import OptionError


def row_function(f: object) -> Callable[[DataFrame, int], None]:
    """A function of an epoch's rows that gives each to ``f``."""
    if not callable(f) and not callable(getattr(f, "process", None)):
        raise OptionError(
            "foreach was given no function",
            why=f"{f!r} cannot be called, and has no method process",
            how="give a function of a row, or an object with process(row), open(partition, epoch) and close(error)",
        )

    def each(rows: DataFrame, epoch: int) -> None:
        rows.foreachPartition(partial(_give, f, epoch))

    return each


def _give(f: Any, epoch: int, rows: Iterator[Row]) -> None:
    if not callable(getattr(f, "process", None)):
        for row in rows:
            f(row)
        return
    context, failure = TaskContext.get(), None
    number = context.partitionId() if context is not None else 0
    is_open = f.open(number, epoch) if hasattr(f, "open") else True
    try:
        for row in rows if is_open else ():
            f.process(row)
    except Exception as error:
        failure = error
        raise
    finally:
        if hasattr(f, "close"):
            f.close(failure)
