"""A change is a value, and `apply` is the only writer of manifests."""

from collections.abc import Iterable
from functools import reduce

import msgspec
from msgspec.structs import replace

from watersmeet.model.ids import BatchId, OperatorId, RunId, SiteId, Version
from watersmeet.state.groups import Ranges, members, to_ranges
from watersmeet.state.manifest import Manifest, OperatorState, RunFile, Slice


class AddRun(msgspec.Struct, frozen=True, tag=True):
    """Rows that arrived are part of the state."""

    run: RunFile


class MergeRuns(msgspec.Struct, frozen=True, tag=True):
    """Some groups of several runs now lie in one run; what the old runs hold of other groups stays with them."""

    merged: tuple[RunId, ...]
    groups: Ranges
    run: RunFile


class CountOutput(msgspec.Struct, frozen=True, tag=True):
    """The groups of an operator produced so many more results."""

    operator: OperatorId
    output: tuple[int, ...]


class Reroute(msgspec.Struct, frozen=True, tag=True):
    """The groups of an operator live on other sites; no file is touched."""

    operator: OperatorId
    routing: tuple[SiteId, ...]
    sites: int


class FinishBatch(msgspec.Struct, frozen=True, tag=True):
    """A batch of Spark's is part of the state: the next version is complete."""

    batch: BatchId


Change = AddRun | MergeRuns | CountOutput | Reroute | FinishBatch


def apply_all(manifest: Manifest, changes: Iterable[Change]) -> Manifest:
    """The manifest after all changes, in order."""
    return reduce(apply, changes, manifest)


def apply(manifest: Manifest, change: Change) -> Manifest:
    """The manifest after one change."""
    match change:
        case AddRun(run):
            return _add(manifest, run)
        case MergeRuns(merged, groups, run):
            return _add(_release(manifest, run.operator, merged, groups), run)
        case CountOutput(operator, output):
            state = manifest.operators[operator]
            before = state.output or (0,) * len(output)
            total = tuple(map(int.__add__, before, output))
            return _with(manifest, operator, replace(state, output=total))
        case Reroute(operator, routing, sites):
            moved = replace(manifest.operators[operator], routing=routing)
            return replace(_with(manifest, operator, moved), sites=sites)
        case FinishBatch(batch):
            return replace(manifest, batch=batch, version=Version(manifest.version + 1))


def _add(manifest: Manifest, run: RunFile) -> Manifest:
    if not run.rows:
        return manifest
    state = manifest.operators[run.operator]
    grown = replace(state, slices=(*state.slices, Slice(run.id, run.groups)))
    return replace(_with(manifest, run.operator, grown), runs={**manifest.runs, run.id: run})


def _release(manifest: Manifest, operator: OperatorId, merged: tuple[RunId, ...], groups: Ranges) -> Manifest:
    """Take groups out of the live slices of some runs, and out of the manifest the runs no slice names any more."""
    gone = members(groups)
    state = manifest.operators[operator]
    slices = [_without(part, gone) if part.run in merged and part.tier == "memory" else part for part in state.slices]
    kept = tuple(part for part in slices if part.groups)
    named = {part.run for part in kept}
    runs = {run_id: run for run_id, run in manifest.runs.items() if run_id not in merged or run_id in named}
    return replace(_with(manifest, operator, replace(state, slices=kept)), runs=runs)


def _without(part: Slice, gone: frozenset[int]) -> Slice:
    return replace(part, groups=to_ranges(members(part.groups) - gone))


def _with(manifest: Manifest, operator: OperatorId, state: OperatorState) -> Manifest:
    return replace(manifest, operators={**manifest.operators, operator: state})
