"""How long an epoch takes by its distribution, and a distribution that takes less.

An epoch is as slow as the slowest executor of each of its levels, for a level begins when the one below has ended.
What a site has to do is ``sum(tuples of its groups) * ms per tuple``. The second is the site's own: one on a slow
machine has a higher rate. An executor with n processes works on n sites at a time: it takes ``max(longest, sum / n)``.

Groups go from the heaviest site of the slowest executor to the lightest site of the quickest, as many as bring one of
the two to the mean, the largest that fit first, until nothing is gained any more. (Sorted by size, first fit: the usual
greedy method for scheduling on several machines.) A group is never split. If groups move at all, the sites of each
executor are levelled, too: it works for them one after the other now, but their memory is shared out evenly, and they
may be spread over more executors later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.moving.pieces import Flags, Ints
from watersmeet.adapt.statistics import Floats

ROUNDS_A_SITE = 8
LEVEL = 1.02
"""An executor is not relieved that takes less than this times the mean."""

SITES_LEVEL = 1.1
"""Nor is a site, by the others of its executor."""

PRIOR = 0.05
"""A site's rate is trusted as if it had done this part of a mean site's work at the mean rate before."""


@dataclass(frozen=True)
class Machines:
    """Which executor each site is on, by number, and how many processes each has."""

    executor: Ints
    processes: Floats

    @classmethod
    def of(cls, executors: Sequence[str], workers: Mapping[str, int]) -> "Machines":
        """Number the executors."""
        names = sorted(set(executors))
        numbers = np.array([names.index(name) for name in executors], dtype=np.int64)
        return cls(numbers, np.array([float(max(workers.get(name, 1), 1)) for name in names]))

    def times(self, by_site: Floats) -> Floats:
        """How long every executor takes.

        >>> Machines.of(["a", "a", "b"], {"a": 2, "b": 1}).times(np.array([5.0, 1.0, 4.0])).tolist()
        [5.0, 4.0]
        """
        longest = np.zeros(len(self.processes))
        np.maximum.at(longest, self.executor, by_site)
        shared = np.bincount(self.executor, by_site, minlength=len(longest)) / self.processes
        return np.maximum(longest, shared)

    def are_apart(self, one: Ints, other: Ints) -> Flags:
        """Whether sites are on different executors.

        >>> Machines.of(["a", "a", "b"], {}).are_apart(np.array([0, 0]), np.array([1, 2])).tolist()
        [False, True]
        """
        apart: Flags = self.executor[one] != self.executor[other]
        return apart

    @property
    def at_once(self) -> float:
        """How many sites can be worked on at a time."""
        return float(min(self.processes.sum(), len(self.executor)))

    def are_better(self, before: Floats, after: Floats, donor: int, receiver: int) -> bool:
        """Whether the slower of two sites' executors is quicker than before; of one executor, the heavier site."""
        one, other = self.executor[donor], self.executor[receiver]
        if one == other:
            return bool(max(after[donor], after[receiver]) < before[donor])
        times = self.times(after)
        return bool(max(times[one], times[other]) < self.times(before)[one])

    def heaviest(self, by_site: Floats) -> int:
        """The heaviest site of the slowest executor."""
        return int(np.where(self.executor == self.times(by_site).argmax(), by_site, -1.0).argmax())

    def lightest(self, by_site: Floats) -> int:
        """The lightest site of the quickest executor."""
        return int(np.where(self.executor == self.times(by_site).argmin(), by_site, np.inf).argmin())


@dataclass(frozen=True)
class Work:
    """The pieces of one level: tuples an epoch of each, its site, its bytes, and what every site takes for a tuple.

    Besides, each site has so many ``fixed`` tuples, which stay there.
    """

    tuples: Floats
    site: Ints
    live_bytes: Floats
    ms_per_tuple: Floats
    fixed: Floats | float = 0.0

    @property
    def by_site(self) -> Floats:
        """What every site has to do, in milliseconds."""
        sites = len(self.ms_per_tuple)
        return (np.bincount(self.site, self.tuples, minlength=sites) + self.fixed) * self.ms_per_tuple


def rates(busy_ms: Floats, tuples: Floats) -> Floats:
    """Milliseconds a tuple takes at each site; of a site of which little is known, as many as at the others.

    >>> rates(np.array([30.0, 10.0, 0.0]), np.array([10.0, 10.0, 0.0])).round(1).tolist()
    [3.0, 1.0, 2.0]
    """
    if tuples.sum() <= 0:
        return np.zeros(len(busy_ms))
    mean, before = busy_ms.sum() / tuples.sum(), PRIOR * tuples.mean()
    found: Floats = (busy_ms + mean * before) / (tuples + before)
    return found


