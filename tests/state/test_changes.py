"""A change makes one manifest of another, and nothing else does."""

import pytest
from tests.support.states import JOIN, PLAN, A, empty_manifest, holding, part, run_file, two_way_plan

from watersmeet.model.ids import BatchId, InputName, OperatorId, RunId, SiteId
from watersmeet.state.applying import apply, apply_all
from watersmeet.state.changes import (
    AddRun,
    BeginCleaning,
    CountOutput,
    FinishAdaptation,
    FinishBatch,
    FinishCleaning,
    KeepStatistics,
    MergeRuns,
    MoveGroups,
    ReplacePlan,
    Reroute,
    ReviveGroups,
    SpillGroups,
    SplitGroup,
    UniteGenerations,
    WriteResults,
)
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Cleaning, ResultFiles, Split
from watersmeet.state.vectors import Vector

EMPTY = empty_manifest()
ALL = GroupSet.all(4)


def live(manifest, site):
    return sorted(run.id for run, _ in manifest.live(JOIN, SiteId(site)))


def slices(manifest):
    return set(manifest.operators[JOIN].slices)


def test_a_run_is_live_at_the_sites_of_its_groups():
    manifest = apply_all(EMPTY, [AddRun(run_file("x", 0)), AddRun(run_file("y", 1, 2))])
    assert live(manifest, 0) == ["x", "y"]
    assert live(manifest, 1) == ["y"]


def test_a_run_without_rows_is_not_named():
    assert apply(EMPTY, AddRun(run_file("x", 0, rows=0))) == EMPTY


def test_a_run_that_is_only_stored_is_a_generation_of_the_version_to_come():
    manifest = apply(EMPTY, AddRun(run_file("x", 0), closed=True))
    assert slices(manifest) == {part("x", 0, generation=1)}
    assert live(manifest, 0) == []


def test_moving_groups_touches_no_run():
    before = apply(EMPTY, AddRun(run_file("x", 0)))
    after = apply(before, Reroute({JOIN: tuple(map(SiteId, (2, 2, 1, 0)))}, 3))
    assert after.runs == before.runs
    assert live(after, 2) == ["x"]
    assert live(after, 0) == []
    assert after.sites == 3


def test_moving_some_groups_changes_their_site_alone():
    before = apply_all(EMPTY, [AddRun(run_file("x", 0)), AddRun(run_file("y", 1, 2))])
    after = apply(before, MoveGroups(JOIN, GroupSet.of([0, 2]), SiteId(0), SiteId(1)))
    assert after.operators[JOIN].routing == (1, 0, 1, 1)
    assert after.runs == before.runs
    assert (live(after, 0), live(after, 1)) == (["y"], ["x", "y"])


def test_groups_that_are_elsewhere_stay_there():
    assert apply(EMPTY, MoveGroups(JOIN, GroupSet.of([2, 3]), SiteId(0), SiteId(1))) == EMPTY


def test_merged_runs_go_when_all_their_groups_went():
    merge = MergeRuns((RunId("x"), RunId("y")), GroupSet.of([0]), run_file("z", 0))
    manifest = apply_all(EMPTY, [AddRun(run_file("x", 0)), AddRun(run_file("y", 0)), merge])
    assert set(manifest.runs) == {"z"}


def test_a_run_stays_for_the_groups_that_another_site_has():
    merge = MergeRuns((RunId("x"),), GroupSet.of([0, 1]), run_file("z", 1))
    manifest = apply_all(EMPTY, [AddRun(run_file("x", 1, 2)), merge])
    assert set(manifest.runs) == {"x", "z"}
    assert part("x", 2) in slices(manifest)


def test_merging_leaves_slices_on_disk_alone():
    manifest = holding(EMPTY, [run_file("x", 0)], [part("x", 0, generation=1)])
    merged = apply(manifest, MergeRuns((RunId("x"),), ALL, run_file("z", 0)))
    assert set(merged.runs) == {"x", "z"}
    assert live(merged, 0) == ["z"]


def test_merging_a_closed_generation_leaves_others_alone_and_stays_closed():
    parts = [part("x", 0, generation=5), part("x", 1), part("y", 0, generation=5)]
    manifest = holding(EMPTY, [run_file("x", 0, 1), run_file("y", 0)], parts)
    merged = apply(manifest, MergeRuns((RunId("x"), RunId("y")), ALL, run_file("z", 0), generation=5))
    assert set(merged.runs) == {"x", "z"}
    assert merged.operators[JOIN].slices == (part("x", 1), part("z", 0, generation=5))


def test_a_spill_closes_what_is_live_of_its_groups_with_the_version_to_come():
    parts = [part("x", 0, 1), part("y", 0, generation=3)]
    manifest = holding(EMPTY, [run_file("x", 0, 1), run_file("y", 0)], parts)
    spilled = apply(manifest, SpillGroups(SiteId(0), {JOIN: GroupSet.of([0])}))
    assert slices(spilled) == {part("x", 0, generation=1), part("x", 1), part("y", 0, generation=3)}
    assert spilled.version == manifest.version
    assert spilled.spilled(JOIN) == GroupSet.of([0])


def test_cleaned_groups_have_one_generation_live_or_closed_and_others_keep_theirs():
    parts = [part("x", 0, 1, 2), part("y", 0, 1, 2, generation=3)]
    manifest = holding(EMPTY, [run_file("x", 0, 1, 2), run_file("y", 0, 1, 2)], parts)
    begun = apply(manifest, BeginCleaning(Cleaning(JOIN, (0, 1), 100)))
    assert (begun.version, begun.cleaning.groups) == (1, (0, 1))
    done = apply(begun, FinishCleaning(GroupSet.of([0]), GroupSet.of([1])))
    assert (done.version, done.cleaning) == (2, None)
    assert slices(done) == {
        part("x", 0, 2),
        part("x", 1, generation=2),
        part("y", 0),
        part("y", 1, generation=2),
        part("y", 2, generation=3),
    }
    assert done.spilled(JOIN) == GroupSet.of([2])


