"""How a ring's groups get to other sites when its length changes (PSP, section 6).

- ``aggressive``: all at once. An epoch boundary is a moment at which nothing is under way, so there is nothing to
  suspend. But the sites read all that they have not held before in the next epoch.
- ``passive``: step by step, over `STEPS` epochs. In the paper only new rows go by the new ranges, and old ones end
  where they are. Here groups are sets of moments, so a group nearly always has some rows; those with the fewest go
  first, and empty ones at once. Each epoch reads a part of what moves.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.state.changes import MoveGroups
from watersmeet.state.groups import GroupSet

Relocation = Literal["aggressive", "passive"]
Routing = Sequence[SiteId]
Rows = npt.NDArray[np.int64]

STEPS = 8


def next_groups(now: Routing, target: Routing, rows: Rows, relocation: Relocation) -> list[int]:
    """The groups that go in this epoch; ``rows`` are those that each has.

    >>> rows = np.array([5, 0, 2, 9])
    >>> next_groups([0, 0, 0, 0], [1, 1, 1, 0], rows, "aggressive")
    [0, 1, 2]
    >>> next_groups([0, 0, 0, 0], [1, 1, 1, 0], rows, "passive")
    [1, 2]
    """
    waiting = [group for group, (old, new) in enumerate(zip(now, target, strict=True)) if old != new]
    if relocation == "aggressive":
        return waiting
    fewest = sorted(waiting, key=lambda group: (int(rows[group]), group))
    empty = sum(int(rows[group]) == 0 for group in waiting)
    return sorted(fewest[: empty + -(-len(rows) // STEPS)])


def moves(
    operator: OperatorId, groups: Sequence[int], now: Routing, target: Routing, policy: str, reason: str
) -> Iterator[MoveGroups]:
    """A change for each pair of sites."""
    pairs: dict[tuple[SiteId, SiteId], list[int]] = {}
    for group in groups:
        pairs.setdefault((now[group], target[group]), []).append(group)
    for (old, new), numbers in pairs.items():
        yield MoveGroups(operator, GroupSet.of(numbers), old, new, policy, reason=reason)
