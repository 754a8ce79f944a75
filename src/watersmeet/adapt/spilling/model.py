"""A model of the query's near future, made of what its statistics say.

All that is known of an operator's group is turned into four numbers and its arrivals (`Facts`):

1. *rate*: results for an exposure (see `watersmeet.adapt.statistics`), shrunk towards the mean of its groups by
   `prior_results`, so that a group of which little is known is taken for an average one;
2. *merit* and *burden*: how many final results, and how many stored bytes downstream, one of its results brings, as a
   multiple of what the operator's results bring on average. With independent selectivities both are 1, and what is
   counted differs by chance alone (`fates`); a group that fans out and is filtered later has a small merit;
3. *arrivals* by input. Streams go on as they did lately. What an operator below sends is not looked up but computed
   from its own state, since it grows with that state, and stops when it is spilled.

A query is then a function of its state, the product of all that is live. ``forecast`` runs it forwards, from the
streams to the root; ``prices`` runs it backwards, from the root down: what is one more row of this operator's results
worth, in final results, and in bytes that have to be found downstream.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from watersmeet.adapt.spilling.candidates import Candidate
from watersmeet.adapt.spread import mean_rate
from watersmeet.adapt.statistics import EXPOSURE_UNIT_BYTES, Floats, Statistics, exposure

PRIOR_RESULTS_MAX = 1e6
"""Where groups do not differ, no number of results makes them."""

KEPT_AGEING = 0.9
"""A group just spilled is expected to be spilled the next time too; with every epoch that it is not, less so."""

PRIOR_ROWS = 3.0
"""As how many results the operator's mean counts in what becomes of a group's; there are many as a rule."""

CHANCE_VARIANCE = 0.1
"""Fates that are equal by nature seem to differ by a variance of 0.01 to 0.08; by nature it was 0.5 to 2.

