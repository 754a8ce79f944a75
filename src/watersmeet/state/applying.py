"""The manifest after changes: `apply` is the only writer of manifests."""

from collections.abc import Iterable
from functools import reduce

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from watersmeet.model.ids import OperatorId, RunId, SiteId, Version
from watersmeet.state.ages import normal
from watersmeet.state.changes import (
    AddPromises,
    AddRun,
    AnnounceMove,
    BeginCleaning,
    Change,
    ChangeExecutors,
    ChangePatience,
    ChangeRegistry,
    CountOutput,
    DecideRows,
    DropRows,
    EndInput,
    EndStreams,
    FinishAdaptation,
    FinishBatch,
    FinishCleaning,
    ForgetPromises,
    KeepStatistics,
    MergePromises,
    MergeRuns,
    MoveGroups,
    PassPromises,
    ReplacePlan,
    Reroute,
    ReviveGroups,
    SeeTimes,
    SpillGroups,
    SplitGroup,
    UniteGenerations,
    WriteRejected,
    WriteResults,
)
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import (
    LIVE,
    UNDECIDED,
    Announced,
    Manifest,
    OperatorState,
    ResultFiles,
    RowSet,
    RunFile,
    Slice,
    Split,
    Tier,
)
from watersmeet.state.passing import passed_with, with_marks
from watersmeet.state.splits import without
from watersmeet.state.vectors import Vector


def apply_all(manifest: Manifest, changes: Iterable[Change]) -> Manifest:
    """The manifest after all changes, in order."""
    return reduce(apply, changes, manifest)


def apply(manifest: Manifest, change: Change) -> Manifest:  # noqa: C901, PLR0911, PLR0912 -- a case for each kind of change
    """The manifest after one change."""
    following = Version(manifest.version + 1)
    match change:
        case AddRun(run, closed):
            since = manifest.version if manifest.is_ring(run.operator) else 0
            return _add(manifest, run, following if closed else LIVE, since)
        case MergeRuns(merged, groups, run, generation, since=since):
            return _add(_release(manifest, run.operator, merged, groups, (generation, since)), run, generation, since)
        case CountOutput(operator, output, inter):
            state = manifest.operators[operator]
            counted = replace(state, output=_sum(state.output, output), inter=_sum(state.inter, inter))
            return _with(manifest, operator, counted)
        case KeepStatistics(operator, statistics):
            return _with(manifest, operator, replace(manifest.operators[operator], statistics=statistics))
        case SpillGroups():
            return _spill(manifest, change, following)
        case BeginCleaning(cleaning):
            return _aside(replace(manifest, cleaning=cleaning), following)
        case FinishCleaning(live, closed, is_inner=is_inner):
            asides = manifest.asides + is_inner
            return replace(_normal(_cleaned(manifest, live, closed)), cleaning=None, version=following, asides=asides)
        case UniteGenerations(operator, groups):
            return _unpark(_relabel(manifest, operator, groups, following, "disk"), operator, groups)
        case ReviveGroups(operator, groups):
            return _unpark(_relabel(manifest, operator, groups, LIVE, "memory"), operator, groups)
        case Reroute():
            return _reroute(manifest, change)
        case ChangeExecutors(spreads=spreads):
            return replace(manifest, placement=manifest.placement + spreads)
        case AnnounceMove(operator, groups, before, after, policy, size, reason):
            told = Announced(operator, groups, before, after, following, policy, size, reason, manifest.batch)
            return replace(manifest, announced=(*manifest.announced, told))
        case MoveGroups(operator, groups, before, after):
            return _move(manifest, operator, groups, before, after)
        case SplitGroup():
            return _split(manifest, change)
        case ReplacePlan():
            return _replan(manifest, change)
        case SeeTimes(latest):
            return replace(manifest, latest={**manifest.latest, **latest})
        case DecideRows():
            return _decide(manifest, change)
        case AddPromises(stream, run):
            known = (*manifest.promises.get(run.input, ()), run)
            promised = {**manifest.promised, stream: following}
            manifest = replace(manifest, promises={**manifest.promises, run.input: known}, promised=promised)
            return with_marks(manifest, (stream,))
        case MergePromises(merged, run):
            left = tuple(each for each in manifest.promises[run.input] if each.id not in merged)
            return replace(manifest, promises={**manifest.promises, run.input: (*left, run) if run.rows else left})
        case EndStreams(streams, until):
            ended = {**dict.fromkeys(streams, following), **manifest.ended}
            later = {name: max(time, manifest.promised_until.get(name, time)) for name, time in until.items()}
            promised = {**manifest.promised, **dict.fromkeys(streams, following)}
            times = {**manifest.promised_until, **later}
            manifest = replace(manifest, ended=ended, promised_until=times, promised=promised)
            return with_marks(manifest, streams)
        case PassPromises(operator, stream, upto):
            state = manifest.operators[operator]
            passed = {**state.passed, stream: passed_with(manifest, operator, stream, upto)}
            return _with(manifest, operator, replace(state, passed=passed))
        case ForgetPromises(stream, _, upto):
            marks = {**manifest.marks, stream: tuple(mark for mark in manifest.marks[stream] if mark[0] >= upto)}
            return replace(manifest, marks=marks, forgotten={**manifest.forgotten, stream: upto})
        case EndInput():
            return replace(manifest, has_ended=True)
        case DropRows(operator, runs, groups):
            return _release(manifest, operator, runs, groups)
        case WriteResults(path, names):
            return replace(manifest, results=ResultFiles(following, path, names))
        case WriteRejected(path, names):
            return replace(manifest, rejected=ResultFiles(following, path, names))
        case FinishBatch(batch):
            return replace(_normal(manifest), batch=batch, version=following)
        case ChangeRegistry() | ChangePatience():
            return manifest
        case FinishAdaptation():
            return _aside(manifest, following)


