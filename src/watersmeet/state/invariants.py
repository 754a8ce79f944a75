"""What holds of every manifest, checked before one is committed and when one is read.

1. Every operator of the plan has a state, and nothing else has; a routing table names a site for every group.
2. Every slice names a run of its operator; every run is named by a slice.
3. Within a run a group counts at most once, and only groups that the run holds count.
4. A split group is at the first of its sites, and its operator may deal out the rows of the input that it does.
5. What is live is in memory, what is closed is on disk, and was closed by a version that is there already.
"""

from collections.abc import Iterator

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import RunId
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import LIVE, Manifest, OperatorState, Slice
from watersmeet.state.splits import broken_splits


def check(manifest: Manifest, name: str = "the manifest") -> None:
    """Refuse a manifest that breaks a rule: it was damaged, or is a defect of ours."""
    broken = next(_broken(manifest), None)
    if broken is not None:
        raise CheckpointCorruptError(
            f"{name} of version {manifest.version} contradicts itself",
            why=broken,
            how="restore the checkpoint from a copy; if it was not changed by hand, report this as a defect",
        )


def _broken(manifest: Manifest) -> Iterator[str]:
    planned = {operator.id for operator in manifest.plan.operators}
    if planned != set(manifest.operators):
        yield f"the plan has operators {sorted(planned)}, the state {sorted(manifest.operators)}"
    for name, state in manifest.operators.items():
        yield from _broken_routing(manifest, name, state)
        yield from _broken_slices(manifest, name, state)
        yield from broken_splits(manifest.plan, name, state, manifest.sites) if name in planned else ()
    named = {part.run for state in manifest.operators.values() for part in state.slices}
    unnamed = sorted(set(manifest.runs) - named)
    if unnamed:
        yield f"no slice names run {unnamed[0]}"


def _broken_routing(manifest: Manifest, name: str, state: OperatorState) -> Iterator[str]:
    if len(state.routing) != manifest.groups:
        yield f"{name} routes {len(state.routing)} groups of {manifest.groups}"
    elif not 0 <= min(state.routing) <= max(state.routing) < manifest.sites:
        yield f"{name} routes groups to sites {sorted(set(state.routing))}, of {manifest.sites}"


def _broken_slices(manifest: Manifest, name: str, state: OperatorState) -> Iterator[str]:
    covered: dict[RunId, GroupSet] = {}
    for part in state.slices:
        run = manifest.runs.get(part.run)
        if run is None or run.operator != name:
            yield f"{name} has a slice of run {part.run}, which is not its own"
            continue
        if covered.get(part.run, GroupSet()) & part.groups or part.groups - run.groups or not part.rows:
            yield f"{name} counts groups of run {part.run} twice, or groups that it does not hold"
        if not _is_dated(part, manifest):
            yield f"{name} has a slice of generation {part.generation} in {part.tier} at version {manifest.version}"
        covered[part.run] = covered.get(part.run, GroupSet()) | part.groups


def _is_dated(part: Slice, manifest: Manifest) -> bool:
    return (part.generation == LIVE) == (part.tier == "memory") and 0 <= part.generation <= manifest.version
