"""Sets of groups are sets, whatever form they are given in, up to the most groups there may be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.state.groups import (
    MAX_GROUPS,
    PACKED,
    PLAIN_TEXT_MAX,
    GroupSet,
    first_hash,
    group_of,
    group_offsets,
    groups_at,
    row_range,
)
from watersmeet.state.stored import from_json, to_json

SETS = st.sets(st.integers(0, 80) | st.integers(0, MAX_GROUPS - 1), max_size=40)
BITS = MAX_GROUPS // 8


@given(some=SETS, other=SETS, probe=st.integers(0, MAX_GROUPS))
@settings(max_examples=300, deadline=None)
def test_a_group_set_is_a_set(some, other, probe):
    a, b = GroupSet.of(some), GroupSet.of(other)
    assert set(a & b) == some & other
    assert set(a | b) == some | other
    assert set(a - b) == some - other
    assert (a == b) == (some == other)
    assert (hash(a) == hash(b)) or some != other
    assert (len(a), bool(a)) == (len(some), bool(some))
    assert (probe in a) == (probe in some)
    assert list(a) == sorted(some)


@given(some=SETS)
@settings(max_examples=300, deadline=None)
def test_all_forms_of_a_set_tell_the_same(some):
    found = GroupSet.of(some)
    assert found.numbers.tolist() == sorted(some)
    assert [group for start, stop in found.ranges for group in range(start, stop)] == sorted(some)
    assert all(stop < start for (_, stop), (start, _) in zip(found.ranges, found.ranges[1:], strict=False))
    assert GroupSet.within(found.mask(MAX_GROUPS)) == found
    assert np.flatnonzero(found.mask(MAX_GROUPS)).tolist() == sorted(some)
    assert GroupSet.parse(found.text) == found
    assert from_json(to_json(found), GroupSet) == found
    assert eval(repr(found)) == found  # noqa: S307 - our own text


def test_all_groups_there_may_be_are_a_set_of_eight_kilobytes():
    every = GroupSet.all(MAX_GROUPS)
    assert len(every) == MAX_GROUPS
    assert every.bits.bit_length() <= 8 * BITS
    assert len(every.text) < 100
    scattered = GroupSet.within(np.random.default_rng(1).random(MAX_GROUPS) < 0.5)
    assert len(scattered.text) <= 1.5 * BITS
    assert GroupSet.parse(scattered.text) == scattered
    assert every.ranges == ((0, MAX_GROUPS),)
    assert every.mask(MAX_GROUPS).all()
    assert (MAX_GROUPS - 1 in every, MAX_GROUPS in every) == (True, False)
    assert not every - GroupSet.within(np.ones(MAX_GROUPS, dtype=np.bool_))


@pytest.mark.parametrize("count", [PLAIN_TEXT_MAX * 4 + more for more in (-1, 0, 1, 4)])
def test_sets_of_any_length_come_back_from_their_text(count):
    some = GroupSet.of(range(0, count, 3)) | GroupSet.of([count - 1])
    assert GroupSet.parse(some.text) == some
    assert some.text.startswith(PACKED) == (count > PLAIN_TEXT_MAX * 4)


def test_no_groups_are_a_set_too():
    nothing = GroupSet()
    assert (list(nothing), nothing.ranges, nothing.text, nothing.mask(3).tolist()) == ([], (), "0", [False] * 3)
    assert GroupSet.all(0) == GroupSet.of([]) == GroupSet.within(np.zeros(9, dtype=np.bool_)) == nothing


def test_a_mask_that_is_too_short_for_a_set_is_refused():
    with pytest.raises(OverflowError):
        GroupSet.of([9]).mask(3)


@pytest.mark.parametrize("groups", [1, 3, 300, MAX_GROUPS])
def test_groups_cut_sorted_hashes_into_ranges_without_gap_or_overlap(groups):
    hashes = np.sort(np.random.default_rng(groups).integers(0, 2**64, 2000, dtype=np.uint64))
    hashes[0], hashes[-1] = 0, 2**64 - 1
    own = group_of(hashes, groups)
    assert (own[0], own[-1]) == (0, groups - 1)
    assert (np.diff(own) >= 0).all()
    offsets = group_offsets(hashes, groups)
    assert np.array_equal(np.repeat(np.arange(groups), np.diff(offsets)), own)
    for group in {0, groups // 2, groups - 1}:
        low, high = row_range(hashes, group, group + 1, groups)
        assert (low, high) == (offsets[group], offsets[group + 1])
        edge = first_hash(group, groups)
        assert group_of(np.array([edge], np.uint64), groups)[0] == group
        assert edge == 0 or group_of(np.array([edge - 1], np.uint64), groups)[0] == group - 1


def test_every_group_is_at_the_site_that_routing_names():
    routing = (0, 2, 2, 0, 1)
    assert [set(groups_at(routing, site)) for site in range(4)] == [{0, 3}, {4}, {1, 2}, set()]
