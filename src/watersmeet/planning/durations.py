"""Lengths of time as Spark's users write them: ``"30 seconds"``, ``"1 hour 30 minutes"``, ``"INTERVAL 2 DAYS"``."""

import re
from datetime import timedelta

from watersmeet.model.errors import OptionError

_UNITS_US = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"\s*([+-]?[0-9]{1,18}(?:\.[0-9]{1,6})?)\s*([a-z]+)\s*,?", re.IGNORECASE)
_FIELDS = ("day", "hour", "minute", "second")
_SPAN = re.compile(r"\s*interval\s*([+-]?)\s*'([^']*)'\s*([a-z]+)\s+to\s+([a-z]+)\s*", re.IGNORECASE)
_NUMBERS = r"([0-9]{1,9}(?: +[0-9]{1,2})?(?::[0-9]{1,2}){0,2}(?:\.[0-9]{1,6})?)"
LONGEST_US = 1 << 61
"""Some 73,000 years; times and lengths can be added without a thought."""


def duration_us(what: str, value: object, *, may_be_zero: bool) -> int:
    """A length of time in microseconds; ``what`` it is, for whoever has to mend it.

    >>> duration_us("window", "1 hour 30 minutes", may_be_zero=False)
    5400000000
    >>> duration_us("watermark", "0 seconds", may_be_zero=True)
    0
    >>> duration_us("window", "a while", may_be_zero=False)
    Traceback (most recent call last):
    watersmeet.model.errors.OptionError: [OptionError] window is 'a while': it is a length of time: ...
    """
    total = _microseconds(what, value)
    if total < 0 or (total == 0 and not may_be_zero):
        sign = "negative" if total < 0 else "no time at all"
        raise _bad(what, value, f"it is {sign}")
    if total > LONGEST_US:
        raise _bad(what, value, "it is more than 70,000 years")
    return total


def interval_us(value: str) -> int:
    """How long an interval is, which may be negative; in units, or as ``DAY TO SECOND`` and its parts.

    >>> interval_us("INTERVAL '-5' SECONDS"), interval_us("INTERVAL '01:30' HOUR TO MINUTE")
    (-5000000, 5400000000)
    >>> interval_us("INTERVAL -'1 00:00:00.5' DAY TO SECOND")
    -86400500000
    """
    found = _SPAN.fullmatch(value)
    total = _microseconds("interval", value) if found is None else _of_fields(value, *found.groups())
    if abs(total) > LONGEST_US:
        raise _bad("interval", value, "it is more than 70,000 years")
    return total


def _of_fields(value: str, sign: str, text: str, first: str, last: str) -> int:
    """The length of ``1 02:30:00.5``, whose numbers are in the units from the first to the last."""
    names = [first.lower(), last.lower()]
    places = [_FIELDS.index(name) for name in names if name in _FIELDS]
    numbers = re.fullmatch(r"([+-]?)" + _NUMBERS, text.strip())
    parts = [] if numbers is None else re.split(r"[ :]+", numbers[2])
    units = _FIELDS[places[0] : places[-1] + 1] if len(places) == len(names) else ()
    if numbers is None or len(parts) != len(units):
        raise _bad("interval", value, f"its numbers are no {first} TO {last}")
    total = sum(_scaled(part, _UNITS_US[unit]) for part, unit in zip(parts, units, strict=True))
    return -total if (sign == "-") != (numbers[1] == "-") else total


def written(length_us: int) -> str:
    """A length of time in words, in the largest units that need no fractions.

    >>> written(5_400_000_000), written(0), written(90_000_001)
    ('1 hour 30 minutes', '0 seconds', '1 minute 30 seconds 1 microsecond')
    """
    parts, rest = [], length_us
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        count, rest = divmod(rest, _UNITS_US[unit])
        if count:
            parts.append(f"{count} {unit}{'s' if count != 1 else ''}")
    return " ".join(parts) or "0 seconds"


def _microseconds(what: str, value: object) -> int:
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if not isinstance(value, str):
        raise _bad(what, value, "it is a length of time: numbers with units")
    text = re.sub(r"^\s*interval\b", "", value.strip(), flags=re.IGNORECASE).replace("'", "")
    total, at = 0, 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise _bad(what, value, "it is a length of time: numbers with units")
        unit = found[2].lower()
        known = unit if unit in _UNITS_US else unit.removesuffix("s")
        if known in ("month", "year", "quarter"):
            raise _bad(what, value, f"a {known} is not always as long, and a row lives to the microsecond")
        if known == "row":
            raise _bad(what, value, "it is a length of event time; which rows are the last depends on how they arrive")
        if known not in _UNITS_US:
            raise _bad(what, value, f"{found[2]} is no unit of time")
        total += _scaled(found[1], _UNITS_US[known])
        at = found.end()
    if not text.strip():
        raise _bad(what, value, "it is a length of time: numbers with units")
    return total


def _scaled(number: str, unit_us: int) -> int:
    whole, _, part = number.partition(".")
    sign = -1 if whole.startswith("-") else 1
    return int(whole) * unit_us + (sign * int(part) * unit_us // 10 ** len(part) if part else 0)


def _bad(what: str, value: object, why: str) -> OptionError:
    how = 'write it as "30 seconds", "10 minutes" or "1 hour 30 minutes"'
    return OptionError(f"{what} is {value!r}", why=why, how=how)
