"""What conditions say of the rows of one input, given a row of the other: a value of theirs lies in a range.

| condition | value of a stored row | range for a probing row |
|---|---|---|
| ``stored.x < probe.y`` and the like | x | below y |
| ``ABS(stored.x - probe.y) <= c`` | x | from y - c to y + c |
| lives overlap | when it begins, when it ends | before the probe ends, after the probe begins |
| conditions between times | when it begins | as far apart as they allow |
| the same of texts | the first bytes of x | up to those of y |
| ``startswith(stored.x, probe.y)`` | x | from y to the last text that begins with y |
| ``startswith(probe.y, stored.x)`` | x, and the last text that begins with it | up to y, and from y |

Everything else is a *residual* test, evaluated on the pairs that the ranges let through. A range never leaves out a
pair that passes; where it lets none through that does not, it is *exact* and the condition need not be asked again. Of
differences of floating-point numbers only their own subtraction knows on which side of a limit they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from watersmeet.model.plan import Test
from watersmeet.operators.join.lives import Bounds
from watersmeet.operators.ranges import Index
from watersmeet.operators.ring.pieces import (
    BEGIN,
    END,
    LEAST_TEXT,
    MOST_TEXT,
    Mask,
    Numbers,
    Piece,
    Range,
    Values,
    is_text,
)
from watersmeet.operators.spec import LifeSpec

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

FAR = 1 << 61
"""Differences of numbers up to here are numbers, too."""

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
_INDEXED = ("lt", "le", "gt", "ge", "eq")


@dataclass(frozen=True)
class Conditions:
    """All that two rows have to fulfil to be joined: tests, lives that overlap, and bounds on how far apart they are.

    Inputs are 0 and 1.
    """

    tests: tuple[Test, ...]
    lives: tuple[LifeSpec | None, ...]
    is_windowed: bool = False
    bounds: Bounds = ()

    def ranges(self, probing: int, probe: Piece, stored: Piece) -> Iterator[tuple[str, Range]]:
        """For each probing row, the range in which a value of the stored rows lies."""
        yield from self._times(probing, probe, stored)
        for test in self.tests:
            found = range_of(test, probe, stored)
            if found is not None:
                yield found
            elif test.function == "starts_with":
                yield from prefix_ranges(test, probe, stored)
            elif (texts := text_range(test, probe, stored)) is not None:
                yield texts

    def alternatives(self, probe: Piece, stored: Piece) -> Iterator["Conditions"]:
        """These conditions, or, where one is an OR of some by which rows are found, one for each: a pair passes one.

        The second is for pairs for which the first of them does not hold, and so on.
        """
        found = (test for test in self.tests if test.function == "or" and _is_found(test, probe, stored))
        either = next(found, None)
        if either is None:
            yield self
            return
        others = tuple(test for test in self.tests if test is not either)
        branches = list(_flat("or", either))
        for number, branch in enumerate(branches):
            before = (Test("untrue", (each,)) for each in branches[:number])
            yield replace(self, tests=(*others, *_flat("and", branch), *before))

    def residual(self, probe: Piece, stored: Piece) -> tuple[Test, ...]:
        """The tests that no range decides."""
        return tuple(test for test in self.tests if not is_exact(test) or range_of(test, probe, stored) is None)

    def _times(self, probing: int, probe: Piece, stored: Piece) -> Iterator[tuple[str, Range]]:
        if not self.is_windowed or probe.life is None or stored.life is None:
            return
        begin, end = probe.times(), probe.numbers(END)
        if not _is_endless(probe.life):
            yield BEGIN, Range(high=end, high_excluded=True)
        if stored.life.end is not None:
            yield END, Range(low=begin, low_excluded=True)
        elif stored.life.window_us is not None:
            yield BEGIN, _shifted(begin, 1 - stored.life.window_us, is_low=True)
        for first, second, later in self.bounds:  # the second is at most so much later than the first
            if first == probing:
                yield BEGIN, _shifted(begin, later, is_low=False)
            elif second == probing:
                yield BEGIN, _shifted(begin, -later, is_low=True)


def _is_endless(life: LifeSpec) -> bool:
    return life.end is None and life.window_us is None


def range_of(test: Test, probe: Piece, stored: Piece) -> tuple[str, Range] | None:
    """The range of a stored column that a test speaks of, by the values of a probing one; None where there is none."""
    if test.function not in (*_INDEXED, "within") or not all(isinstance(each, str) for each in test.arguments):
        return None
    first, second = (str(each) for each in test.arguments)
    is_first = first in stored.rows.schema.names
    name, other = (first, second) if is_first else (second, first)
    if name not in stored.rows.schema.names or other not in probe.rows.schema.names:
        return None
    values, limits = stored.numbers(name), probe.numbers(other)
    if values is None or limits is None:
        return None
    never = _missing(probe, other)
    if test.function == "within":
        found = _within(test, limits, is_first=is_first)
        return None if found is None else (name, _and_never(found, never))
    return name, _compared(test.function if is_first else _MIRRORED[test.function], limits, never)


def prefix_ranges(test: Test, probe: Piece, stored: Piece) -> Iterator[tuple[str, Range]]:
    """The ranges of texts that begin with given ones, or of those that given ones begin with: intervals around these.

    Only the first bytes are sorted, so the test is asked as well.
    """
    text, prefix = (str(each) for each in test.arguments)
    if text in stored.rows.schema.names and prefix in probe.rows.schema.names:
        low, high = (probe.values(prefix + each) for each in (LEAST_TEXT, MOST_TEXT))
        yield text + LEAST_TEXT, Range(low, high, never=_missing(probe, prefix))
    elif prefix in stored.rows.schema.names and text in probe.rows.schema.names:
        at, never = probe.values(text + LEAST_TEXT), _missing(probe, text)
        yield prefix + LEAST_TEXT, Range(high=at, never=never)
        yield prefix + MOST_TEXT, Range(low=at, never=never)


def text_range(test: Test, probe: Piece, stored: Piece) -> tuple[str, Range] | None:
    """The range of texts that a comparison speaks of, by their first bytes; None for other conditions."""
    if test.function not in _INDEXED or not all(isinstance(each, str) for each in test.arguments):
        return None
    first, second = (str(each) for each in test.arguments)
    is_first = first in stored.rows.schema.names
    name, other = (first, second) if is_first else (second, first)
    if name not in stored.rows.schema.names or other not in probe.rows.schema.names:
        return None
    if not all(is_text(rows.rows.column(each).type) for rows, each in ((stored, name), (probe, other))):
        return None
    function, limits = test.function if is_first else _MIRRORED[test.function], probe.values(other + LEAST_TEXT)
    found = _compared(function, limits, _missing(probe, other))
    return name + LEAST_TEXT, replace(found, low_excluded=False, high_excluded=False)


def _flat(function: str, test: Test) -> Iterator[Test]:
    """What a test combines by a function, without the steps between."""
    parts = [each for each in test.arguments if isinstance(each, Test)] if test.function == function else []
    if not parts:
        yield test
    for part in parts:
        yield from _flat(function, part)


def _is_found(either: Test, probe: Piece, stored: Piece) -> bool:
    """Whether rows are found by each of the conditions of which one has to hold."""
    return all(
        any(range_of(part, probe, stored) is not None for part in _flat("and", branch))
        for branch in _flat("or", either)
    )


def _missing(probe: Piece, name: str) -> Mask | None:
    valid = probe.valid(name)
    return None if valid is None else ~valid


def _compared(function: str, limits: Values | None, never: Mask | None) -> Range:
    """The values that are less than others, or greater, or the same."""
    low = limits if function in ("gt", "ge", "eq") else None
    high = limits if function in ("lt", "le", "eq") else None
    return Range(low, high, function == "gt", function == "lt", never)


def _within(test: Test, limits: Numbers, *, is_first: bool) -> Range | None:
    """The stored values whose difference with others is small enough: ``low <= first - second <= high``."""
    low, high = (test.low, test.high) if is_first else (_negative(test.high), _negative(test.low))
    if limits.dtype == np.int64:
        below = None if low is None else _shifted(limits, int(low), is_low=True)
        above = None if high is None else _shifted(limits, int(high), is_low=False)
        return _both(below, above)
    if test.high is None:  # what is not a number is greater than any, and so is a difference with it
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        least = None if low is None else np.nextafter(limits + np.nextafter(float(low), -np.inf), -np.inf)
        most = None if high is None else np.nextafter(limits + np.nextafter(float(high), np.inf), np.inf)
    return Range(_or_any(least, -np.inf), _or_any(most, np.inf))


def _or_any(limits: Numbers | None, widest: float) -> Numbers | None:
    """Limits that are no numbers let everything through."""
    return None if limits is None else np.where(np.isnan(limits), widest, limits)


def _negative(number: float | None) -> float | None:
    return None if number is None else -number


def _shifted(values: Numbers, by: int, *, is_low: bool) -> Range:
    """The range that begins or ends at values and a distance; one beyond all numbers lets all through, or nothing."""
    over = values > MOST - by if by > 0 else np.zeros(len(values), dtype=np.bool_)
    under = values < LEAST - by if by < 0 else np.zeros(len(values), dtype=np.bool_)
    with np.errstate(over="ignore"):
        limit = np.where(over, MOST, np.where(under, LEAST, values + by))
    if is_low:
        return Range(low=limit, never=over if over.any() else None)
    return Range(high=limit, never=under if under.any() else None)


def _both(below: Range | None, above: Range | None) -> Range:
    nevers = [each.never for each in (below, above) if each is not None and each.never is not None]
    never = np.logical_or.reduce(nevers) if nevers else None
    low, high = None if below is None else below.low, None if above is None else above.high
    return Range(low, high, never=never)


def _and_never(found: Range, never: Mask | None) -> Range:
    if never is None:
        return found
    both = never if found.never is None else never | found.never
    return Range(found.low, found.high, found.low_excluded, found.high_excluded, both)


def implied(ranges: Sequence[tuple[str, Range]], stored: Piece) -> Iterator[tuple[str, Range]]:
    """What follows for a value that is below a limit from another that is above one: they are only so far apart."""
    below = {name for name, each in ranges if each.high is not None and each.low is None}
    above = [(name, each.low) for name, each in ranges if each.low is not None and each.high is None]
    for name, low in above:
        for other in sorted(below - {name}):
            apart = _most_apart(name, other, stored)
            if apart is not None:
                yield other, _lower(cast("Numbers", low), apart)


def _most_apart(name: str, other: str, stored: Piece) -> float | None:
    """By how much the one value is greater than the other at most; None where nobody knows."""
    values, others = stored.numbers(name), stored.numbers(other)
    if values is None or others is None or values.dtype != others.dtype or not len(values):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        kept = [each for each in (stored.valid(name), stored.valid(other)) if each is not None]
        both = np.logical_and.reduce(kept) if kept else np.ones(len(values), dtype=np.bool_)
        most = (values - others)[both].max(initial=0)
        is_known = np.isfinite(most) and _are_near(values) and _are_near(others)
    return most.item() if is_known else None


def _are_near(values: Numbers) -> bool:
    """Whether differences are numbers; the least one has no absolute value."""
    return bool(values.min() > -FAR and values.max() < FAR)


def _lower(limits: Numbers, by: float) -> Range:
    if isinstance(by, int):
        return _shifted(limits, -by, is_low=True)
    with np.errstate(invalid="ignore", over="ignore"):
        return Range(_or_any(np.nextafter(limits - np.nextafter(by, np.inf), -np.inf), -np.inf))


def is_exact(test: Test) -> bool:
    """Whether a range decides a test if there is one: limits of whole numbers are whole."""
    return test.function in _INDEXED or (test.function == "within" and not isinstance(test.low or test.high, float))


def positions(values: Values, found: Range) -> tuple[Index, Index]:
    """Where the values of a range lie among sorted ones, for each probing row.

    >>> below = Range(low=np.array([3]), high=np.array([8]), high_excluded=True)
    >>> [int(place[0]) for place in positions(np.array([1, 3, 3, 8]), below)]
    [1, 3]
    """
    limits = found.low if found.low is not None else found.high
    count = 0 if limits is None else len(limits)
    start: Index = np.zeros(count, dtype=np.int64)
    stop: Index = np.full(count, len(values), dtype=np.int64)
    if found.low is not None:
        start = np.searchsorted(values, found.low, side="right" if found.low_excluded else "left")
    if found.high is not None:
        stop = np.searchsorted(values, found.high, side="left" if found.high_excluded else "right")
    if found.never is not None:
        stop = np.where(found.never, start, stop)
    return start, np.maximum(start, stop)
