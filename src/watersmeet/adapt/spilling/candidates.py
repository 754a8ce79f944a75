"""What a spill strategy is asked: the groups of one site, and how many bytes have to go.

A strategy is a function that gives every group that holds anything a *worth*. The groups of least worth go first, from
whatever operator, until enough bytes are freed (Spill 3.2, Figure 7: partitions are chosen globally at the query
level). Equal worth is decided by lot, with a seed, so that the same state always gives the same choice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from watersmeet.adapt.statistics import Floats, Statistics
from watersmeet.model.ids import OperatorId

Worth: TypeAlias = Floats
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Candidate:
    """One operator as a site sees it; ``live_bytes`` is P_size of each group that lives at the site, 0 elsewhere.

    ``fed_by`` names for each input the operator below that it comes from, None for a stream, in the order of the
    statistics' inputs. Where it is not given, the operators below are the last inputs, in the candidates' order. What
    it holds ``lasts`` for so many epochs, ``[input, group]``; for ever, if that is not given.
    """

    operator: OperatorId
    level: int
    parent: OperatorId | None
    live_bytes: Floats
    statistics: Statistics
    fed_by: tuple[OperatorId | None, ...] = ()
    lasts: Floats | None = None


@dataclass(frozen=True)
class Pressure:
    """How tight it is: free at least ``need_bytes``. Groups idle for ``inactive_epochs`` go before all others."""

    budget_bytes: int
    live_bytes: int
    fraction: float
    epoch: int
    seed: int = 0
    inactive_epochs: int | None = None

    @property
    def need_bytes(self) -> float:
        """What has to go."""
        return bytes_to_free(self.live_bytes, self.budget_bytes, self.fraction)


@dataclass(frozen=True)
class Pool:
    """The groups that hold anything, of all operators of a site, as parallel arrays."""

    candidates: tuple[Candidate, ...]
    place: Ints
    group: Ints
    live_bytes: Floats

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> "Pool":
        """Collect what may be spilled."""
        groups = [np.flatnonzero(candidate.live_bytes > 0) for candidate in candidates]
        place = np.repeat(np.arange(len(groups)), [len(found) for found in groups])
        sizes = [candidate.live_bytes[found] for candidate, found in zip(candidates, groups, strict=True)]
        group = np.concatenate([np.empty(0, dtype=np.int64), *groups])
        return cls(tuple(candidates), place, group, np.concatenate([np.empty(0), *sizes]))

    def gather(self, column: Callable[[Candidate], Floats]) -> Floats:
        """Look up a column of every group."""
        values = np.zeros(len(self.group))
        for number, candidate in enumerate(self.candidates):
            mine = self.place == number
            values[mine] = column(candidate)[self.group[mine]]
        return values


def bytes_to_free(live: float, budget: float, fraction: float) -> float:
    """What a site has to spill: a fraction of what is live, and all that is above the budget.

    >>> bytes_to_free(live=110, budget=100, fraction=0.3), bytes_to_free(live=200, budget=100, fraction=0.3)
    (33.0, 100)
    """
    return max(live * fraction, live - budget)


Strategy: TypeAlias = Callable[[Pool, Pressure], Worth]


def draw(pool: Pool, pressure: Pressure) -> Floats:
    """A lot for every group; the same for the same seed and epoch."""
    return np.random.default_rng([pressure.seed, pressure.epoch]).random(len(pool.group))


def least_worth_first(pool: Pool, worth: Worth, pressure: Pressure) -> dict[OperatorId, tuple[int, ...]]:
    """Take groups in the order of their worth until the bytes that are needed are free."""
    idle = np.zeros(len(pool.group), dtype=bool)
    if pressure.inactive_epochs is not None:
        idle = pressure.epoch - pool.gather(lambda each: each.statistics.last_use) >= pressure.inactive_epochs
    order = np.lexsort((draw(pool, pressure), worth, ~idle))
    freed_before = np.cumsum(pool.live_bytes[order]) - pool.live_bytes[order]
    taken = order[freed_before < pressure.need_bytes]
    return {
        candidate.operator: tuple(sorted(pool.group[taken][pool.place[taken] == number].tolist()))
        for number, candidate in enumerate(pool.candidates)
    }
