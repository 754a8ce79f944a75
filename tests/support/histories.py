"""Random histories of a query, as changes: what arrives, is merged, spilled, cleaned and moved, version by version."""

import random
from itertools import count

from tests.support.states import JOIN, A, run_file
from watersmeet.model.ids import BatchId, RunId, SiteId
from watersmeet.state.applying import apply_all
from watersmeet.state.changes import (
    AddRun,
    BeginCleaning,
    Change,
    CountOutput,
    FinishAdaptation,
    FinishBatch,
    FinishCleaning,
    KeepStatistics,
    MergeRuns,
    MoveGroups,
    Reroute,
    ReviveGroups,
    SpillGroups,
    SplitGroup,
    UniteGenerations,
)
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import LIVE, Cleaning, Manifest
from watersmeet.state.runs import run_name
from watersmeet.state.vectors import Vector


class History:
    """Draws the changes of one version after the other."""

    def __init__(self, seed: int) -> None:
        self._chance, self._names = random.Random(seed), count()

    def changes(self, manifest: Manifest) -> list[Change]:
        """What makes the next version of a manifest."""
        if manifest.cleaning is not None:
            return self._finish(manifest, manifest.cleaning)
        missing = manifest.spilled(JOIN)
        if missing and self._chance.random() < 0.3:
            groups = tuple(group for group in missing if self._chance.random() < 0.6) or (next(iter(missing)),)
            return [BeginCleaning(Cleaning(JOIN, groups, 100, reason=f"{len(groups)} groups at {manifest.version}"))]
        if self._chance.random() < 0.1:
            return [*self._complete(manifest), FinishAdaptation()]
        return self._epoch(manifest)

    def _epoch(self, manifest: Manifest) -> list[Change]:
        arrived: list[Change] = [AddRun(self._run(manifest)) for _ in range(self._chance.randint(0, 3))]
        changes = [*arrived, *self._merge(manifest), *self._counts(manifest), *self._move(manifest)]
        changes += self._spill(apply_all(manifest, changes))
        return [*changes, FinishBatch(BatchId(manifest.batch + 1))]

    def _run(self, manifest: Manifest, groups: GroupSet | None = None):
        name = run_name(manifest.version, 0, f"{next(self._names):04d}")
        return run_file(name, *(self._some(manifest) if groups is None else groups))

    def _some(self, manifest: Manifest) -> list[int]:
        chosen = [group for group in range(manifest.groups) if self._chance.random() < 0.4]
        return chosen or [self._chance.randrange(manifest.groups)]

    def _merge(self, manifest: Manifest) -> list[Change]:
        live = [part for part in manifest.operators[JOIN].slices if part.generation == LIVE]
        if len(live) < 3 or self._chance.random() < 0.5:
            return []
        chosen = self._chance.sample(live, 2)
        held = chosen[0].groups | chosen[1].groups
        ids = tuple(RunId(part.run) for part in chosen)
        return [MergeRuns(ids, GroupSet.all(manifest.groups), self._run(manifest, held), reason="many")]

    def _counts(self, manifest: Manifest) -> list[Change]:
        counts = Vector.of([self._chance.randrange(99) for _ in range(manifest.groups)])
        told: list[Change] = [CountOutput(JOIN, counts, counts)] if self._chance.random() < 0.5 else []
        return [*told, KeepStatistics(JOIN, {"last_use": counts})] if self._chance.random() < 0.2 else told

    def _move(self, manifest: Manifest) -> list[Change]:
        if self._chance.random() > 0.1:
            return []
        if self._chance.random() < 0.3 and manifest.sites > 1:
            group, state = self._chance.randrange(manifest.groups), manifest.operators[JOIN]
            own, sites = state.routing[group], self._chance.sample(range(manifest.sites), manifest.sites)
            shared = (own, *(SiteId(site) for site in sites if site != own))[: self._chance.randint(1, 3)]
            return [SplitGroup(JOIN, group, A, (own,), shared, "auto", 70, 7, "hot")]
        if self._chance.random() < 0.5:
            before, after = (SiteId(self._chance.randrange(manifest.sites)) for _ in range(2))
            groups = GroupSet.of(group for group in range(manifest.groups) if self._chance.random() < 0.5)
            return [MoveGroups(JOIN, groups, before, after, "memory", 70, "uneven")]
        sites = self._chance.randint(1, 3)
        routing = tuple(SiteId(self._chance.randrange(sites)) for _ in range(manifest.groups))
        return [Reroute({JOIN: routing}, sites, "moved", manifest.sites)]

    def _spill(self, manifest: Manifest) -> list[Change]:
        if self._chance.random() > 0.4:
            return []
        live = GroupSet()
        for part in manifest.operators[JOIN].slices:
            live |= part.groups if part.generation == LIVE else GroupSet()
        chosen = GroupSet.of(group for group in live if self._chance.random() < 0.5)
        site = SiteId(self._chance.randrange(manifest.sites))
        return [SpillGroups(site, {JOIN: chosen}, "random", 900, 400, "too much")] if chosen else []

    def _complete(self, manifest: Manifest) -> list[Change]:
        closed = GroupSet()
        for groups in manifest.generations(JOIN).values():
            closed |= groups
        complete = closed - manifest.spilled(JOIN)
        change = self._chance.choice([ReviveGroups, UniteGenerations])
        return [change(JOIN, complete, "they miss nothing")] if complete else []

    def _finish(self, manifest: Manifest, cleaning: Cleaning) -> list[Change]:
        live = GroupSet.of(group for group in cleaning.groups if self._chance.random() < 0.5)
        missing = len(manifest.spilled(JOIN))
        return [FinishCleaning(live, GroupSet.of(cleaning.groups) - live, 70, 7, missing)]