def level_out(work: Work, machines: Machines, room: Floats) -> Ints:
    """Another site for every piece, so that the level takes less time; no site is given more bytes than its room.

    >>> machines = Machines.of(["a", "b"], {"a": 1, "b": 1})
    >>> work = Work(np.array([4.0, 3.0, 2.0, 1.0]), np.zeros(4, np.int64), np.ones(4), np.ones(2))
    >>> level_out(work, machines, np.array([np.inf, np.inf])).tolist()
    [1, 0, 0, 1]
    """
    plan = _Plan(work, machines, work.site.copy(), work.by_site, room.copy())
    plan.level_executors()
    if (plan.site != work.site).any():
        plan.level_sites()
        plan.level_executors()  # one whose quicker sites now do more takes less time
    return plan.site


@dataclass
class _Plan:
    """Where pieces are to be: the site of each, what sites then have to do, and the room that is left there."""

    work: Work
    machines: Machines
    site: Ints
    loads: Floats
    room: Floats

    def level_executors(self) -> None:
        """Relieve the slowest executor, until nothing is gained any more."""
        machines = self.machines
        for _ in range(ROUNDS_A_SITE * len(self.loads)):
            times, mean = machines.times(self.loads), self.loads.sum() / machines.at_once
            donor, receiver = machines.heaviest(self.loads), machines.lightest(self.loads)
            high, low = times.max(), times.min()
            if high <= LEVEL * mean:
                return
            if machines.executor[donor] == machines.executor[receiver]:
                receiver, mean = int(self.loads.argmin()), self.loads.mean()
                high, low = self.loads[donor], self.loads[receiver]
            amount = min(high - mean, mean - low) if low < mean else (high - low) / 2
            chosen = self._between(donor, receiver, amount)
            after = self._after(chosen, donor, receiver)
            if not len(chosen) or not machines.are_better(self.loads, after, donor, receiver):
                return
            self._give(chosen, receiver, after)

    def level_sites(self) -> None:
        """Level the sites of each executor, which may get more processes; no executor becomes slower by that."""
        most = LEVEL * self.machines.times(self.loads).max()
        for number in range(len(self.machines.processes)):
            mine = np.flatnonzero(self.machines.executor == number)
            for _ in range(ROUNDS_A_SITE * len(mine)):
                donor, receiver = int(mine[self.loads[mine].argmax()]), int(mine[self.loads[mine].argmin()])
                high, low = self.loads[donor], self.loads[receiver]
                if high <= SITES_LEVEL * self.loads[mine].mean():
                    break
                chosen = self._between(donor, receiver, (high - low) / 2)
                after = self._after(chosen, donor, receiver)
                if not len(chosen) or after[receiver] >= high or self.machines.times(after)[number] > most:
                    break
                self._give(chosen, receiver, after)

    def _between(self, donor: int, receiver: int, amount: float) -> Ints:
        """Pieces of the donor that take so long: the largest that fit first, or the smallest if all are too large."""
        work, room = self.work, self.room[receiver]
        here = np.flatnonzero((self.site == donor) & (work.tuples > 0) & (work.live_bytes <= room))
        mean_ms = (work.ms_per_tuple[donor] + work.ms_per_tuple[receiver]) / 2
        cost = work.tuples[here] * mean_ms
        fitting = here[cost <= amount]
        if not len(fitting):
            return here[cost.argmin() : cost.argmin() + 1] if len(here) else here
        order = fitting[np.argsort(-work.tuples[fitting], kind="stable")]
        taken = np.cumsum(work.tuples[order]) * mean_ms <= amount
        chosen: Ints = order[taken & (np.cumsum(work.live_bytes[order]) <= room)]
        return chosen

    def _after(self, chosen: Ints, donor: int, receiver: int) -> Floats:
        """What sites have to do if pieces of the donor are given to the receiver."""
        moved, after = self.work.tuples[chosen].sum(), self.loads.copy()
        after[donor] -= moved * self.work.ms_per_tuple[donor]
        after[receiver] += moved * self.work.ms_per_tuple[receiver]
        return after

    def _give(self, chosen: Ints, receiver: int, after: Floats) -> None:
        self.site[chosen], self.loads = receiver, after
        self.room[receiver] -= self.work.live_bytes[chosen].sum()
