"""When the rows of a run end, and those of each of its groups, so that a group that is over goes before the run does.

A group of a ring is a set of moments, so the rows that a run has of one end at about the same time, or at a few times.
What a group ends by is told in steps of the run's own span, rounded up: a group never goes too early, and goes at most
a step too late. A group is at one site, and a run has the rows of one epoch, or of few: so what goes when does not
depend on how many sites there are.
"""

import numpy as np
import numpy.typing as npt

from watersmeet.model.plan import Input, Life
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import RunFile
from watersmeet.state.vectors import Vector

STEPS = 1000
"""A group's end takes a byte or two in the manifest."""

FOREVER = (1 << 63) - 1
"""The end of rows that nothing can come for any more, whatever time they have."""

Numbers = npt.NDArray[np.int64]


def ends(run: RunFile, life: Life) -> tuple[int, int] | None:
    """The least and the greatest value of a run's last column."""
    return bounds_of(run, life.last.name)


def bounds_of(run: RunFile, column: str) -> tuple[int, int] | None:
    """The least and the greatest value of a column, if the run tells them."""
    bounds = run.bounds.get(column)
    if bounds is None or not isinstance(bounds.least, int) or not isinstance(bounds.most, int):
        return None
    return bounds.least, bounds.most


def last_bounds(run: RunFile, source: Input) -> tuple[int, int] | None:
    """Those of the last column of an input's rows, if they end by a time."""
    return None if source.life is None else ends(run, source.life)


def group_ends(times: Numbers, counts: Numbers) -> Vector:
    """When the last row of each group ends; rows lie group by group, and every group has some.

    >>> group_ends(np.array([1000, 3000, 1500, 1001]), np.array([2, 1, 1])).array.tolist()
    [1000, 250, 1]
    """
    if not len(times):
        return Vector()
    last = np.maximum.reduceat(times, np.cumsum(counts) - counts)
    least, step = int(times.min()), _step(int(times.min()), int(times.max()))
    return Vector.of([-((least - each) // step) for each in last.tolist()], "<u4")


def ended_groups(run: RunFile, column: str, limit: int) -> GroupSet:
    """The groups of a run whose rows have all ended by a limit; none where the run does not tell.

    >>> from watersmeet.state.manifest import Bounds
    >>> ends = Vector.of([1000, 250, 1], "<u4")
    >>> held, bounds = GroupSet.of([2, 5, 7]), {"A.ts": Bounds(1000, 3000)}
    >>> ended_groups(RunFile("r", "r", "join1", "A", held, 4, 99, 0, bounds=bounds, group_ends=ends), "A.ts", 1500)
    GroupSet.of([5, 7])
    """
    bounds = bounds_of(run, column)
    if bounds is None or not run.group_ends:
        return GroupSet()
    passed = (limit - bounds[0]) // _step(*bounds)
    if passed < 0:
        return GroupSet()
    mask = np.zeros(run.groups.bits.bit_length(), np.bool_)
    mask[run.groups.numbers[run.group_ends.array <= min(passed, STEPS)]] = True
    return GroupSet.within(mask)


def _step(least: int, most: int) -> int:
    """So many units of time are a step of a span."""
    return max(1, -((least - most) // STEPS))
