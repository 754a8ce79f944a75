"""Columns that change from one evaluation to the next, as those of ``rand()`` and ``uuid()``, are refused.

Spark may evaluate a batch more than once: for a task that is repeated, for a sink that reads twice, after a restart. A
row would then be kept in state with another value than the sink was given. Functions whose value is fixed by the row's
place in its source, as ``input_file_name()``, are fine.
"""

import re

from pyspark.sql import DataFrame

from watersmeet.model.errors import UnsupportedError

_CHANGING = re.compile(
    r"\b(rand|randn|random|uuid|shuffle|randstr|uniform|monotonically_increasing_id)\(", re.IGNORECASE
)
_FIXED = re.compile(r"\b(input_file_name|input_file_block_start|input_file_block_length)\(", re.IGNORECASE)


def refuse_changing_columns(name: str, df: DataFrame) -> None:
    """Refuse a stream whose columns may change."""
    plan = df._jdf.queryExecution().analyzed()  # noqa: SLF001 -- only the analysed plan knows
    if plan.deterministic():
        return
    text = str(plan.toString())
    found = _CHANGING.search(text)
    if found is None and _FIXED.search(text):
        return
    what = f"{found[1]}()" if found else "a function that is marked as not deterministic"
    raise UnsupportedError(
        f"stream {name} is computed with {what}",
        why="its value changes when Spark evaluates a row again, so state and sink could have different ones",
        how="write the stream to files or a topic first and read it from there, or derive the value from the row, as "
        "with xxhash64(id)",
    )