So it was with a dozen rows or more that arrive at a group in an epoch. With fewer, chance may make more of a
difference, which is then believed, as if it were nature.
"""

DOUBTED_VARIANCE = 0.03
"""Of differences by nature with this variance, half is believed."""


@dataclass(frozen=True)
class Facts:
    """What the model takes for given of one operator; ``feeders`` are the inputs that come from operators below.

    ``shares`` says how what arrives at each input spreads over the groups, ``row_bytes`` what a row weighs there.
    """

    feeders: tuple[tuple[int, int], ...]
    rate: Floats
    merit: Floats
    burden: Floats
    mean_merit: float
    arrivals: Floats
    shares: Floats
    row_bytes: Floats


@dataclass(frozen=True)
class Live:
    """What one operator holds by input and group; ``good`` is as much of rows like those the rates were made from.

    It ``lasts`` for so many epochs on average (`watersmeet.adapt.spilling.lasting`).
    """

    size: Floats
    good: Floats
    kept: Floats
    lasts: Floats

    def plus(self, arrived: "Live") -> "Live":
        """An epoch later, with what arrived, and without what has ended."""
        left = np.maximum(1 - 0.5 / self.lasts, 0.0)
        kept = 1 - KEPT_AGEING * (1 - self.kept)
        return Live(self.size * left + arrived.size, self.good * left + arrived.good, kept, self.lasts)

    def without(self, gone: NDArray[np.bool_]) -> "Live":
        """With some groups spilled."""
        size, good, kept = (np.where(gone, 0.0, values) for values in (self.size, self.good, self.kept))
        return Live(size, good, kept, self.lasts)

    def within(self, epochs: float) -> "Live":
        """As much as there is of it on average within some epochs; it takes the bytes it takes now.

        >>> held = Live(*np.array([[8.0], [8.0], [1.0], [2.0]]))
        >>> [held.within(epochs).good.tolist() for epochs in (0.0, 4.0, 8.0)]
        [[8.0], [4.0], [2.0]]
        """
        part = np.where(epochs <= 2 * self.lasts, 1 - epochs / (4 * self.lasts), self.lasts / max(epochs, 1e-9))
        return replace(self, good=self.good * np.where(np.isinf(self.lasts), 1.0, part))


def facts_of(candidates: Sequence[Candidate]) -> list[Facts]:
    """Derive the facts; candidates are in the order of their levels, from the bottom up."""
    return [_facts(candidate, candidates) for candidate in candidates]


def live_of(candidate: Candidate) -> Live:
    """The state as it is, of all sites."""
    known = candidate.statistics
    lasts = np.full_like(known.live_by_input, np.inf) if candidate.lasts is None else candidate.lasts
    return Live(known.live_by_input, known.live_by_input, 1 - KEPT_AGEING**known.since_spill, lasts)


def forecast(facts: Sequence[Facts], live: Sequence[Live], epochs: float) -> tuple[list[Live], list[Floats]]:
    """What arrives at each operator within some epochs, and how many results each of its groups makes of it."""
    arrived: list[Live] = []
    results: list[Floats] = []
    for mine, state in zip(facts, live, strict=True):
        coming = _arriving(mine, state, epochs, facts, results)
        arrived.append(coming)
        results.append(mine.rate * (exposure(state.good + coming.good) - exposure(state.good)))
    return arrived, results


def prices(facts: Sequence[Facts], live: Sequence[Live], arrived: Sequence[Live]) -> tuple[list[float], list[float]]:
    """What one more result of each operator brings within the horizon: final results, and bytes that stay downstream.

    It meets whatever its operator above holds by then. Bytes that go to groups that are spilled each time anyway cost
    nothing: only the part that is usually kept counts.
    """
    value, cost = [1.0] * len(facts), [0.0] * len(facts)
    for above in reversed(range(len(facts))):
        mine, by_then = facts[above], live[above].good + arrived[above].good
        for place, below in mine.feeders:
            share, row = mine.shares[place], float(mine.row_bytes[place])
            met = mine.rate * exposure(np.delete(by_then, place, axis=0))
            made = row / EXPOSURE_UNIT_BYTES * float((share * met).sum())
            value[below] = made * value[above]
            cost[below] = row * float((share * live[above].kept).sum()) + made * cost[above]
    return value, cost


def _arriving(mine: Facts, state: Live, epochs: float, facts: Sequence[Facts], results: Sequence[Floats]) -> Live:
    size = mine.arrivals * epochs
    good = size.copy()
    for place, below in mine.feeders:
        feeder, rows = facts[below], float(results[below].sum())
        size[place] = mine.shares[place] * rows * mine.row_bytes[place]
        merit = float((results[below] * feeder.merit).sum()) / rows if rows > 0 else feeder.mean_merit
        good[place] = size[place] * (merit / feeder.mean_merit)
    return Live(size, good, state.kept, state.lasts)


def _facts(candidate: Candidate, candidates: Sequence[Candidate]) -> Facts:
    known = candidate.statistics
    feeders = _feeders(candidate, candidates)
    got = known.aged_bytes.sum(axis=1, keepdims=True)
    row_bytes = np.zeros(known.inputs)
    for place, below in feeders:
        row_bytes[place] = _ratio(float(got[place, 0]), float(candidates[below].statistics.aged_made[0]))
    merit = fates(known.settled_global, known.settled_local)
    return Facts(
        feeders,
        _rate(known),
        merit,
        fates(known.settled_inter, known.settled_local),
        _ratio(float((known.aged_local * merit).sum()), float(known.aged_local.sum())) or 1.0,
        known.arrival_by_input,
        known.aged_bytes / np.maximum(got, 1e-9),
        row_bytes,
    )


def _feeders(candidate: Candidate, candidates: Sequence[Candidate]) -> tuple[tuple[int, int], ...]:
    """Which input comes from which candidate."""
    numbers = {each.operator: number for number, each in enumerate(candidates)}
    if candidate.fed_by:
        return tuple((place, numbers[name]) for place, name in enumerate(candidate.fed_by) if name is not None)
    below = [number for number, each in enumerate(candidates) if each.parent == candidate.operator]
    return tuple(enumerate(below, start=candidate.statistics.inputs - len(below)))


def _rate(known: Statistics) -> Floats:
    if known.aged_local[known.aged_exposure > 0].sum() <= 0:
        return np.zeros_like(known.aged_local)
    mean = mean_rate(known.aged_exposure, known.aged_local, known.dispersion, known.spread)
    prior = prior_results(known)
    return (known.aged_local + prior) / (known.aged_exposure + prior / mean)


def prior_results(known: Statistics) -> float:
    """As how many results of a group's own the operator's mean counts.

    The less groups differ by nature, the more a group is taken for an average one.
    """
    return min(known.dispersion / max(known.spread, 1e-9), PRIOR_RESULTS_MAX)


def fates(brought: Floats, rows: Floats) -> Floats:
    """What a group's rows bring, as a multiple of the mean; 1 for all where chance is enough to explain it.

    A single row may bring many results again and again, so chance makes large differences, and to act on them is worse
    than to take all groups for equal.

    >>> fates(np.array([80.0, 110.0]), np.array([100.0, 100.0])).round(2).tolist()
    [1.0, 1.0]
    >>> fates(np.array([10.0, 190.0]), np.array([100.0, 100.0])).round(2).tolist()
    [0.16, 1.84]
    """
    mean = _ratio(float(brought.sum()), float(rows.sum()))
    if mean == 0:
        return np.ones_like(rows)
    found = (brought / mean + PRIOR_ROWS) / (rows + PRIOR_ROWS)
    seen = float((rows * (found - 1) ** 2).sum() / rows.sum())
    by_nature = max(seen - CHANCE_VARIANCE, 0.0)
    told: Floats = 1 + (found - 1) * (by_nature / (by_nature + DOUBTED_VARIANCE))
    return told


def _ratio(over: float, under: float) -> float:
    return over / under if under > 0 else 0.0