def _aside(manifest: Manifest, following: Version) -> Manifest:
    return replace(_normal(manifest), version=following, asides=manifest.asides + 1)


def _add(manifest: Manifest, run: RunFile, generation: int, since: int) -> Manifest:
    if not run.rows:
        return manifest
    state = manifest.operators[run.operator]
    added = Slice(run.id, RowSet(run.groups), generation, "memory" if generation == LIVE else "disk", since)
    grown = replace(state, slices=(*state.slices, added))
    return replace(_with(manifest, run.operator, grown), runs={**manifest.runs, run.id: run})


def _release(
    manifest: Manifest,
    operator: OperatorId,
    merged: tuple[RunId, ...],
    groups: GroupSet,
    kind: tuple[int, int] | None = None,
) -> Manifest:
    """Take groups out of some runs, those of one generation and since, or all; runs that nothing names any more go."""
    state, kept = manifest.operators[operator], list[Slice]()
    for part in state.slices:
        if part.run not in merged or kind not in (None, (part.generation, part.since)):
            kept.append(part)
        elif left := part.groups - groups:
            kept.append(_narrowed(part, left))
    unnamed = set(merged) - {part.run for part in kept}
    runs = {run_id: run for run_id, run in manifest.runs.items() if run_id not in unnamed}
    return replace(_with(manifest, operator, replace(state, slices=tuple(kept))), runs=runs)


def _narrowed(part: Slice, groups: GroupSet) -> Slice:
    return replace(part, rows=replace(part.rows, groups=groups))


def _cleaned(manifest: Manifest, live: GroupSet, closed: GroupSet) -> Manifest:
    """Groups that were cleaned have met all there is."""
    if manifest.cleaning is None:
        raise ValueError(f"version {manifest.version} cleans nothing that could be finished")
    operator = manifest.cleaning.operator
    manifest = _unpark(manifest, operator, live | closed)
    manifest = _relabel(manifest, operator, live, LIVE, "memory", since=0) if live else manifest
    return _relabel(manifest, operator, closed, manifest.version + 1, "disk", since=0) if closed else manifest


def _park(manifest: Manifest, operator: OperatorId, groups: GroupSet) -> Manifest:
    state = manifest.operators[operator]
    parked = state.parked.get(manifest.batch, GroupSet()) | groups
    return _with(manifest, operator, replace(state, parked={**state.parked, manifest.batch: parked}))


def _unpark(manifest: Manifest, operator: OperatorId, groups: GroupSet) -> Manifest:
    state = manifest.operators[operator]
    left = {batch: parked - groups for batch, parked in state.parked.items()}
    return _with(manifest, operator, replace(state, parked={batch: some for batch, some in left.items() if some}))


def _relabel(
    manifest: Manifest,
    operator: OperatorId,
    groups: GroupSet,
    generation: int,
    tier: Tier,
    *,
    only: Tier | None = None,
    since: int | None = None,
) -> Manifest:
    """Put groups into a generation and tier, those of one tier only or all; slices of a kind become one.

    They are since the version they were since, or since another one.
    """
    slices = list[Slice]()
    for part in manifest.operators[operator].slices:
        moved = part.groups & groups if only in (None, part.tier) else GroupSet()
        if left := part.groups - moved:
            slices.append(_narrowed(part, left))
        if moved:
            came = part.since if since is None else since
            slices.append(Slice(part.run, RowSet(moved), generation, tier, came))
    return _with(manifest, operator, replace(manifest.operators[operator], slices=_united(slices)))


