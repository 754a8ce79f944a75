"""Steps on counts alone: a runner that knows no rows, only how many there are.

A batch is the number of an epoch of the workload.

1. What the driver has spilled since the last step is learnt from the manifest: a group that holds something here and
   has no live slice there any more. Its counts begin anew, as a generation does.
2. The epoch's rows arrive, level by level from the bottom; each level's results arrive at the next in the same epoch.
3. What happened is told as a site task tells it: runs that arrived, with the rows and bytes of every group, though
   there are no files; results by group, and traced back to the groups of all levels they came through (Spill,
   Algorithms 1 and 2). Nothing is sampled.
4. Merges that the driver orders are done by adding up sizes. So the driver has as few runs to go through as it would
   have with rows, which takes less time than the merging.
5. Every site is an executor of its own, and takes as long as its tuples do, at a given *pace*. So policies that go by
   time see the same in every run.

A step cannot be repeated, as the counts have changed; nor is anything ever cleaned up.
"""

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from watersmeet.adapt.statistics import Floats
from watersmeet.driver.ports import Done, Step
from watersmeet.model.ids import OperatorId, RunId, SiteId
from watersmeet.runners.counts.operator import Operator, Results
from watersmeet.runners.counts.plan import plan_of
from watersmeet.runners.counts.streams import Ints
from watersmeet.runners.counts.workload import Workload
from watersmeet.site.effects import Effects
from watersmeet.site.spec import LevelSpec, MergeOrder
from watersmeet.state.changes import AddRun, MergeRuns
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, RowSet, RunFile
from watersmeet.state.runs import RunName, run_name
from watersmeet.state.sizes import rows_and_bytes
from watersmeet.state.vectors import Vector

BySite = dict[OperatorId, Floats]
"""Counts ``[site, group]`` of operators."""


@dataclass(frozen=True)
class Told:
    """What the sites of a level have counted."""

    local: BySite
    traced: BySite
    inter_bytes: BySite


@dataclass(frozen=True)
class Pace:
    """How long the rows of an epoch take to arrive, and a site takes for a tuple."""

    epoch_ms: float = 0.0
    tuple_ms: float = 0.0


class CountsRunner:
    """Takes the epochs of a workload, one after the other."""

    def __init__(self, workload: Workload, pace: Pace = Pace()) -> None:  # noqa: B008 -- a value
        self.workload, self.plan, self.pace = workload, plan_of(workload), pace
        self.names = [operator.id for operator in self.plan.operators]
        self.operators = [Operator(workload, level) for level in range(len(workload.levels))]

    def run(self, step: Step[int]) -> Done:
        """Carry out a step."""
        if step.batch is None:
            raise ValueError(f"step {step.epoch} cleans up, and counts of spilled groups are not kept")
        self._forget_spilled(step.manifest)
        effects: list[Effects] = []
        below: Results | None = None
        for spec, operator in zip(step.levels, self.operators, strict=True):
            arrived, results = operator.take(step.batch, below)
            told = self._told(step.manifest, spec.level, below, results)
            effects += [self._effects(step, spec, site, arrived, told) for site in spec.sites]
            below = results
        busiest_ms = max((each.busy_ms for each in effects), default=0.0)
        return Done(effects, took_ms=max(self.pace.epoch_ms, busiest_ms))

    def cancel(self) -> None:
        """Nothing runs beside the one who asks."""

    def close(self) -> None:
        """Nothing is held."""

    def _forget_spilled(self, manifest: Manifest) -> None:
        for name, operator in zip(self.names, self.operators, strict=True):
            gone = (operator.live_bytes > 0) & ~manifest.live_groups(name).mask(manifest.groups)
            if gone.any():
                operator.spill(gone)

    def _told(self, manifest: Manifest, level: int, below: Results | None, results: Results) -> Told:
        """What the sites of a level count: its own results, those of the query, and what it stores of those below."""
        name, own = self.names[level], self.operators[level]
        routing, is_root = np.asarray(manifest.operators[name].routing), level == len(self.names) - 1
        sites = routing[own.paths.groups[level][results.paths]]
        made = self._by_site(own, range(0 if is_root else level, level + 1), results, sites, manifest)
        stored: BySite = {}
        if below is not None:
            sites = routing[own.below_group[below.paths]]
            sizes = Results(below.paths, below.counts * own.row_bytes[-1])
            stored = self._by_site(self.operators[level - 1], range(level), sizes, sites, manifest)
        return Told({name: made[name]}, made if is_root else {}, stored)

    def _by_site(self, operator: Operator, levels: range, results: Results, sites: Ints, manifest: Manifest) -> BySite:
        """Sum an operator's results by site, and by the groups they came through at some levels."""
        shape, first = (manifest.sites, manifest.groups), sites * manifest.groups
        found: BySite = {}
        for level in levels:
            cells = first + operator.paths.groups[level][results.paths]
            sums = np.bincount(cells, results.counts, minlength=manifest.sites * manifest.groups)
            found[self.names[level]] = sums.reshape(shape).astype(np.float64)
        return found

    def _effects(self, step: Step[int], spec: LevelSpec, site: SiteId, arrived: Floats, told: Told) -> Effects:
        operator = self.plan.operators[spec.level]
        rows = arrived * (np.asarray(step.manifest.operators[operator.id].routing) == site)
        changes: list[AddRun | MergeRuns] = []
        for source, counts, row_bytes in zip(operator.inputs, rows, self.operators[spec.level].row_bytes, strict=True):
            name = RunName(RunId(run_name(step.epoch, site, source.name)), operator.id, source.name)
            changes.append(AddRun(_run(name, counts, counts * row_bytes)))
        made = told.local[operator.id][site].sum()
        return Effects(
            level=spec.level,
            site=site,
            executor=int(site),
            worker=int(site),
            busy_ms=float(rows.sum() + made) * self.pace.tuple_ms,
            changes=(*changes, *(_merged(step, site, order) for order in spec.sites[site].merges)),
            rows_in={f"{operator.id}/{i.name}": int(n) for i, n in zip(operator.inputs, rows.sum(axis=1), strict=True)},
            rows_out={operator.id: int(made)},
            local=_packed(told.local, site),
            traced=_packed(told.traced, site),
            inter_bytes=_packed(told.inter_bytes, site),
        )


def _packed(counts: BySite, site: SiteId) -> dict[OperatorId, Vector]:
    return {name: Vector.of(table[site]) for name, table in counts.items() if table[site].any()}


def _run(name: RunName, rows: Ints | Floats, sizes: Ints | Floats) -> RunFile:
    """A run with so many rows and bytes of every group."""
    held = rows > 0
    covered, counts, weights = GroupSet.within(held), Vector.of(rows[held]), Vector.of(sizes[held])
    total, weight = int(rows.sum()), int(sizes.sum())
    return RunFile(name.id, name.path, name.operator, name.input, covered, total, weight, 0, counts, weights)


def _merged(step: Step[int], site: SiteId, order: MergeOrder) -> MergeRuns:
    """Some runs as one."""
    source = order.source
    name = RunId(run_name(step.epoch, site, f"{source.name}-{order.generation}"))
    parts = [replace(part, rows=RowSet(part.groups & order.groups)) for _, part in order.runs]
    run = _run(RunName(name, source.operator, source.name), *rows_and_bytes(step.manifest, parts))
    return MergeRuns(tuple(each.id for each, _ in order.runs), order.groups, run, order.generation, order.reason)
