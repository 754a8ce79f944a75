"""Whether the data have changed, and how much of what was known still counts.

Rates age slowly (`watersmeet.adapt.statistics`), since a group yields few results in an epoch and chance has a large
part in them. After a change that is too slow. A single group cannot tell a change from chance in time; all groups of an
operator together can:

1. What a group yields is compared with what its rate lets expect, in standard deviations. Besides, all expectations are
   scaled by what the operator yields in all, and the better fit counts: it is the *pattern* over the groups that
   strategies go by, and the whole may rise and fall with what comes from below.
2. The mean square of it, each group's limited to `SURPRISE_MAX` so that no single one can raise an alarm, is how many
   times as far off as usual the epoch is: about 1, whatever the data, while they are settled.
3. From `CHANGE_FROM` times on, the past counts less, and soon nothing: a sixth at three times, a sixtieth at four.
   After a change what was known is no better than nothing known, and keeps the new from being seen. All operators of
   a query forget as much as the one that was surprised most. Streams change together as a rule, and an operator with
   few results is told by the others.

The past loses its weight, and nothing else: until results come in, a group is taken for what it was.
"""

from collections.abc import Sequence

import numpy as np

from watersmeet.adapt.statistics import Floats, Observation, Statistics, exposure

SURPRISE_MAX = 9.0
"""Three standard deviations: of settled data, beyond that is one group in hundreds."""

CHANGE_FROM = 2.4
"""Settled data seldom go up to this; a little beyond where few groups tell, or all are equal."""

STEEPNESS = 8
"""With which power the past loses its weight beyond that."""

GROUPS_MIN = 10
"""So many groups have to tell; the mean of fewer is chance."""


def learn(known: Sequence[Statistics], seen: Sequence[Observation], epoch: int) -> list[Statistics]:
    """Take in an epoch of all operators of a query."""
    furthest = max((surprise(*each) for each in zip(known, seen, strict=True)), default=0.0)
    trust = (CHANGE_FROM / max(furthest, CHANGE_FROM)) ** STEEPNESS
    return [each.after(told, epoch, trust) for each, told in zip(known, seen, strict=True)]


def surprise(known: Statistics, seen: Observation) -> float:
    """How many times as far off as usual an operator's epoch is; 0 where too few groups tell.

    >>> known = Statistics.cold(groups=20)
    >>> as_ever = Observation(np.full(20, 2048.0), np.full(20, 50.0), np.zeros(20), np.zeros(20))
    >>> known = known.after(as_ever, epoch=1).without(np.full(20, True))
    >>> surprise(known, as_ever)
    0.0
    >>> dealt_anew = Observation(np.full(20, 2048.0), np.tile([20.0, 80.0], 10), np.zeros(20), np.zeros(20))
    >>> surprise(known, dealt_anew)
    9.0
    """
    live = known.live_by_input
    exposed = exposure(live + known.arrivals_in(seen)) - exposure(live)
    expected = known.expected(exposed)
    told = expected >= 1
    if int(told.sum()) < GROUPS_MIN:
        return 0.0
    results, expected = seen.local_output[told], expected[told]
    per_result = known.dispersion * (1 + exposed[told] / known.aged_exposure[told])
    in_pattern = expected * (results.sum() / expected.sum())
    return min(_off(results, each, per_result) for each in (expected, in_pattern))


def _off(results: Floats, expected: Floats, per_result: Floats) -> float:
    """The mean square of how far results are off, in standard deviations; ``per_result`` is the variance of one."""
    usual = np.maximum(expected, 1.0) * per_result
    return float(np.minimum((results - expected) ** 2 / usual, SURPRISE_MAX).mean())