def _normal(manifest: Manifest) -> Manifest:
    """The slices of rings, those alike that differ in nothing but versions that do not matter."""
    for operator in (each.id for each in manifest.plan.operators if each.kind == "ring"):
        state = manifest.operators[operator]
        closings = {part.generation for part in state.slices if part.generation != LIVE}
        slices = tuple(replace(part, since=normal(part.since, closings)) for part in state.slices)
        manifest = _with(manifest, operator, replace(state, slices=_united(slices)))
    return manifest


def _united(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """Slices of a run that are alike are one."""
    kinds: dict[tuple[RunId, int, Tier, int], list[GroupSet]] = {}
    for part in slices:
        kinds.setdefault((part.run, part.generation, part.tier, part.since), []).append(part.groups)
    return tuple(
        Slice(run, RowSet(GroupSet.union(some)), generation, tier, since)
        for (run, generation, tier, since), some in kinds.items()
    )


def _spill(manifest: Manifest, change: SpillGroups, following: Version) -> Manifest:
    """Close the live generations of groups."""
    for operator, groups in change.groups.items():
        manifest = _relabel(manifest, operator, groups, following, "disk", only="memory")
        manifest = manifest if change.epoch_ms is None else _park(manifest, operator, groups)
    forced_bytes = manifest.forced_bytes + change.spilled_bytes
    return replace(manifest, forced_bytes=forced_bytes) if change.is_forced else manifest


def _move(manifest: Manifest, operator: OperatorId, groups: GroupSet, before: SiteId, after: SiteId) -> Manifest:
    """Give groups to another site, those of them that are where they are said to be; what was split is whole there."""
    state = manifest.operators[operator]
    here = np.array(state.routing)
    chosen = groups.mask(manifest.groups) & (here == before) & (before != after)
    routing = tuple(map(SiteId, np.where(chosen, after, here).tolist()))
    left = tuple(each for each in manifest.announced if each.operator != operator or not each.groups & groups)
    moved = replace(state, routing=routing, splits=without(state, GroupSet.within(chosen)))
    return _with(replace(manifest, announced=left), operator, moved)


def _reroute(manifest: Manifest, change: Reroute) -> Manifest:
    """Groups on other sites, all of them whole; what was announced is of the old sites."""
    for operator, table in change.routing.items():
        manifest = _with(manifest, operator, replace(manifest.operators[operator], routing=table, splits=()))
    return replace(manifest, sites=change.sites, announced=())


def _split(manifest: Manifest, change: SplitGroup) -> Manifest:
    """Split a group, or make it whole again; nothing happens if it is not where it is said to be."""
    state = manifest.operators[change.operator]
    if state.routing[change.group] != change.after[0]:
        return manifest
    splits = without(state, GroupSet.of([change.group]))
    if len(change.after) > 1:
        splits = (*splits, Split(change.group, change.input, change.after))
    return _with(manifest, change.operator, replace(state, splits=splits))


def _decide(manifest: Manifest, change: DecideRows) -> Manifest:
    state, own = manifest.operators[change.operator], change.groups.mask(manifest.groups)
    if change.limit != UNDECIDED:
        decided = {**state.decided, change.input: _raised(state.decided.get(change.input), own, change.limit)}
        state = replace(state, decided=decided)
    if change.promised is not None:
        keys = _raised(state.decided_keys.get(change.input), own, change.promised)
        state = replace(state, decided_keys={**state.decided_keys, change.input: keys})
    return _with(manifest, change.operator, state)


def _raised(known: Vector | None, groups: npt.NDArray[np.bool_], value: int) -> Vector:
    before = np.full(len(groups), UNDECIDED) if known is None else known.array
    return Vector.of(np.where(groups, np.maximum(before, value), before))


def _replan(manifest: Manifest, change: ReplacePlan) -> Manifest:
    ids = [operator.id for operator in change.plan.operators]
    known = {name: replace(state, splits=()) for name, state in manifest.operators.items()}
    operators = {name: known.get(name) or OperatorState(change.routing[name]) for name in ids}
    original = None if change.is_written or change.plan == manifest.written else manifest.written
    return replace(manifest, plan=change.plan, operators=operators, original=original, announced=())


def _sum(before: Vector, more: Vector) -> Vector:
    return Vector.of(before.array + more.array) if before else more


def _with(manifest: Manifest, operator: OperatorId, state: OperatorState) -> Manifest:
    return replace(manifest, operators={**manifest.operators, operator: state})
