"""Which rows of a ring have met: generations where every row meets those of all groups.

A join's rows meet only rows of their own group, so a group's results are complete among the rows of one generation. A
row of a ring meets all rows of the other input, whatever their groups, and these are spilled at different times. So
what two rows have missed does not follow from their groups, but from when they came and when they were closed:

- A slice is *since* the last version before its rows came, and was *closed* by a version, or is live.
- Two rows have met if each was live when the other came: neither was closed by the time the other one is since. New
  rows of one step always meet, as a step closes groups after it has joined.
- Otherwise the row that was closed first was on disk when the other one came. Exactly one of the two is the first.

A group of a ring has results missing if some of its rows were closed first. Cleaning some groups yields all pairs with
a row of theirs that have not met, whatever the group of the other one: that of the first row, if its group is cleaned
in the step, finds a pair, else that of the second (`watersmeet.site.ring_cleaning`). Then the rows of these groups have
met all there is, and are since the beginning: version 0. Thus later steps find nothing twice.

Results that a cleanup sends up to a ring are joined at once, also at the end, where other joins only store them: rows
that have met nothing, not even what is live, have no age. What matters of a version that rows are since is only what
was closed by then and still is: slices that differ in nothing else become alike (`normal`), and may be merged.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from watersmeet.state.groups import GroupSet

NEVER = (1 << 63) - 1
"""When live rows are closed."""


class Age(NamedTuple):
    """When rows came, and when they were closed."""

    closed: int
    since: int


Aged = dict[Age, GroupSet]
"""The groups of one input by the ages of their rows."""


def have_met(one: Age, other: Age) -> bool:
    """Whether rows of two ages were joined as they came, or when groups were cleaned.

    >>> closed, later, earlier = Age(5, 0), Age(NEVER, 5), Age(NEVER, 4)
    >>> have_met(closed, later), have_met(closed, earlier), have_met(later, Age(7, 5))
    (False, True, True)
    """
    return one.closed > other.since and other.closed > one.since


def is_first(one: Age, other: Age) -> bool:
    """Of two ages that have not met, whether the one was closed first."""
    return one.closed < other.closed


def closed_first(inputs: Sequence[Aged]) -> GroupSet:
    """The groups that have rows which were closed before others came.

    >>> closed_first([{Age(5, 0): GroupSet.of([1])}, {Age(NEVER, 5): GroupSet.of([2])}])
    GroupSet.of([1])
    """
    return GroupSet.union(
        one if is_first(age, later) else other for age, one, later, other in _pairs(*inputs) if not have_met(age, later)
    )


def waiting(inputs: Sequence[Aged]) -> GroupSet:
    """The groups that have rows which have not met all others.

    >>> waiting([{Age(5, 0): GroupSet.of([1])}, {Age(NEVER, 5): GroupSet.of([2])}])
    GroupSet.of([1, 2])
    """
    return GroupSet.union(one | other for age, one, later, other in _pairs(*inputs) if not have_met(age, later))


def normal(since: int, closings: Iterable[int]) -> int:
    """The least version that rows could be since, for the same to be closed by then.

    >>> normal(7, [3, 5, 9]), normal(2, [3, 5])
    (5, 0)
    """
    return max((version for version in closings if version <= since), default=0)


def _pairs(
    first: Mapping[Age, GroupSet], second: Mapping[Age, GroupSet]
) -> Iterable[tuple[Age, GroupSet, Age, GroupSet]]:
    return ((age, one, later, other) for age, one in first.items() for later, other in second.items())
