"""Which groups are too hot for one site, and over which sites they are best split; which have cooled.

What a group asks for are rows that come and results that are made. Split over k sites, each of them has all new rows of
the copied inputs, and a k-th of all else. So the input with most rows is dealt out. As many sites share it as make the
slowest of them noticeably quicker, those that make it quickest first.

- A group is *hot* if it alone takes more than `HOT` times what an executor's process takes of a levelled epoch.
- It has *cooled* if, whole again, it would take less than `COOL` times that. In between everything stays as it is.
- A site that shares a group reads all rows of the copied inputs and its part of the others. It has room for them, or
  takes no part.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.moving.levelling import Machines
from watersmeet.adapt.moving.pieces import Flags
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.model.plan import Operator
from watersmeet.state.changes import SplitGroup
from watersmeet.state.manifest import Manifest, Split
from watersmeet.state.sizes import live_bytes_by_input, live_bytes_by_site
from watersmeet.state.splits import dealable

AGEING = 0.7
"""What is left of a count after an epoch."""

HOT, COOL = 1.25, 0.5
"""When a group is hot and when it has cooled, as a part of what a process takes of a levelled epoch."""

WORTH_A_SITE = 0.95
"""Another site shares a group if the slowest executor then takes less than this part of what it took without."""


@dataclass(frozen=True)
class Asked:
    """What an epoch asks of the groups of an operator: rows ``[input, group]``, and results by group. They age."""

    rows: Floats
    results: Floats

    @property
    def tuples(self) -> Floats:
        """All of it, by group."""
        total: Floats = self.rows.sum(axis=0) + self.results
        return total

    def after(self, later: "Asked") -> "Asked":
        """An epoch later."""
        return Asked(AGEING * self.rows + later.rows, AGEING * self.results + later.results)

    def at_least(self, known: "Asked", some: Flags) -> "Asked":
        """For some groups, as much as was known before."""
        return Asked(self.rows, np.where(some, np.maximum(self.results, known.results), self.results))

    def part(self, number: int, group: int, sites: int) -> float:
        """What each of so many sites has of a group if the rows of an input are dealt out."""
        copied = float(self.rows[:, group].sum() - self.rows[number, group])
        return copied + (float(self.tuples[group]) - copied) / sites


class Level:
    """One level of the plan: what a mean epoch asks of its operators, and what its sites take, by ``policy``'s word."""

    def __init__(
        self,
        manifest: Manifest,
        machines: Machines,
        asked: Mapping[OperatorId, Asked],
        ms_per_tuple: Floats,
        policy: str,
    ) -> None:
        self.manifest, self.machines, self.asked = manifest, machines, asked
        self.ms_per_tuple, self.policy = ms_per_tuple, policy
        operators = {each.id: each for each in manifest.plan.operators}
        self.operators = [operators[name] for name in asked if dealable(operators[name])]
        tuples = [by_site(manifest, operators[name], each) for name, each in asked.items()]
        self.site_ms: Floats = np.sum(tuples, axis=0) * ms_per_tuple
        self.level_ms = float(self.site_ms.sum()) / machines.at_once

    def cooled(self) -> Iterator[SplitGroup]:
        """Splits that are not needed any more."""
        for operator in self.operators:
            for split in self.manifest.operators[operator.id].splits:
                tuples = self.asked[operator.id].tuples[split.group]
                whole_ms = tuples * self.ms_per_tuple[split.sites[0]]
                if whole_ms < COOL * self.level_ms:
                    reason = (
                        f"group {split.group} takes {whole_ms:.0f} ms of an epoch, levelled sites {self.level_ms:.0f}"
                    )
                    yield whole_again(operator.id, split, int(tuples), reason, self.policy)

    def splits(self, room: Floats) -> Iterator[tuple[float, SplitGroup]]:
        """Groups that are hot, split, with the milliseconds of an epoch that are gained."""
        for operator in self.operators:
            state = self.manifest.operators[operator.id]
            whole = np.ones(self.manifest.groups, np.bool_)
            whole[[split.group for split in state.splits]] = False
            own_ms = self.asked[operator.id].tuples * self.ms_per_tuple[np.asarray(state.routing)]
            for group in np.flatnonzero(whole & (own_ms > HOT * self.level_ms)).tolist():
                yield from self._split(operator, group, float(own_ms[group]), room)

    def _split(self, operator: Operator, group: int, own_ms: float, room: Floats) -> Iterator[tuple[float, SplitGroup]]:
        asked, names = self.asked[operator.id], [source.name for source in operator.inputs]
        number = max((names.index(name) for name in dealable(operator)), key=lambda each: asked.rows[each, group])
        held = live_bytes_by_input(self.manifest, operator.id, [str(name) for name in names])[:, group]
        home = self.manifest.operators[operator.id].routing[group]
        others = self.site_ms.copy()
        others[home] -= own_ms
        before = self.machines.times(self.site_ms)[self.machines.executor[home]]
        best_ms, chosen = float(before), tuple[SiteId, ...]((home,))
        while len(chosen) < self.manifest.sites:
            sites = len(chosen) + 1
            part = asked.part(number, group, sites)
            copied_bytes = float(held.sum() - held[number]) + float(held[number]) / sites
            free = [site for site in range(self.manifest.sites) if site not in chosen and copied_bytes <= room[site]]
            tried = {site: self._takes(others, (*chosen, SiteId(site)), part) for site in free}
            least = min(tried, key=tried.__getitem__, default=None)
            if least is None or tried[least] > WORTH_A_SITE * best_ms:
                break
            chosen, best_ms = (*chosen, SiteId(least)), tried[least]
        if len(chosen) > 1:
            reason = (
                f"group {group} alone takes {own_ms:.0f} ms of an epoch, levelled sites {self.level_ms:.0f} ms: "
                f"rows of {names[number]} go to one of {len(chosen)} sites, all others to each"
            )
            tuples, size = int(asked.tuples[group]), int(held.sum())
            what = (operator.id, group, names[number])
            yield float(before) - best_ms, SplitGroup(*what, (home,), chosen, self.policy, size, tuples, reason)

    def _takes(self, others: Floats, sites: tuple[SiteId, ...], part: float) -> float:
        """How long the slowest executor takes that shares a group; others may have hot groups of their own."""
        loads, chosen = others.copy(), list(sites)
        loads[chosen] += part * self.ms_per_tuple[chosen]
        return float(self.machines.times(loads)[self.machines.executor[chosen]].max())


