"""Columns that change from one evaluation to the next, as those of ``rand()`` and ``uuid()``, are refused.

Spark may evaluate a batch more than once: for a task that is repeated, for a sink that reads twice, after a restart. A
row would then be kept in state with another value than the sink was given. Functions whose value is fixed by the row's
place in its source, as ``input_file_name()``, are fine.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from watersmeet.model.errors import UnsupportedError

_FIXED = frozenset({"InputFileName", "InputFileBlockStart", "InputFileBlockLength"})
"""Expressions that Spark takes for changing, although a row has the same value of them whenever it is read."""

_USERS = frozenset({"PythonUDF", "ScalaUDF"})


def refuse_changing_columns(what: str, df: DataFrame) -> None:
    """Refuse a streaming DataFrame whose columns may change; ``what`` says which it is."""
    plan = df._jdf.queryExecution().analyzed()  # noqa: SLF001 -- only the analysed plan knows
    changing = () if plan.deterministic() else _changing(plan)
    for found in changing:
        raise UnsupportedError(
            f"a column of {what} is computed with {found}",
            why="its value changes when Spark evaluates a row again, so state and sink could have different ones",
            how="write the stream to files or a topic first and read it from there, or derive the value from the row, "
            "as with xxhash64(id)",
        )


def _changing(plan: Any) -> Iterator[str]:
    """The functions that may give another value the next time, as a user calls them."""
    plans = [plan]
    while plans:
        node = plans.pop()
        plans += _items(node.children())
        expressions = _items(node.expressions())
        while expressions:
            each = expressions.pop()
            below = [child for child in _items(each.children()) if not child.deterministic()]
            expressions += below
            kind = str(each.getClass().getSimpleName())
            if not each.deterministic() and not below and kind not in _FIXED:
                is_users = kind in _USERS
                yield "a function that is marked as not deterministic" if is_users else f"{each.prettyName()}()"


def _items(sequence: Any) -> list[Any]:
    """The items of one of Scala's sequences."""
    return [sequence.apply(place) for place in range(sequence.size())]
