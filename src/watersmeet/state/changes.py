"""A change is a value, and `apply` is the only writer of manifests."""

from collections.abc import Iterable
from functools import reduce

import msgspec
from msgspec.structs import replace

from watersmeet.model.ids import BatchId, OperatorId, RunId, SiteId, Version
from watersmeet.state.groups import Ranges, members, to_ranges
from watersmeet.state.manifest import LIVE, Cleaning, Manifest, OperatorState, RunFile, Slice, Tier


class AddRun(msgspec.Struct, frozen=True, tag=True):
    """Rows that arrived are part of the state: of what is live, or as a closed generation."""

    run: RunFile
    closed: bool = False


class MergeRuns(msgspec.Struct, frozen=True, tag=True):
    """Some groups of one generation of several runs now lie in one run; what else the old runs hold stays with them."""

    merged: tuple[RunId, ...]
    groups: Ranges
    run: RunFile
    generation: int = LIVE


class CountOutput(msgspec.Struct, frozen=True, tag=True):
    """So many more results came through the groups of an operator, and so many bytes of intermediate ones."""

    operator: OperatorId
    output: tuple[int, ...]
    inter: tuple[int, ...]


class KeepStatistics(msgspec.Struct, frozen=True, tag=True):
    """A strategy's counts, for whoever goes on from this version."""

    operator: OperatorId
    statistics: dict[str, tuple[float, ...]]


class SpillGroups(msgspec.Struct, frozen=True, tag=True):
    """The live generation of some groups is closed: it takes no part in probing until the groups are cleaned."""

    operator: OperatorId
    groups: Ranges


class BeginCleaning(msgspec.Struct, frozen=True, tag=True):
    """The next step cleans some groups; the version is complete, and no batch is part of it."""

    cleaning: Cleaning


class CleanGroups(msgspec.Struct, frozen=True, tag=True):
    """All generations of some groups are one: live again, or closed."""

    operator: OperatorId
    groups: Ranges
    tier: Tier


class FinishCleaning(msgspec.Struct, frozen=True, tag=True):
    """A step of cleaning is done: the next version is complete."""


class Reroute(msgspec.Struct, frozen=True, tag=True):
    """The groups of an operator live on other sites; no file is touched."""

    operator: OperatorId
    routing: tuple[SiteId, ...]
    sites: int


class FinishBatch(msgspec.Struct, frozen=True, tag=True):
    """A batch of Spark's is part of the state: the next version is complete."""

    batch: BatchId


Change = (
    AddRun
    | MergeRuns
    | CountOutput
    | KeepStatistics
    | SpillGroups
    | BeginCleaning
    | CleanGroups
    | FinishCleaning
    | Reroute
    | FinishBatch
)


def apply_all(manifest: Manifest, changes: Iterable[Change]) -> Manifest:
    """The manifest after all changes, in order."""
    return reduce(apply, changes, manifest)


def apply(manifest: Manifest, change: Change) -> Manifest:  # noqa: C901, PLR0911 -- a case for each kind of change
    """The manifest after one change."""
    match change:
        case AddRun(run, closed):
            return _add(manifest, run, manifest.version + 1 if closed else LIVE)
        case MergeRuns(merged, groups, run, generation):
            return _add(_release(manifest, run.operator, merged, groups, generation), run, generation)
        case CountOutput(operator, output, inter):
            state = manifest.operators[operator]
            counted = replace(state, output=_sum(state.output, output), inter=_sum(state.inter, inter))
            return _with(manifest, operator, counted)
        case KeepStatistics(operator, statistics):
            return _with(manifest, operator, replace(manifest.operators[operator], statistics=statistics))
        case SpillGroups(operator, groups):
            return _relabel(manifest, operator, groups, manifest.version + 1, "disk", only="memory")
        case CleanGroups(operator, groups, tier):
            return _relabel(manifest, operator, groups, manifest.version + 1 if tier == "disk" else LIVE, tier)
        case BeginCleaning(cleaning):
            return replace(manifest, cleaning=cleaning, version=Version(manifest.version + 1))
        case FinishCleaning():
            return replace(manifest, cleaning=None, version=Version(manifest.version + 1))
        case Reroute(operator, routing, sites):
            moved = replace(manifest.operators[operator], routing=routing)
            return replace(_with(manifest, operator, moved), sites=sites)
        case FinishBatch(batch):
            return replace(manifest, batch=batch, version=Version(manifest.version + 1))


def _add(manifest: Manifest, run: RunFile, generation: int) -> Manifest:
    if not run.rows:
        return manifest
    state = manifest.operators[run.operator]
    added = Slice(run.id, run.groups, generation, "memory" if generation == LIVE else "disk")
    grown = replace(state, slices=(*state.slices, added))
    return replace(_with(manifest, run.operator, grown), runs={**manifest.runs, run.id: run})


def _release(
    manifest: Manifest, operator: OperatorId, merged: tuple[RunId, ...], groups: Ranges, generation: int
) -> Manifest:
    """Take groups of a generation out of some runs, and out of the manifest the runs no slice names any more."""
    gone = members(groups)
    state = manifest.operators[operator]
    slices = [
        _without(part, gone) if part.run in merged and part.generation == generation else part for part in state.slices
    ]
    kept = tuple(part for part in slices if part.groups)
    named = {part.run for part in kept}
    runs = {run_id: run for run_id, run in manifest.runs.items() if run_id not in merged or run_id in named}
    return replace(_with(manifest, operator, replace(state, slices=kept)), runs=runs)


def _without(part: Slice, gone: frozenset[int]) -> Slice:
    return replace(part, groups=to_ranges(members(part.groups) - gone))


def _relabel(
    manifest: Manifest, operator: OperatorId, groups: Ranges, generation: int, tier: Tier, *, only: Tier | None = None
) -> Manifest:
    """Put groups into a generation and tier, those of one tier only or all; slices of a kind become one."""
    chosen = members(groups)
    kinds: dict[tuple[RunId, int, Tier], frozenset[int]] = {}
    for part in manifest.operators[operator].slices:
        covered = members(part.groups)
        moved = covered & chosen if only in (None, part.tier) else frozenset()
        for kind, some in (((part.generation, part.tier), covered - moved), ((generation, tier), moved)):
            if some:
                name = (part.run, *kind)
                kinds[name] = kinds.get(name, frozenset()) | some
    slices = tuple(Slice(run, to_ranges(some), made, kind) for (run, made, kind), some in kinds.items())
    return _with(manifest, operator, replace(manifest.operators[operator], slices=slices))


def _sum(before: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int.__add__, before, more)) if before else more


def _with(manifest: Manifest, operator: OperatorId, state: OperatorState) -> Manifest:
    return replace(manifest, operators={**manifest.operators, operator: state})