def by_site(manifest: Manifest, operator: Operator, asked: Asked) -> Floats:
    """What every site has to do for an operator, in tuples."""
    state, names = manifest.operators[operator.id], [source.name for source in operator.inputs]
    total = np.bincount(state.routing, asked.tuples, minlength=manifest.sites).astype(np.float64)
    for split in state.splits:
        total[split.sites[0]] -= asked.tuples[split.group]
        total[list(split.sites)] += asked.part(names.index(split.input), split.group, len(split.sites))
    return total


def held_bytes(manifest: Manifest) -> Floats:
    """The live bytes of every site, and what it reads of groups that are another's."""
    held: Floats = live_bytes_by_site(manifest)
    for operator in manifest.plan.operators:
        names, splits = [str(source.name) for source in operator.inputs], manifest.operators[operator.id].splits
        live = live_bytes_by_input(manifest, operator.id, names) if splits else np.zeros((0, 0))
        for split in splits:
            all_of_it, dealt = live[:, split.group].sum(), live[names.index(split.input), split.group]
            held[list(split.sites[1:])] += all_of_it - dealt + dealt / len(split.sites)
    return held


def whole_again(name: OperatorId, split: Split, tuples: int, reason: str, policy: str = "auto") -> SplitGroup:
    """The change that undoes a split."""
    return SplitGroup(name, split.group, split.input, split.sites, split.sites[:1], policy, 0, tuples, reason)
