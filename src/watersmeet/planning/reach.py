"""Conditions between event times: how much later than a row those can be that it is joined with (interval joins).

``B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR`` says that a row of A is joined only with rows of B up to an hour later,
and a row of B only with rows of A that are not later at all. So state is bounded as by windows, and rows that are too
far apart are not even looked at. ``B.ts - A.ts <= INTERVAL 1 HOUR`` says the same, and of ``A.ts = B.ts`` neither is
later than the other. What follows from several conditions
of inner joins counts, too: with a second one between A and C, rows of B and C are not far apart either.

A condition that says nothing else, and is exact, is thereby decided where rows are joined (`is_exact`). Any other stays
what it is, and means what SQL says.

Days are added by the calendar where times have a zone, so they may be longer than 24 hours: wherever a condition speaks
of days, or of as many hours, also if it takes some off again, a day more is waited. So it is where it subtracts one
time from another, as Spark takes the difference of what clocks on the wall show.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations, product
from typing import NamedTuple

from sqlglot import exp

from watersmeet.model.errors import WatersmeetError
from watersmeet.model.plan import Column
from watersmeet.planning.classes import TermClass
from watersmeet.planning.durations import interval_us
from watersmeet.planning.expressions import NULL_SAFE, Conjunct, Expression, equated, parsed

DAY_US = 86_400_000_000

Reach = dict[tuple[str, str], int]
"""By two streams: how many microseconds later rows of the second may be that are joined with one of the first."""

_BY_CALENDAR = re.compile(r"day|week", re.IGNORECASE)


class _Linear(NamedTuple):
    """An event time and a length that is added to it."""

    time: Column
    length_us: int = 0
    has_days: bool = False


def reach_of(conditions: Iterable[Conjunct], times: dict[str, Column], keys: Iterable[TermClass] = ()) -> Reach:
    """What conditions and equal keys say of the event times of streams, which ``times`` tells.

    >>> import pyarrow as pa
    >>> from watersmeet.model.query import StreamNode
    >>> from watersmeet.planning.expressions import conjuncts
    >>> from watersmeet.planning.names import Scope
    >>> scope = Scope(StreamNode(name, pa.schema([("t", pa.timestamp("us"))])) for name in "AB")
    >>> hour = conjuncts("B.t BETWEEN A.t AND A.t + INTERVAL 1 HOUR", scope)
    >>> reach_of(hour, {name: Column(name, "t") for name in "AB"})
    {('B', 'A'): 0, ('A', 'B'): 3600000000}
    """
    equal = (_apart(_term(low), _term(high), times) for each in keys for low, high in permutations(each.terms, 2))
    return _both([*(_bounds(_tree(condition), times) for condition in conditions), *equal])


def closed(reach: Reach) -> Reach:
    """The same with what follows from it, if all of it holds for every result.

    >>> closed({("A", "B"): 10, ("B", "C"): 5})
    {('A', 'B'): 10, ('B', 'C'): 5, ('A', 'C'): 15}
    """
    found = dict(reach)
    streams = dict.fromkeys(stream for pair in reach for stream in pair)
    for between, first, last in product(streams, repeat=3):
        if first != last and (first, between) in found and (between, last) in found:
            later = found[first, between] + found[between, last]
            found[first, last] = min(later, found.get((first, last), later))
    return found


def between(reach: Reach, first: Iterable[str], last: Iterable[str]) -> int | None:
    """How much later than results of some streams those of others may begin, if conditions say so.

    A result begins with its latest row, so it is no earlier than any of its rows.

    >>> between({("A", "C"): 5, ("B", "C"): 3, ("A", "D"): 9}, "AB", "CD")
    9
    """
    pairs = [[reach[one, other] for one in first if (one, other) in reach] for other in last]
    return max(map(min, pairs)) if pairs and all(pairs) else None


def is_exact(condition: Conjunct, times: dict[str, Column]) -> bool:
    """Whether `reach_of` tells all that a condition says, to the microsecond."""
    pairs = [(_linear(low, times), _linear(high, times)) for low, high, _ in _ordered(_tree(condition))]
    return bool(pairs) and all(
        low is not None and high is not None and low.time != high.time and not (low.has_days or high.has_days)
        for low, high in pairs
    )


def untold(condition: Conjunct, times: dict[str, Column]) -> Iterator[tuple[str, str]]:
    """Pairs of streams of which a condition compares the times, without telling how much later the second may be.

    >>> import pyarrow as pa
    >>> from watersmeet.model.query import StreamNode
    >>> from watersmeet.planning.expressions import conjuncts
    >>> from watersmeet.planning.names import Scope
    >>> scope = Scope(StreamNode(name, pa.schema([("t", pa.timestamp("us"))])) for name in "AB")
    >>> times = {name: Column(name, "t") for name in "AB"}
    >>> [*untold(conjuncts("B.t <= A.t + INTERVAL 1 MONTH", scope)[0], times)]
    [('A', 'B')]
    """
    for low, high, _ in _ordered(_tree(condition)):
        if None in _two_times(low, high, times):
            yield from product(_times_in(high, times), _times_in(low, times))


def _times_in(tree: exp.Expr, times: dict[str, Column]) -> list[str]:
    read = {tuple(part.name for part in column.parts) for column in tree.find_all(exp.Column)}
    return [name for name, column in times.items() if tuple(column) in read]


def _tree(condition: Conjunct) -> exp.Expr:
    return parsed(condition.sql, exp.Condition).unnest()


def _ordered(tree: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, bool]]:
    """What a comparison says: the one is at most the other, or less."""
    if isinstance(tree, exp.Between):
        yield tree.args["low"], tree.this, False
        yield tree.this, tree.args["high"], False
    elif isinstance(tree, exp.LT | exp.LTE):
        yield tree.left, tree.right, isinstance(tree, exp.LT)
    elif isinstance(tree, exp.GT | exp.GTE):
        yield tree.right, tree.left, isinstance(tree, exp.GT)


def _bounds(tree: exp.Expr, times: dict[str, Column], *, negated: bool = False) -> Reach:
    """What a condition says, or that it does not hold: of AND, all that its parts say; of OR, what each does."""
    tree = tree.unnest()
    if isinstance(tree, exp.Not):
        return _bounds(tree.this, times, negated=not negated)
    if isinstance(tree, exp.And | exp.Or):
        parts = [_bounds(each, times, negated=negated) for each in (tree.left, tree.right)]
        return _both(parts) if isinstance(tree, exp.And) != negated else _either(parts)
    if (sides := equated(tree)) is not None:
        return {} if negated else _both(_apart(low, high, times) for low, high in permutations(sides))
    compared = list(_ordered(tree))
    if negated:
        return _either([_apart(high, low, times, is_strict=not is_strict) for low, high, is_strict in compared])
    return _both(_apart(low, high, times, is_strict=is_strict) for low, high, is_strict in compared)


def _both(parts: Iterable[Reach]) -> Reach:
    found: Reach = {}
    for pair, later in (each for part in parts for each in part.items()):
        found[pair] = min(later, found.get(pair, later))
    return found


def _either(parts: Sequence[Reach]) -> Reach:
    first, *others = parts or [{}]
    return {pair: max(part[pair] for part in parts) for pair in first if all(pair in part for part in others)}


def _apart(low: exp.Expr, high: exp.Expr, times: dict[str, Column], *, is_strict: bool = False) -> Reach:
    """If one side is at most the other: where both are a time and a length, how much later the one time is at most."""
    earlier, later = _two_times(low, high, times)
    if earlier is None or later is None or earlier.time.stream == later.time.stream:
        return {}
    slack = DAY_US if earlier.has_days or later.has_days else 0
    return {(later.time.stream, earlier.time.stream): later.length_us - earlier.length_us - is_strict + slack}


def _term(term: Expression) -> exp.Expr:
    """What is equated, also where ``<=>`` has it in a struct."""
    tree = parsed(term.sql, exp.Condition).unnest()
    is_held = isinstance(tree, exp.Anonymous) and f"'{NULL_SAFE}'" in tree.sql(dialect="spark")
    return tree.expressions[1] if is_held else tree


def _two_times(low: exp.Expr, high: exp.Expr, times: dict[str, Column]) -> tuple[_Linear | None, _Linear | None]:
    """The two sides of ``low <= high`` as times; with a difference of times on one side, it goes to the other."""
    for tree, length, is_high in ((low, _length(high), False), (high, _length(low), True)):
        difference = tree.unnest()
        if length is not None and isinstance(difference, exp.Sub):
            first, second = _linear(difference.left, times), _linear(difference.right, times)
            if first is None or second is None:
                return None, None
            moved = _Linear(second.time, second.length_us + length[0], has_days=True)
            return (moved, first) if is_high else (first, moved)
    return _linear(low, times), _linear(high, times)


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
    if isinstance(tree, exp.Neg):
        found = _length(tree.this)
        return None if found is None else (-found[0], found[1])
    if not isinstance(tree, exp.Interval):
        return None
    text = tree.sql(dialect="spark").replace("(", "").replace(")", "")
    try:
        length_us = interval_us(text)
    except WatersmeetError:
        return None
    return length_us, abs(length_us) >= DAY_US or bool(_BY_CALENDAR.search(text))
