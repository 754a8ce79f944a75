"""Numbers by group come back as they were packed, and two vectors are equal if their numbers are."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.state import vectors
from watersmeet.state.stored import from_json, to_json
from watersmeet.state.vectors import Vector

RANGES = {
    "<i8": st.integers(-(2**63), 2**63 - 1),
    "<u4": st.integers(0, 2**32 - 1),
    "<f4": st.floats(width=32, allow_nan=False),
    "<f8": st.floats(allow_nan=False),
}


@given(data=st.data(), kind=st.sampled_from(sorted(RANGES)))
@settings(max_examples=200, deadline=None)
def test_a_vector_gives_the_numbers_it_was_made_of_in_any_process(data, kind):
    values = data.draw(st.lists(RANGES[kind], max_size=20))
    vector = Vector.of(values, kind)
    for found in (vector, from_json(to_json(vector), Vector), pickle.loads(pickle.dumps(vector))):  # noqa: S301 - ours
        assert found.array.tolist() == values
        assert found.array.dtype == kind
        assert (found, hash(found), len(found)) == (vector, hash(vector), len(values))


def test_vectors_of_other_numbers_or_another_kind_are_not_equal():
    assert Vector.of([1, 2]) != Vector.of([2, 1])
    assert Vector.of([1, 2]) != Vector.of([1, 2], "<f8")
    assert Vector.of([1]) != [1]


def test_no_vector_is_false_and_one_of_no_numbers_is_not():
    assert (bool(Vector()), len(Vector()), Vector().array.tolist()) == (False, 0, [])
    assert bool(Vector.of([]))


def test_what_was_unpacked_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        Vector.of([1, 2]).array[0] = 9


def test_what_is_kept_unpacked_is_bounded_by_bytes_and_what_was_used_last_stays(monkeypatch):
    monkeypatch.setattr(vectors, "CACHED_BYTES", 10 * 8 * 100)
    made = [Vector(Vector.of(np.arange(100) + number).text) for number in range(30)]
    kept = made[0].array
    for number, vector in enumerate(made):
        assert vector.array[0] == number
        assert made[0].array is kept
        assert vectors._unpacked.bytes <= 10 * 8 * 100  # noqa: SLF001


def test_counts_of_many_groups_that_are_mostly_none_take_few_bytes():
    counts = np.zeros(1 << 16, dtype=np.int64)
    counts[::1000] = 7
    assert len(Vector.of(counts).text) < 5_000
