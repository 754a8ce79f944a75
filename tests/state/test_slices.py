"""What counts of a run: slices by tier, generation and site."""

from tests.support.states import JOIN, empty_manifest, holding, part, run_file

from watersmeet.model.ids import SiteId
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import RowSet, Slice
from watersmeet.state.sizes import (
    bytes_by_generation,
    live_bytes,
    live_bytes_by_site,
    rows_and_bytes,
    slice_bytes,
    total_bytes,
)
from watersmeet.state.stored import from_json, to_json

MANIFEST = holding(
    empty_manifest(),
    [run_file("x", 0, 1, 2, bytes_each=10), run_file("y", 1, 3, bytes_each=7)],
    [part("x", 0, 2), part("x", 1, generation=2), part("y", 1), part("y", 3, generation=5)],
)


def test_a_row_set_is_true_if_any_row_counts_and_comes_back_from_a_file_as_it_was():
    some = RowSet(GroupSet.of([1, 70]))
    assert (bool(some), bool(RowSet(GroupSet()))) == (True, False)
    assert from_json(to_json(some), RowSet) == some
    whole = part("x", 1, 70, generation=3)
    assert from_json(to_json(whole), Slice) == whole
    assert whole.groups == some.groups


def test_a_site_has_the_slices_of_its_groups_by_tier():
    assert [(run.id, each) for run, each in MANIFEST.live(JOIN, SiteId(0))] == [
        ("x", part("x", 0, 2)),
        ("y", part("y", 1)),
    ]
    assert [run.id for run, _ in MANIFEST.closed(JOIN, SiteId(1))] == ["y"]


def test_groups_with_more_than_one_generation_have_results_missing():
    assert MANIFEST.spilled(JOIN) == GroupSet.of([1])
    assert MANIFEST.generations(JOIN) == {2: GroupSet.of([1]), 5: GroupSet.of([3])}


def test_sizes_are_those_of_the_groups_that_count():
    assert live_bytes(MANIFEST, JOIN).tolist() == [10, 7, 10, 0]
    assert total_bytes(MANIFEST, JOIN).tolist() == [10, 17, 10, 7]
    assert live_bytes_by_site(MANIFEST).tolist() == [17, 10]
    by_generation = bytes_by_generation(MANIFEST, JOIN, ["A", "B"])
    assert {each: sizes.tolist() for each, sizes in by_generation.items()} == {
        0: [[10, 7, 10, 0], [0] * 4],
        2: [[0, 10, 0, 0], [0] * 4],
        5: [[0, 0, 0, 7], [0] * 4],
    }
    rows, sizes = rows_and_bytes(MANIFEST, [part("x", 0, 2), part("y", 3, generation=5)])
    assert (rows.tolist(), sizes.tolist()) == ([5, 0, 5, 5], [10, 0, 10, 7])


def test_a_slice_weighs_what_it_has_of_the_groups_asked_for():
    run = MANIFEST.runs["x"]
    assert slice_bytes(run, part("x", 0, 1, 2), GroupSet.all(4)) == 30
    assert slice_bytes(run, part("x", 0, 2), GroupSet.of([2, 3])) == 10
    assert slice_bytes(run, part("x", 0), GroupSet.of([3])) == 0
