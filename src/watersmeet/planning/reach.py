"""Conditions between event times: how much later than a row those can be that it is joined with (interval joins).

``B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR`` says that a row of A is joined only with rows of B up to an hour later,
and a row of B only with rows of A that are not later at all. So state is bounded as by windows. The condition itself
stays what it is, and means what SQL says.

Days are added by the calendar where times have a zone, so they may be longer than 24 hours: wherever a condition speaks
of days, also if it takes some hours off again, a day more is waited.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlglot import exp

from watersmeet.model.errors import WatersmeetError
from watersmeet.model.plan import Column
from watersmeet.planning.durations import duration_us
from watersmeet.planning.expressions import Conjunct, parsed

DAY_US = 86_400_000_000

Reach = dict[tuple[str, str], int]
"""By two streams: how many microseconds later rows of the second may be that are joined with one of the first."""

_BY_CALENDAR = re.compile(r"day|week", re.IGNORECASE)


class _Linear(NamedTuple):
    """An event time and a length that is added to it."""

    time: Column
    length_us: int = 0
    has_days: bool = False


def reach_of(conditions: Iterable[Conjunct], times: dict[str, Column]) -> Reach:
    """What conditions say of the event times of streams, which ``times`` tells.

    >>> import pyarrow as pa
    >>> from watersmeet.model.query import StreamNode
    >>> from watersmeet.planning.expressions import conjuncts
    >>> from watersmeet.planning.names import Scope
    >>> scope = Scope(StreamNode(name, pa.schema([("t", pa.timestamp("us"))])) for name in "AB")
    >>> hour = conjuncts("B.t BETWEEN A.t AND A.t + INTERVAL 1 HOUR", scope)
    >>> reach_of(hour, {name: Column(name, "t") for name in "AB"})
    {('B', 'A'): 0, ('A', 'B'): 3600000000}
    """
    found: Reach = {}
    for condition in conditions:
        for pair, later in _bounds(parsed(condition.sql, exp.Condition).unnest(), times):
            found[pair] = min(later, found.get(pair, later))
    return found


def _bounds(tree: exp.Expr, times: dict[str, Column]) -> Iterator[tuple[tuple[str, str], int]]:
    if isinstance(tree, exp.Between):
        yield from _at_most(tree.args["low"], tree.this, times)
        yield from _at_most(tree.this, tree.args["high"], times)
    elif isinstance(tree, exp.LT | exp.LTE):
        yield from _at_most(tree.left, tree.right, times, is_strict=isinstance(tree, exp.LT))
    elif isinstance(tree, exp.GT | exp.GTE):
        yield from _at_most(tree.right, tree.left, times, is_strict=isinstance(tree, exp.GT))


def _at_most(
    low: exp.Expr, high: exp.Expr, times: dict[str, Column], *, is_strict: bool = False
) -> Iterator[tuple[tuple[str, str], int]]:
    """``low <= high``, where both are a time and a length: the one time is at most so much later than the other."""
    earlier, later = _linear(low, times), _linear(high, times)
    if earlier is not None and later is not None and earlier.time.stream != later.time.stream:
        length = later.length_us - earlier.length_us - (1 if is_strict else 0)
        slack = DAY_US if earlier.has_days or later.has_days else 0
        yield (later.time.stream, earlier.time.stream), length + slack


def _linear(tree: exp.Expr, times: dict[str, Column]) -> _Linear | None:
    """An event time, plus or minus a length."""
    tree = tree.unnest()
    if isinstance(tree, exp.Column):
        parts = tuple(part.name for part in tree.parts)
        return next((_Linear(column) for column in times.values() if parts == tuple(column)), None)
    if isinstance(tree, exp.Add | exp.Sub):
        time, length = _linear(tree.left, times), _length(tree.right)
        if isinstance(tree, exp.Add) and (time is None or length is None):
            time, length = _linear(tree.right, times), _length(tree.left)
        if time is not None and length is not None:
            change_us, has_days = length
            change_us = change_us if isinstance(tree, exp.Add) else -change_us
            return _Linear(time.time, time.length_us + change_us, time.has_days or has_days)
    return None


def _length(tree: exp.Expr) -> tuple[int, bool] | None:
    """How long an interval is, and whether its days are those of the calendar."""
    tree = tree.unnest()
    if not isinstance(tree, exp.Interval):
        return None
    text = tree.sql(dialect="spark")
    try:
        return duration_us("interval", text, may_be_zero=True), bool(_BY_CALENDAR.search(text))
    except WatersmeetError:
        return None
