"""Groups too hot for one site are split over several, and whole again when they cool (`watersmeet.state.splits`).

Moves level what many groups ask of sites. A group that alone takes longer than a levelled epoch cannot be levelled by
moves: most often one key of it has a large part of all rows. None of the papers splits it.

What a group asks for are rows that come and results that are made. Split over k sites, each of them has all new rows of
the copied inputs, and a k-th of all else. So the input with most rows is dealt out. As many sites share it as make the
slowest of them noticeably quicker, those that make it quickest first.

- A group is *hot* if it alone takes more than `HOT` times what an executor's process takes of a levelled epoch.
- It has *cooled* if, whole again, it would take less than `COOL` times that. In between everything stays as it is.
- A site that shares a group reads all rows of the copied inputs and its part of the others. It has room for them, or
  takes no part; if memory becomes short there, the group is whole again.

What is seen are means of some epochs, and nothing is decided before as many were watched; after a group had to be split
again, twice as many, so that one that is hot now and then is not split and united for ever. After twice as many epochs
without a change, it is half as many again. Parked groups are taken to ask for what they did before.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.levelling import Machines
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.pieces import Flags, room_bytes
from watersmeet.adapt.moving.taken import Suggested
from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.model.plan import Operator
from watersmeet.state.changes import ChangePatience, SplitGroup
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, Split
from watersmeet.state.sizes import live_bytes_by_input, live_bytes_by_site
from watersmeet.state.splits import dealable

AGEING = 0.7
"""What is left of a count after an epoch."""

WATCHED_LEAST, WATCHED_MOST = 3, 256
"""How many epochs are watched before a decision."""

HOT, COOL = 1.25, 0.5
"""When a group is hot and when it has cooled, as a part of what a process takes of a levelled epoch."""

WORTH_A_SITE = 0.95
"""Another site shares a group if the slowest executor then takes less than this part of what it took without."""

NOTICEABLE, COST_MS = 0.05, 20.0
"""A split gains at least so much of an epoch, and in the epochs that were watched more than a new routing costs."""


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


@dataclass
class HotGroupPolicy:
    """Suggests splitting hot groups and undoing splits, one at a time."""

    options: MemoryOptions = field(default_factory=MemoryOptions)
    name: str = "auto"
    moments: frozenset[Moment] = frozenset({"step"})
    wanted: int = WATCHED_LEAST
    _epochs: int = 0
    _watched: int = 0
    _weight: float = 0.0
    _asked: dict[OperatorId, Asked] = field(default_factory=dict)
    _busy_ms: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    _done: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    _united: set[tuple[OperatorId, int]] = field(default_factory=set)
    _calm: int = 0
    _suggested: Suggested = field(default_factory=Suggested)

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Splits to be undone, or else the split that helps most."""
        load, manifest = view.load, view.manifest
        if load is None or manifest.sites == 1:
            return
        found = list(self._without_room(manifest))
        if load.is_shared and load.rows:
            self._epochs += 1
            yield from self._patience(manifest)
            if self._epochs > 1:  # the first epoch of a run warms everything up
                self._watch(manifest, load)
            found = found or self._decided(manifest, load)
        else:
            self._watched = 0
        yield from self._suggested.remember(
            Suggestion(change, {change.operator: GroupSet.of([change.group])}) for change in found
        )

    def _patience(self, manifest: Manifest) -> Iterator[Suggestion]:
        """Learn from what was done of the last suggestions, or from a long time without any."""
        done = [each for each in self._suggested.done(manifest) if isinstance(each, SplitGroup)]
        if done:
            self._watched = self._calm = 0
        again = [each for each in done if len(each.after) > 1 and (each.operator, each.group) in self._united]
        self._united |= {(each.operator, each.group) for each in done if len(each.after) == 1}
        if again:
            yield from self._waits(min(2 * self.wanted, WATCHED_MOST), f"group {again[0].group} had to be split again")
        elif self._calm >= 2 * self.wanted:
            yield from self._waits(max(self.wanted // 2, WATCHED_LEAST), f"nothing has changed for {self._calm} epochs")

    def _waits(self, wanted: int, reason: str) -> Iterator[Suggestion]:
        before, self.wanted, self._calm = self.wanted, wanted, 0
        if before != wanted:
            yield Suggestion(ChangePatience(self.name, before, wanted, reason))

    def _decided(self, manifest: Manifest, load: EpochLoad) -> list[SplitGroup]:
        if self._watched < self.wanted or not self._done.sum():
            return []
        levels = [_Level(self, manifest, load, number) for number in range(len(self._busy_ms))]
        cooled = [change for level in levels for change in level.cooled()]
        splits = [each for level in levels for each in level.splits(room_bytes(self.options, _held(manifest)))]
        if cooled or not splits:
            return cooled
        gain_ms, best = max(splits, key=lambda each: each[0])
        if gain_ms < NOTICEABLE * load.duration_ms or gain_ms * self._watched < COST_MS:
            return []
        return [best]

    def _without_room(self, manifest: Manifest) -> Iterator[SplitGroup]:
        """Where memory is short, a site does not hold rows for others."""
        limit = self.options.limit_bytes
        short = set() if limit is None else set(np.flatnonzero(_held(manifest) > limit).tolist())
        for name, state in manifest.operators.items():
            for split in state.splits:
                if short.intersection(split.sites[1:]):
                    reason = f"a site that shares group {split.group} exceeds memoryBudget {limit}"
                    yield _whole(name, split, 0, reason)

    def _watch(self, manifest: Manifest, load: EpochLoad) -> None:
        """Learn from an epoch."""
        operators = {each.id: each for each in manifest.plan.operators}
        now = {name: Asked(rows, load.tuples[name] - rows.sum(axis=0)) for name, rows in load.rows.items()}
        done = np.zeros(load.busy_ms.shape)
        for name, asked in now.items():
            done[operators[name].level] += by_site(manifest, operators[name], asked)
        if done.shape != self._done.shape or set(now) != set(self._asked):
            self._asked, self._watched, self._weight = {}, 0, 0.0
            self._busy_ms, self._done = np.zeros(done.shape), np.zeros(done.shape)
        if not done.sum():
            return
        self._asked = {name: self._later(manifest, name, each) if self._asked else each for name, each in now.items()}
        self._busy_ms, self._done = AGEING * self._busy_ms + load.busy_ms, AGEING * self._done + done
        self._weight = AGEING * self._weight + 1.0
        self._watched, self._calm = self._watched + 1, self._calm + 1

    def _later(self, manifest: Manifest, name: OperatorId, now: Asked) -> Asked:
        parked = manifest.parked(name).mask(manifest.groups)
        return self._asked[name].after(now.at_least(self.asked_of(name), parked) if parked.any() else now)

    def asked_of(self, name: OperatorId) -> Asked:
        """What a mean epoch asks of the groups of an operator."""
        known = self._asked[name]
        return Asked(known.rows / self._weight, known.results / self._weight)

    def rates_of(self, level: int) -> Floats:
        """Milliseconds a tuple takes, the same at all sites.

        A site with little to do takes long for a tuple, as its task costs something by itself and results are cheaper
        than rows: by its own rate it would never be given a part. That machines differ is what moves are for.
        """
        done = float(self._done[level].sum())
        return np.full(self._done.shape[1], float(self._busy_ms[level].sum()) / done if done else 0.0)


@dataclass(frozen=True)
class UnsplitPolicy:
    """Makes groups whole as a run begins whose adaptation splits none: nobody would do so when they cool."""

    moments: frozenset[Moment] = frozenset({"start"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A change for every split; that a group is being cleaned does not matter to it."""
        for name, state in view.manifest.operators.items():
            for split in state.splits:
                yield Suggestion(_whole(name, split, 0, "the adaptation of this run splits no groups"))


class _Level:
    """One level of the plan: its operators, and what its sites take."""

    def __init__(self, policy: HotGroupPolicy, manifest: Manifest, load: EpochLoad, level: int) -> None:
        self.policy, self.manifest = policy, manifest
        self.machines = Machines.of(load.executors, load.workers)
        self.operators = [each for each in manifest.plan.operators if each.level == level and dealable(each)]
        self.asked = {each.id: policy.asked_of(each.id) for each in manifest.plan.operators if each.level == level}
        self.ms_per_tuple = policy.rates_of(level)
        operators = {each.id: each for each in manifest.plan.operators}
        tuples = [by_site(manifest, operators[name], asked) for name, asked in self.asked.items()]
        self.site_ms: Floats = np.sum(tuples, axis=0) * self.ms_per_tuple
        self.level_ms = float(self.site_ms.sum()) / self.machines.at_once

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
                    yield _whole(operator.id, split, int(tuples), reason, self.policy.name)

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
            yield float(before) - best_ms, SplitGroup(*what, (home,), chosen, self.policy.name, size, tuples, reason)

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


def _held(manifest: Manifest) -> Floats:
    """The live bytes of every site, and what it reads of groups that are another's."""
    held: Floats = live_bytes_by_site(manifest)
    for operator in manifest.plan.operators:
        names, splits = [str(source.name) for source in operator.inputs], manifest.operators[operator.id].splits
        live = live_bytes_by_input(manifest, operator.id, names) if splits else np.zeros((0, 0))
        for split in splits:
            all_of_it, dealt = live[:, split.group].sum(), live[names.index(split.input), split.group]
            held[list(split.sites[1:])] += all_of_it - dealt + dealt / len(split.sites)
    return held


def _whole(name: OperatorId, split: Split, tuples: int, reason: str, policy: str = "auto") -> SplitGroup:
    return SplitGroup(name, split.group, split.input, split.sites, split.sites[:1], policy, 0, tuples, reason)
