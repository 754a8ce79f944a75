"""What is known of the load after some epochs, and how much of it is chance.

Every other epoch is set aside: a distribution is found by the one half of them, and what it gains is what it would have
gained in the other (cross-validation). Counts and times age, so that the last epochs tell most. Of a pattern that has
just come, nothing is known but its first epoch, and both halves are that one.

What a tuple takes at a site is known by the clock, which is noisy: before `RATED` epochs, all sites are taken to be
alike, and only counts are told apart.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from watersmeet.adapt.moving.levelling import Machines, Work, rates
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.pieces import Flags, Ints, Pieces
from watersmeet.adapt.policy import View
from watersmeet.adapt.statistics import Floats

AGEING = 0.7
"""What is left of a count after an epoch: half of it after two."""

RATED = 3
"""After so many epochs sites have rates of their own."""

FIRST_SCATTER, SCATTER_KEPT = 0.1, 20
"""At first sites are taken to scatter by a tenth; then by that of some epochs."""


@dataclass(frozen=True)
class Epoch:
    """What the pieces of each level asked of an epoch, and how long sites were busy, ``[level, site]``.

    Of groups that are ``parked``, most of what they ask for is put off: ``tuples`` are what was done.
    """

    pieces: Pieces
    machines: Machines
    levels: list[Ints]
    tuples: Floats
    busy_ms: Floats
    done: Floats
    parked: Flags

    @classmethod
    def of(cls, view: View, pieces: Pieces, load: EpochLoad) -> "Epoch":
        """The epoch that a view tells of."""
        manifest = view.manifest
        level = np.repeat([operator.level for operator in manifest.plan.operators], pieces.groups)
        levels = [np.flatnonzero(level == each) for each in range(int(level.max()) + 1)]
        tuples = pieces.by_piece(load.tuples)
        parts = [(mine, *pieces.told_apart(tuples, mine)) for mine in levels]
        done = np.array([np.bincount(pieces.site[mine], own, pieces.sites) + fixed for mine, own, fixed in parts])
        parked = np.concatenate([manifest.parked(name).mask(manifest.groups) for name in pieces.operators])
        return cls(pieces, Machines.of(load.executors, load.workers), levels, tuples, load.busy_ms, done, parked)

    @property
    def slowest_ms(self) -> float:
        """How long it took in all at the slowest executor of each level."""
        return float(sum(self.machines.times(each).max() for each in self.busy_ms))

    def would_take(self, site: Ints, ms_per_tuple: Floats) -> float:
        """How long its tuples take if pieces are at some sites."""
        return sum(
            float(self.machines.times(self._work(mine, site, rate).by_site).max())
            for mine, rate in zip(self.levels, ms_per_tuple, strict=True)
        )

    def _work(self, mine: Ints, site: Ints, rate: Floats) -> Work:
        tuples, fixed = self.pieces.told_apart(self.tuples, mine)
        return Work(tuples, site[mine], self.pieces.live_bytes[mine], rate, fixed)


@dataclass(frozen=True)
class Half:
    """What every other epoch told: tuples an epoch by piece; busy times and tuples by level and site. All age."""

    sums: Floats
    busy_ms: Floats
    done: Floats
    weight: float = 0.0

    @property
    def tuples(self) -> Floats:
        """The mean of an epoch."""
        mean: Floats = self.sums / max(self.weight, 1e-9)
        return mean

    def after(self, tuples: Floats, epoch: Epoch) -> "Half":
        """An epoch later."""
        sums, weight = AGEING * self.sums + tuples, AGEING * self.weight + 1.0
        return Half(sums, AGEING * self.busy_ms + epoch.busy_ms, AGEING * self.done + epoch.done, weight)

    def without_counts(self) -> "Half":
        """What pieces ask for is not known any more; how fast sites are still is."""
        return replace(self, sums=np.zeros(len(self.sums)), weight=0.0)

    def with_one_rate(self) -> "Half":
        """As if all sites of a level took equally long for a tuple."""
        total = np.maximum(self.done.sum(axis=1, keepdims=True), 1e-9)
        return replace(self, busy_ms=self.done * self.busy_ms.sum(axis=1, keepdims=True) / total)

    def scatter(self, epoch: Epoch) -> float:
        """How far sites are off what they should take of an epoch's time, on average, if all are slow at times."""
        expected = np.divide(self.busy_ms * epoch.done, self.done, out=np.zeros(self.done.shape), where=self.done > 0)
        busy = max(float(epoch.busy_ms.sum()), 1e-9)
        scale = busy / max(float(expected.sum()), 1e-9)
        return float(np.abs(epoch.busy_ms - scale * expected).sum() / busy)

    def work(self, pieces: Pieces, mine: Ints, level: int, site: Ints, stuck: Flags) -> Work:
        """The work of a level's pieces if they are at some sites; of those that are stuck it is fixed there."""
        rate = rates(self.busy_ms[level], self.done[level])
        tuples, fixed = pieces.told_apart(self.tuples, mine)
        stays = stuck[mine]
        fixed = fixed + np.bincount(site[mine], tuples * stays, minlength=pieces.sites)
        return Work(tuples * ~stays, site[mine], pieces.live_bytes[mine], rate, fixed)