def test_nothing_that_was_not_begun_can_be_finished():
    with pytest.raises(ValueError, match="version 0 cleans nothing"):
        apply(EMPTY, FinishCleaning(GroupSet(), GroupSet()))


def test_generations_that_are_united_are_one_of_the_version_to_come():
    manifest = holding(EMPTY, [run_file("x", 0, 1)], [part("x", 0, generation=3), part("x", 1, generation=5)])
    united = apply(manifest, UniteGenerations(JOIN, GroupSet.of([0, 1])))
    assert slices(united) == {part("x", 0, 1, generation=1)}


def test_revived_groups_are_live_again():
    manifest = holding(EMPTY, [run_file("x", 0, 1)], [part("x", 0, 1, generation=3)])
    revived = apply(manifest, ReviveGroups(JOIN, GroupSet.of([1])))
    assert slices(revived) == {part("x", 0, generation=3), part("x", 1)}


def test_output_adds_up():
    counts = [((1, 0, 2, 0), (9, 0, 0, 0)), ((1, 1, 0, 0), (1, 0, 0, 0))]
    manifest = apply_all(EMPTY, [CountOutput(JOIN, Vector.of(out), Vector.of(inter)) for out, inter in counts])
    state = manifest.operators[JOIN]
    assert (state.output.array.tolist(), state.inter.array.tolist()) == ([2, 1, 2, 0], [10, 0, 0, 0])


def test_statistics_are_those_that_were_kept_last():
    first, last = ({"last_use": Vector.of([number])} for number in (1, 2))
    manifest = apply_all(EMPTY, [KeepStatistics(JOIN, first), KeepStatistics(JOIN, last)])
    assert manifest.operators[JOIN].statistics == last


def test_another_plan_keeps_the_state_of_operators_it_still_has_and_begins_others_empty():
    before = apply(EMPTY, AddRun(run_file("x", 0)))
    same = apply(before, ReplacePlan(two_way_plan("A.v = B.k"), {}))
    assert same.operators == before.operators
    assert same.plan == two_way_plan("A.v = B.k") != PLAN
    other = OperatorId("other")
    renamed = PLAN.__class__(PLAN.streams, tuple(_named(each, other) for each in PLAN.operators), PLAN.columns)
    swapped = apply(EMPTY, ReplacePlan(renamed, {other: (SiteId(1),) * 4}))
    assert set(swapped.operators) == {other}
    assert (swapped.operators[other].routing, swapped.operators[other].slices) == ((1, 1, 1, 1), ())


def _named(operator, name):
    return operator.__class__(name, operator.level, operator.inputs, operator.output, operator.filters)


def test_results_belong_to_the_version_to_come():
    names = ((".a", "a"),)
    assert apply(EMPTY, WriteResults("out", names)).results == ResultFiles(1, "out", names)


def test_finishing_a_batch_is_the_next_version():
    after = apply(EMPTY, FinishBatch(BatchId(7)))
    assert (after.version, after.batch) == (1, 7)
    assert (apply(after, FinishAdaptation()).version, after.batch) == (2, 7)


def split(manifest):
    return manifest.operators[JOIN].splits


def sites(*numbers):
    return tuple(map(SiteId, numbers))


TWO = SplitGroup(JOIN, 1, A, sites(0), sites(0, 1), reason="hot")


def test_a_split_group_is_probed_by_all_its_sites_and_stays_at_its_own():
    manifest = apply_all(EMPTY, [AddRun(run_file("x", 1)), TWO])
    assert split(manifest) == (Split(1, A, sites(0, 1)),)
    assert live(manifest, 1) == []
    assert [[run.id for run, _ in manifest.probed(JOIN, SiteId(site))] for site in (0, 1)] == [["x"], ["x"]]
    assert manifest.operators[JOIN].routing == EMPTY.operators[JOIN].routing


def test_a_group_that_is_split_again_has_the_last_sites_and_is_whole_with_one():
    other = SplitGroup(JOIN, 1, InputName("B"), sites(0, 1), sites(0, 1))
    assert split(apply_all(EMPTY, [TWO, other])) == (Split(1, InputName("B"), sites(0, 1)),)
    assert split(apply_all(EMPTY, [TWO, SplitGroup(JOIN, 1, A, sites(0, 1), sites(0))])) == ()


def test_a_split_of_a_group_that_is_elsewhere_changes_nothing():
    assert apply(EMPTY, SplitGroup(JOIN, 3, A, sites(0), sites(0, 1))) == EMPTY


@pytest.mark.parametrize(
    "change",
    [
        MoveGroups(JOIN, GroupSet.of([1]), SiteId(0), SiteId(1)),
        Reroute({JOIN: sites(0, 0, 1, 1)}, 2),
        ReplacePlan(PLAN, {}),
    ],
)
def test_groups_that_move_or_have_another_plan_are_whole(change):
    assert split(apply_all(EMPTY, [TWO, change])) == ()


def test_groups_that_move_leave_the_splits_of_others():
    assert split(apply_all(EMPTY, [TWO, MoveGroups(JOIN, GroupSet.of([0, 2]), SiteId(0), SiteId(1))]))
