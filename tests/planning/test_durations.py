from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.errors import OptionError
from watersmeet.planning.durations import LONGEST_US, duration_us, written

SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


@pytest.mark.parametrize(
    ("text", "length_us"),
    [
        ("30 seconds", 30 * SECOND),
        ("1 second", SECOND),
        ("1hour 30min", 90 * MINUTE),
        ("1 hour, 30 minutes", 90 * MINUTE),
        ("  INTERVAL 2 DAYS ", 2 * DAY),
        ("interval '90' second", 90 * SECOND),
        ("1 Week", 7 * DAY),
        ("0.5 seconds", SECOND // 2),
        ("1.000001 s", SECOND + 1),
        ("2 ms 3 us", 2_003),
        ("1 day -2 hours", 22 * HOUR),
        ("+5 h", 5 * HOUR),
        (timedelta(days=1, microseconds=7), DAY + 7),
    ],
)
def test_lengths_are_read_as_spark_reads_them(text, length_us):
    assert duration_us("window", text, may_be_zero=False) == length_us


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "numbers with units"),
        ("interval", "numbers with units"),
        ("ten minutes", "numbers with units"),
        ("10", "numbers with units"),
        ("10 minutes ago", "numbers with units"),
        ("1e3 seconds", "e is no unit of time"),
        (10.5, "numbers with units"),
        (None, "numbers with units"),
        ("3 fortnights", "fortnights is no unit of time"),
        ("100 rows", "which rows are the last depends on how they arrive"),
        ("1 month", "a month is not always as long"),
        ("2 Years", "a year is not always as long"),
        ("1 day -2 days", "it is negative"),
        ("-0.5 seconds", "it is negative"),
        (timedelta(seconds=-1), "it is negative"),
        ("0 days", "no time at all"),
        ("100000 years", "a year is not always as long"),
        ("26687998 days", "70,000 years"),
        ("999999999999999999 weeks", "70,000 years"),
    ],
)
def test_what_is_no_length_is_refused_with_a_reason(value, why):
    with pytest.raises(OptionError) as refused:
        duration_us("the window of A", value, may_be_zero=False)
    assert why in refused.value.why
    assert refused.value.what == f"the window of A is {value!r}"
    assert "10 minutes" in refused.value.how


def test_no_time_at_all_is_a_delay():
    assert duration_us("watermark", "0 seconds", may_be_zero=True) == 0
    assert duration_us("watermark", timedelta(), may_be_zero=True) == 0


@given(st.integers(0, LONGEST_US))
def test_what_is_written_is_read_again(length_us):
    assert duration_us("window", written(length_us), may_be_zero=True) == length_us
