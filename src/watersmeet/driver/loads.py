"""The load of sites and groups in an epoch, summed up from the effects of tasks for the policies that move groups."""

from collections.abc import Mapping, Sequence

import numpy as np

from watersmeet.adapt.moving.load import EpochLoad, Executors
from watersmeet.adapt.statistics import Floats
from watersmeet.driver.ports import Done
from watersmeet.model.ids import InputName, OperatorId, SiteId
from watersmeet.site.counts import added
from watersmeet.site.effects import Effects
from watersmeet.state.changes import AddRun
from watersmeet.state.manifest import Manifest


def load_of(manifest: Manifest, effects: Sequence[Effects], duration_ms: float) -> EpochLoad:
    """The load of an epoch, given the manifest that it read."""
    busy = np.zeros((manifest.plan.root.level + 1, manifest.sites))
    executors, workers = [""] * manifest.sites, dict[str, set[int]]()
    for each in effects:
        place = f"{each.host}:{each.executor}"
        busy[each.level, each.site] += each.busy_ms + each.receive_ms
        executors[each.site] = place
        workers.setdefault(place, set()).add(each.worker)
    names, groups = [operator.id for operator in manifest.plan.operators], manifest.groups
    rows = _rows_that_came(manifest, effects)
    tuples = {name: rows[name].sum(axis=0) + added([each.local for each in effects], groups, name) for name in names}
    results = {name: added([each.traced for each in effects], groups, name).astype(np.float64) for name in names}
    processes: Mapping[str, int] = {place: len(found) for place, found in workers.items()}
    return EpochLoad(duration_ms, busy, tuples, executors, processes, results, rows, came=_came(effects))


def executors_of(done: Done) -> Executors | None:
    """The processes that did the work of a step; None if there is only one."""
    if not done.executors:
        return None
    told, workers = dict[SiteId, str](), dict[str, set[int]]()
    for each in sorted(done.effects, key=lambda each: each.level):
        told[each.site] = f"{each.host}:{each.executor}"
        workers.setdefault(told[each.site], set()).add(each.worker)
    processes = {place: len(found) for place, found in workers.items()}
    return Executors(done.executors, done.slots, tuple(told[site] for site in sorted(told)), processes)


def to_fetch(effects: Sequence[Effects]) -> dict[tuple[int, SiteId], int]:
    """How many bytes each site has yet to fetch at each level; a step of cleanup leaves the lower ones out."""
    found: dict[tuple[int, SiteId], int] = {}
    for each in effects:
        found[each.level, each.site] = found.get((each.level, each.site), 0) + each.to_fetch
    return found


def _came(effects: Sequence[Effects]) -> dict[tuple[OperatorId, InputName], int]:
    found: dict[tuple[OperatorId, InputName], int] = {}
    for run in (change.run for each in effects for change in each.changes if isinstance(change, AddRun)):
        found[run.operator, run.input] = found.get((run.operator, run.input), 0) + run.rows
    return found


def _rows_that_came(manifest: Manifest, effects: Sequence[Effects]) -> dict[OperatorId, Floats]:
    """By input and group."""
    groups, operators = manifest.groups, manifest.plan.operators
    inputs = {each.id: [source.name for source in each.inputs] for each in operators}
    came = {name: np.zeros((len(some), groups)) for name, some in inputs.items()}
    for change in (change for each in effects for change in each.changes):
        if isinstance(change, AddRun) and change.run.rows:
            run = change.run
            came[run.operator][inputs[run.operator].index(run.input), run.groups.mask(groups)] += run.group_rows.array
    return came
