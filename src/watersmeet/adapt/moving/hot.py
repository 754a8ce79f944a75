"""Groups too hot for one site are split over several, and whole again when they cool (`watersmeet.state.splits`).

Moves level what many groups ask of sites. A group that alone takes longer than a levelled epoch cannot be levelled by
moves: most often one key of it has a large part of all rows. None of the papers splits it.

Which groups are hot, over which sites they are split and which have cooled is told by `splitting`. A site that shares a
group has room for its part; if memory becomes short there, the group is whole again.

What is seen are means of some epochs, and nothing is decided before as many were watched; after a group had to be split
again, twice as many, so that one that is hot now and then is not split and united for ever. After twice as many epochs
without a change, it is half as many again. Parked groups are taken to ask for what they did before.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.levelling import Machines
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.pieces import room_bytes
from watersmeet.adapt.moving.splitting import AGEING, Asked, Level, by_site, held_bytes, whole_again
from watersmeet.adapt.moving.taken import Suggested
from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import OperatorId
from watersmeet.state.changes import ChangePatience, SplitGroup
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest

WATCHED_LEAST, WATCHED_MOST = 3, 256
"""How many epochs are watched before a decision."""

NOTICEABLE, COST_MS = 0.05, 20.0
"""A split gains at least so much of an epoch, and in the epochs that were watched more than a new routing costs."""


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
        levels = [self._level(manifest, load, number) for number in range(len(self._busy_ms))]
        cooled = [change for level in levels for change in level.cooled()]
        splits = [each for level in levels for each in level.splits(room_bytes(self.options, held_bytes(manifest)))]
        if cooled or not splits:
            return cooled
        gain_ms, best = max(splits, key=lambda each: each[0])
        if gain_ms < NOTICEABLE * load.duration_ms or gain_ms * self._watched < COST_MS:
            return []
        return [best]

    def _level(self, manifest: Manifest, load: EpochLoad, number: int) -> Level:
        names = [operator.id for operator in manifest.plan.operators if operator.level == number]
        asked = {name: self.asked_of(name) for name in names}
        return Level(manifest, Machines.of(load.executors, load.workers), asked, self.rates_of(number), self.name)

    def _without_room(self, manifest: Manifest) -> Iterator[SplitGroup]:
        """Where memory is short, a site does not hold rows for others."""
        limit = self.options.limit_bytes
        short = set() if limit is None else set(np.flatnonzero(held_bytes(manifest) > limit).tolist())
        for name, state in manifest.operators.items():
            for split in state.splits:
                if short.intersection(split.sites[1:]):
                    reason = f"a site that shares group {split.group} exceeds memoryBudget {limit}"
                    yield whole_again(name, split, 0, reason)

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
                yield Suggestion(whole_again(name, split, 0, "the adaptation of this run splits no groups"))