@dataclass
class Watched:
    """The epochs that were watched: the two halves, and how many ``epochs`` they are since the last decision."""

    halves: tuple[Half, Half]
    epochs: int = 0
    rated: int = 0
    scatters: list[float] = field(default_factory=list)

    @classmethod
    def nothing(cls, epoch: Epoch) -> "Watched":
        """Before the first epoch."""
        shape = epoch.done.shape
        none = Half(np.zeros(len(epoch.tuples)), np.zeros(shape), np.zeros(shape))
        return cls((none, none))

    def suits(self, epoch: Epoch) -> bool:
        """Whether an epoch has the same sites and groups."""
        half = self.halves[0]
        return len(half.sums) == len(epoch.tuples) and half.done.shape == epoch.done.shape

    @property
    def known(self) -> Floats:
        """What the pieces asked of a mean epoch; nothing, if the pattern is not known."""
        one, other = self.halves
        mean: Floats = (one.sums + other.sums) / max(one.weight + other.weight, 1e-9)
        return mean

    @property
    def ms_per_tuple(self) -> Floats:
        """What sites take for a tuple, ``[level, site]``."""
        one, other = self.halves
        pairs = zip(one.busy_ms + other.busy_ms, one.done + other.done, strict=True)
        return np.array([rates(busy, done) for busy, done in pairs])

    @property
    def is_rated(self) -> bool:
        """Whether sites have rates of their own."""
        return self.rated >= RATED

    @property
    def usual_scatter(self) -> float:
        """How far sites are off what they should take, less the longer they were watched."""
        return float(np.mean([FIRST_SCATTER, *self.scatters]) / np.sqrt(max(self.epochs, 1)))

    def see(self, epoch: Epoch) -> None:
        """Learn from an epoch. Parked groups are taken to ask for what they did before."""
        one, other = self.halves
        known = self.known
        tuples = np.where(epoch.parked & (known > epoch.tuples), known, epoch.tuples)
        if other.done.any():
            self.scatters = [*self.scatters, other.scatter(epoch)][-SCATTER_KEPT:]
        self.halves = (other, one.after(tuples, epoch))
        self.epochs, self.rated = self.epochs + 1, self.rated + 1

    def forget_counts(self) -> None:
        """Begin anew with what pieces ask for."""
        one, other = self.halves
        self.halves, self.epochs = (one.without_counts(), other.without_counts()), 0

    def for_decision(self) -> tuple[Half, Half]:
        """The half that a distribution is found by, and the one it is tested on."""
        one, other = self.halves
        if not one.weight:  # a single epoch was seen, of all or of this pattern
            one = replace(one, sums=other.sums, weight=other.weight) if one.done.any() else other
        return (one, other) if self.is_rated else (one.with_one_rate(), other.with_one_rate())
