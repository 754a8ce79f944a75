"""Windows of Spark's function: ``window(A.ts, '1 minute')`` is the window of that length a time lies in.

They are counted from 1970, or from a little later or earlier, if told to. A row is in one window: those that slide, and
those of sessions, which grow with the rows that come, are refused wherever a group is told of.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from watersmeet.model.errors import UnsupportedError
from watersmeet.model.plan import Column
from watersmeet.planning.durations import duration_us, interval_us, written
from watersmeet.planning.expressions import expression_of, parsed
from watersmeet.planning.names import Scope, readable

INSTANT = pa.timestamp("us", "UTC")
WINDOW_TYPE = pa.struct([pa.field("start", INSTANT), pa.field("end", INSTANT)])
_WINDOWS = ("window", "session_window")


@dataclass(frozen=True)
class TimeWindow:
    """A window of a length that the times of a column lie in; the one around 1970 begins ``offset_us`` after it."""

    column: Column
    length_us: int
    offset_us: int = 0

    @property
    def start(self) -> str:
        """The microsecond it begins with, in SQL."""
        time = f"UNIX_MICROS({self.column.sql})"
        counted = time if not self.offset_us else f"{time} - {self.offset_us}"
        return f"{time} - PMOD({counted}, {self.length_us})"

    @property
    def sql(self) -> str:
        """The window as Spark's function gives it."""
        return f"NAMED_STRUCT('start', TIMESTAMP_MICROS({self.start}), 'end', TIMESTAMP_MICROS({self.end}))"

    @property
    def end(self) -> str:
        """The microsecond after it, in SQL.

        >>> TimeWindow(Column("A", "ts"), 1).end
        'UNIX_MICROS(`A`.`ts`) + 1'
        """
        start = f"UNIX_MICROS({self.column.sql})" if self.length_us == 1 else self.start
        return f"{start} + {self.length_us}"


def time_window(sql: str, scope: Scope) -> TimeWindow | None:
    """The window a call of ``window`` means; None where some SQL is none."""
    tree = parsed(sql, exp.Condition).unnest()
    if not isinstance(tree, exp.Anonymous) or tree.name.lower() not in _WINDOWS:
        refuse_windows_within(tree)
        return None
    if tree.name.lower() == "session_window":
        raise _no_window(sql, "a session grows with the rows that come, and two may become one")
    if len(tree.expressions) == 1:
        raise _no_window(sql, "it has no length")
    column = expression_of(tree.expressions[0], scope).column
    if column is None:
        raise _no_window(sql, "its first argument is no column")
    if scope.types[column] != INSTANT:
        raise _no_window(sql, f"{column.name} is no timestamp with a zone")
    return TimeWindow(column, *_length_and_offset(sql, tree.expressions[1:]))


def _length_and_offset(sql: str, arguments: Sequence[exp.Expr]) -> tuple[int, int]:
    texts = [re.sub(r"^'|'$", "", each.sql(dialect="spark")) for each in arguments]
    length = duration_us(f"the length of {readable(sql)}", texts[0], may_be_zero=False)
    if len(texts) > 1 and duration_us(f"the slide of {readable(sql)}", texts[1], may_be_zero=False) != length:
        raise _no_window(sql, "it slides")
    offset = interval_us(texts[2]) if len(texts) > len(("length", "slide")) else 0
    if abs(offset) >= length:
        raise _no_window(sql, "its offset is not shorter than itself")
    return length, offset


def refuse_windows_within(tree: exp.Expr) -> None:
    """Refuse expressions that make something of a window: what Spark would make of it for one row alone is no group."""
    calls = (each for each in tree.find_all(exp.Anonymous) if each.name.lower() in _WINDOWS)
    found = next(calls, None)
    if found is not None:
        raise _no_window(tree.sql(dialect="spark"), f"it is made of {readable(found.sql(dialect='spark'))}")


def window_shown(sql: str) -> str:
    """The SQL of a window as its user writes it; other SQL as it is.

    >>> window_shown(TimeWindow(Column("A", "ts"), 60_000_000).sql)
    "window(`A`.`ts`, '1 minute')"
    >>> window_shown(TimeWindow(Column("A", "ts"), 60_000_000, 5_000_000).sql)
    "window(`A`.`ts`, '1 minute', '1 minute', '5 seconds')"
    >>> window_shown("`A`.`k` + 1")
    '`A`.`k` + 1'
    """
    start = r"UNIX_MICROS\((.+?)\) - PMOD\(UNIX_MICROS\(.+?\)(?: - (-?\d+))?, (\d+)\)"
    found = re.fullmatch(rf"NAMED_STRUCT\('start', TIMESTAMP_MICROS\({start}\), 'end'.*", sql)
    if not found:
        return sql
    length, offset = written(int(found[3])), int(found[2] or 0)
    more = f", '{length}', '{'-' if offset < 0 else ''}{written(abs(offset))}'" if offset else ""
    return f"window({found[1]}, '{length}'{more})"


def _no_window(sql: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"rows are grouped by {readable(sql)}",
        why=f"{why}, and a row is in one window only here",
        how="write window(A.ts, '1 minute'), with a column of timestamps and one length",
    )
