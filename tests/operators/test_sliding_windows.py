"""Rows in windows that slide: each is in those that begin no later and end after it, and stays in its group."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from watersmeet.model.plan import Sliding
from watersmeet.operators.aggregate import sliding
from watersmeet.operators.aggregate.sliding import in_windows
from watersmeet.state.groups import group_of
from watersmeet.state.rows import is_sorted, merge_rows, sort_rows

GROUPS = 7


def rows_of(times, length, slide, kind):
    """Rows as they come, with the last of their windows."""
    starts = np.array([time - time % slide for time in times], np.int64)
    bounds = [pa.array(each).view(kind) for each in (starts, starts + length)]
    windows = pa.StructArray.from_arrays(bounds, names=["start", "end"])
    columns = {
        "ts": pa.array(times, pa.int64()).view(kind),
        "window": windows,
        "final": pa.array(starts + length),
        "id": pa.array(np.arange(len(times))),
    }
    hashes = np.array([hash((number % 3, "key")) & (2**64 - 1) for number in range(len(times))], np.uint64)
    return sort_rows(hashes, pa.RecordBatch.from_pydict(columns))


def expected(times, length, slide):
    starts = range(min(times) - length - slide, max(times) + slide)
    own = [start for start in starts if start % slide == 0]
    return sorted((n, start) for n, time in enumerate(times) for start in own if start <= time < start + length)


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us")])
@given(
    times=st.lists(st.integers(-40, 40), min_size=1, max_size=9),
    slide=st.integers(1, 9),
    more=st.integers(0, 30),
    limit=st.sampled_from([1, 500, 1 << 20]),
)
@settings(max_examples=examples(100), deadline=None)
def test_a_row_is_in_every_window_that_its_time_lies_in(kind, times, slide, more, limit):
    length, rows = slide + more, rows_of(times, slide + more, slide, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliding, "COPIED_BYTES", limit)
        parts = list(in_windows(rows, [Sliding("window", "ts", length, slide, ends=True)], "final"))
    assert all(is_sorted(part.hashes) for part in parts)
    copies = merge_rows(parts)
    found = [(row["id"], row["window"]) for row in copies.rows.to_pylist()]
    starts = copies.rows.column("window").field("start").view(pa.int64()).to_pylist()
    ends = copies.rows.column("window").field("end").view(pa.int64()).to_pylist()
    assert sorted((number, start) for (number, _), start in zip(found, starts, strict=True)) == expected(
        times, length, slide
    )
    assert copies.rows.column("final").to_pylist() == ends == [start + length for start in starts]
    assert copies.rows.schema.equals(rows.rows.schema)
    was = dict(zip(rows.rows.column("id").to_pylist(), group_of(rows.hashes, GROUPS), strict=True))
    assert [was[number] for number, _ in found] == group_of(copies.hashes, GROUPS).tolist()


def test_a_group_ends_with_the_first_of_its_windows():
    kind = pa.timestamp("us")
    rows = rows_of([9], 10, 5, kind)
    rows = type(rows)(rows.hashes, rows.rows.set_column(2, "final", pa.array([12])))
    (copies,) = in_windows(rows, [Sliding("window", "ts", 10, 5, ends=True)], "final")
    assert sorted(copies.rows.column("final").to_pylist()) == [10, 12]
    (copies,) = in_windows(rows, [Sliding("window", "ts", 10, 5, ends=False)], "final")
    assert copies.rows.column("final").to_pylist() == [12, 12]


def test_two_windows_that_slide_make_every_pair():
    rows = rows_of([9, 3], 10, 5, pa.timestamp("us"))
    batch = rows.rows.append_column("other", rows.rows.column("window"))
    both = [Sliding("window", "ts", 10, 5), Sliding("other", "ts", 10, 5)]
    (copies,) = in_windows(type(rows)(rows.hashes, batch), both, "final")
    assert len(copies) == 8
    assert len({str((row["id"], row["window"], row["other"])) for row in copies.rows.to_pylist()}) == 8
