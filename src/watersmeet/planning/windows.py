"""Windows of Spark's function: ``window(A.ts, '1 minute')`` is the window of that length a time lies in.

They are counted from 1970, or from a little later or earlier, if told to. Those that *slide*, as ``window(A.ts, '10
minutes', '5 minutes')``, begin more often than they end: a time lies in several. SQL tells the last of them, and where
rows are aggregated, each is copied into the others (`watersmeet.operators.aggregate.sliding`). Windows of sessions,
which grow with the rows that come, are refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from watersmeet.model.errors import UnsupportedError
from watersmeet.model.plan import QUOTED, Column
from watersmeet.planning.durations import duration_us, interval_us, written
from watersmeet.planning.expressions import expression_of, parsed
from watersmeet.planning.names import Scope, readable

INSTANT, WALL_CLOCK = pa.timestamp("us", "UTC"), pa.timestamp("us")
"""Spark's TIMESTAMP and TIMESTAMP_NTZ."""

WINDOW_TYPE = pa.struct([pa.field("start", INSTANT), pa.field("end", INSTANT)])
WINDOWS_MOST = 1_000
"""As many windows a row may lie in: it becomes as many rows for a moment, and as many partial aggregates at worst."""

_WINDOWS = ("window", "session_window")
_MICROSECOND = "INTERVAL '1' MICROSECOND"


def micros(column: Column, kind: pa.DataType) -> str:
    """The microseconds since 1970 of a column of times, in SQL that gives the same whatever the session's zone is.

    What a clock on a wall shows is counted as if that clock were in Greenwich, as Spark's windows do.

    >>> micros(Column("A", "ts"), INSTANT)
    'UNIX_MICROS(`A`.`ts`)'
    """
    if kind == INSTANT:
        return f"UNIX_MICROS({column.sql})"
    fields = ("YEAR({0})", "MONTH({0})", "DAY({0})", "HOUR({0})", "MINUTE({0})", "EXTRACT(SECOND FROM {0})")
    return f"UNIX_MICROS(MAKE_TIMESTAMP({', '.join(each.format(column.sql) for each in fields)}, 'UTC'))"


@dataclass(frozen=True)
class TimeWindow:
    """A window of a length that the times of a column lie in; the one around 1970 begins ``offset_us`` after it.

    Where a window begins every ``slide_us``, a time lies in several, and this is the last of them.
    """

    column: Column
    length_us: int
    offset_us: int = 0
    kind: pa.DataType = INSTANT
    slide_us: int | None = None

    @property
    def slides(self) -> bool:
        """Whether a time lies in several."""
        return self.slide_us is not None

    @property
    def many(self) -> int:
        """In how many windows a time lies at most.

        >>> TimeWindow(Column("A", "ts"), 10).many, TimeWindow(Column("A", "ts"), 10, slide_us=4).many
        (1, 3)
        """
        return 1 if self.slide_us is None else -(-self.length_us // self.slide_us)

    @property
    def type(self) -> pa.DataType:
        """The type of the window."""
        return pa.struct([pa.field("start", self.kind), pa.field("end", self.kind)])

    @property
    def start(self) -> str:
        """The microsecond it begins with, in SQL."""
        return f"{self._time} - {self._since_start}"

    @property
    def end(self) -> str:
        """The microsecond after it, in SQL.

        >>> TimeWindow(Column("A", "ts"), 1).end
        'UNIX_MICROS(`A`.`ts`) + 1'
        """
        start = self._time if self.length_us == 1 else self.start
        return f"{start} + {self.length_us}"

    @property
    def sql(self) -> str:
        """The window as Spark's function gives it."""
        start, end = f"TIMESTAMP_MICROS({self.start})", f"TIMESTAMP_MICROS({self.start} + {self.length_us})"
        if self.kind != INSTANT:
            start = f"{self.column.sql} - {self._since_start} * {_MICROSECOND}"
            end = f"{start} + INTERVAL '{self.length_us}' MICROSECOND"
        return f"NAMED_STRUCT('start', {start}, 'end', {end})"

    @property
    def _time(self) -> str:
        return micros(self.column, self.kind)

    @property
    def _since_start(self) -> str:
        """How many microseconds after its beginning the time is."""
        counted = self._time if not self.offset_us else f"{self._time} - {self.offset_us}"
        return f"PMOD({counted}, {self.slide_us or self.length_us})"


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
    if not pa.types.is_timestamp(scope.types[column]):
        raise _no_window(sql, f"{column.name} is no timestamp")
    window = _window_of(sql, column, scope.types[column], tree.expressions[1:])
    check_many(sql, window.many)
    return window


def _window_of(sql: str, column: Column, kind: pa.DataType, arguments: Sequence[exp.Expr]) -> TimeWindow:
    texts = [re.sub(r"^'|'$", "", each.sql(dialect="spark")) for each in arguments]
    length = duration_us(f"the length of {readable(sql)}", texts[0], may_be_zero=False)
    slide = duration_us(f"the slide of {readable(sql)}", texts[1], may_be_zero=False) if len(texts) > 1 else length
    offset = interval_us(texts[2]) if len(texts) > len(("length", "slide")) else 0
    if slide > length:
        raise _no_window(sql, "its slide is longer than itself, so some times would lie in none")
    if abs(offset) >= slide:
        raise _no_window(sql, "its offset is not shorter than its slide")
    return TimeWindow(column, length, offset, kind, slide if slide < length else None)


def check_many(sql: str, many: int) -> None:
    """Refuse windows of which a row would lie in very many."""
    if many > WINDOWS_MOST:
        raise UnsupportedError(
            f"rows are grouped by {readable(sql)}",
            why=f"each row would be in {many:,} windows, and {WINDOWS_MOST:,} are the most: it is kept once for each",
            how="let windows begin less often, or group by short ones that do not slide and add up what comes",
        )


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
    >>> window_shown(TimeWindow(Column("A", "ts"), 60_000_000, 0, WALL_CLOCK, 5_000_000).sql)
    "window(`A`.`ts`, '1 minute', '5 seconds')"
    >>> window_shown("`A`.`k` + 1")
    '`A`.`k` + 1'
    """
    found = _WRITTEN.fullmatch(sql)
    if not found:
        return sql
    length, slide, offset = (int(found[name] or 0) for name in ("length", "slide", "offset"))
    more = [written(slide)] if offset or slide != length else []
    more += [f"{'-' if offset < 0 else ''}{written(abs(offset))}"] if offset else []
    return f"window({found['column']}, {', '.join(repr(each) for each in (written(length), *more))})"


_WRITTEN = re.compile(
    rf"NAMED_STRUCT\('start', [A-Z_(]*(?P<column>{QUOTED}\.{QUOTED}).*"
    r" - PMOD\(.+?(?: - (?P<offset>-?\d+))?, (?P<slide>\d+)\).*, 'end', .* \+ (INTERVAL ')?(?P<length>\d+).*"
)


def _no_window(sql: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"rows are grouped by {readable(sql)}",
        why=why,
        how="write window(A.ts, '10 minutes') or window(A.ts, '10 minutes', '5 minutes'), with a column of timestamps",
    )
