"""Punctuations of one column as they come to a site become ranges of numbers."""

import pyarrow as pa
import pytest

from watersmeet.model.ids import InputName, RunId
from watersmeet.model.plan import Column
from watersmeet.operators.promises.patterns import SHAPE, shape_of
from watersmeet.operators.promises.ranges import FIRST, LAST, LEAST, MOST
from watersmeet.operators.promises.stores import Store
from watersmeet.site.layout import pack, slot_name
from watersmeet.site.promise_spec import PunctuatedStream
from watersmeet.site.promises import PromiseReader, PromiseWriter
from watersmeet.state.runs import open_run
from watersmeet.storage.local import LocalStorage

X = Column("B", "x")
STORE = Store(InputName("B-0"), "B", (X,), (pa.int64(),), is_ranges=True)
PLACES = [Column("B#promises", field) for field in (SHAPE, "x", "x#until")]


def ranges(folder, low, high, time=None):
    layout = pack({0: PLACES}, dict.fromkeys(PLACES, pa.int64()))
    stream = PunctuatedStream("B", (X,), time, ((0, STORE),), None)
    storage = LocalStorage(str(folder))
    writer = PromiseWriter(PromiseReader(storage, {STORE.name: (STORE, ())}), 1, 1, layout, {0: stream})
    values = pa.array([shape_of([], [0]), low, high], pa.int64())
    writer.take(0, pa.record_batch({slot_name(slot): values.slice(slot, 1) for slot in range(3)}))
    found = [open_run(storage, each.run).rows for each in writer.close(lambda: RunId("run"))]
    return writer, [(row[FIRST], row[LAST]) for rows in found for row in rows.to_pylist()]


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (1, 4, [(1, 3)]),
        (4, 4, []),
        (5, 4, []),
        (5, None, [(5, MOST)]),
        (None, 5, [(LEAST, 4)]),
        (None, None, [(LEAST, MOST)]),
        (None, LEAST, []),
        (LEAST, LEAST + 1, [(LEAST, LEAST)]),
        (MOST, None, [(MOST, MOST)]),
        (MOST, MOST, []),
    ],
)
def test_a_range_has_its_low_bound_and_not_its_high_one(tmp_path, low, high, found):
    assert ranges(tmp_path, low, high)[1] == found


def test_a_range_of_the_time_that_has_no_beginning_is_a_watermark_or_an_end(tmp_path):
    writer, found = ranges(tmp_path, None, 5, time=X)
    assert (found, writer.until, writer.ended) == ([], {"B": 5}, set())
    writer, found = ranges(tmp_path, None, None, time=X)
    assert (found, writer.until, writer.ended) == ([], {}, {"B"})
    assert ranges(tmp_path, 3, 5, time=X)[1] == [(3, 4)]
