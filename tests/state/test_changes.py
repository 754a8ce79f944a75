"""A change makes one manifest of another, and nothing else does."""

from watersmeet.model.ids import BatchId, InputName, OperatorId, RunId, SiteId
from watersmeet.state.changes import AddRun, CountOutput, FinishBatch, MergeRuns, Reroute, apply, apply_all
from watersmeet.state.manifest import Manifest, OperatorState, RunFile, Slice

JOIN = OperatorId("join1")
EMPTY = Manifest("q", {}, 4, 2, {JOIN: OperatorState(tuple(map(SiteId, (0, 0, 1, 1))))})


def run(name, *groups, rows=5):
    ranges = tuple((group, group + 1) for group in groups)
    return RunFile(RunId(name), f"runs/{name}.arrow", JOIN, InputName("A"), ranges, rows, 100, 0)


def live(manifest, site):
    return sorted(run.id for run, _ in manifest.live(JOIN, SiteId(site)))


def test_a_run_is_live_at_the_sites_of_its_groups():
    manifest = apply_all(EMPTY, [AddRun(run("x", 0)), AddRun(run("y", 1, 2))])
    assert live(manifest, 0) == ["x", "y"]
    assert live(manifest, 1) == ["y"]


def test_a_run_without_rows_is_not_named():
    assert apply(EMPTY, AddRun(run("x", 0, rows=0))) == EMPTY


def test_moving_groups_touches_no_run():
    before = apply(EMPTY, AddRun(run("x", 0)))
    after = apply(before, Reroute(JOIN, tuple(map(SiteId, (2, 2, 1, 0))), 3))
    assert after.runs == before.runs
    assert live(after, 2) == ["x"]
    assert live(after, 0) == []
    assert after.sites == 3


def test_merged_runs_go_when_all_their_groups_went():
    manifest = apply_all(
        EMPTY, [AddRun(run("x", 0)), AddRun(run("y", 0)), MergeRuns(("x", "y"), ((0, 1),), run("z", 0))]
    )
    assert set(manifest.runs) == {"z"}


def test_a_run_stays_for_the_groups_that_another_site_has():
    manifest = apply_all(EMPTY, [AddRun(run("x", 1, 2)), MergeRuns(("x",), ((0, 2),), run("z", 1))])
    assert set(manifest.runs) == {"x", "z"}
    assert Slice(RunId("x"), ((2, 3),)) in manifest.operators[JOIN].slices


def test_merging_leaves_slices_on_disk_alone():
    spilled = EMPTY.operators[JOIN].__class__(EMPTY.operators[JOIN].routing, (Slice(RunId("x"), ((0, 1),), 1, "disk"),))
    manifest = Manifest("q", {}, 4, 2, {JOIN: spilled}, {RunId("x"): run("x", 0)})
    merged = apply(manifest, MergeRuns((RunId("x"),), ((0, 4),), run("z", 0)))
    assert set(merged.runs) == {"x", "z"}
    assert live(merged, 0) == ["z"]


def test_merging_a_closed_generation_leaves_others_alone_and_stays_closed():
    parts = (
        Slice(RunId("x"), ((0, 1),), 5, "disk"),
        Slice(RunId("x"), ((1, 2),)),
        Slice(RunId("y"), ((0, 1),), 5, "disk"),
    )
    state = EMPTY.operators[JOIN].__class__(EMPTY.operators[JOIN].routing, parts)
    manifest = Manifest("q", {}, 4, 2, {JOIN: state}, {RunId("x"): run("x", 0, 1), RunId("y"): run("y", 0)})
    merged = apply(manifest, MergeRuns((RunId("x"), RunId("y")), ((0, 4),), run("z", 0), generation=5))
    assert set(merged.runs) == {"x", "z"}
    assert merged.operators[JOIN].slices == (Slice(RunId("x"), ((1, 2),)), Slice(RunId("z"), ((0, 1),), 5, "disk"))


def test_output_adds_up():
    manifest = apply_all(
        EMPTY, [CountOutput(JOIN, (1, 0, 2, 0), (9, 0, 0, 0)), CountOutput(JOIN, (1, 1, 0, 0), (1, 0, 0, 0))]
    )
    assert manifest.operators[JOIN].output == (2, 1, 2, 0)


def test_finishing_a_batch_is_the_next_version():
    after = apply(EMPTY, FinishBatch(BatchId(7)))
    assert (after.version, after.batch) == (1, 7)
