"""Which rows of a group are its latest ones.

Rows of one time count all or not at all, so that it does not matter how they came: of the last ``rows``, all those
count that fewer rows of the group are later than (SQL's ``RANK() <= rows``, or ``WITH TIES``). A range of time ends
with the group's latest row, which is in it: it is ``(latest - time, latest]``.

A row that is not among the latest of some rows is not among those of more, so it can go whenever rows are brought
together, whichever they are.
"""

import numpy as np
import numpy.typing as npt

from watersmeet.model.query import History
from watersmeet.operators.ranges import Index


def latest(history: History, groups: Index, times: Index, counts: Index) -> Index:
    """The numbers of the rows that count, group by group and then by time; a row stands for ``counts`` of them.

    >>> groups, times = np.array([0, 0, 0, 0, 1]), np.array([7, 5, 7, 3, 1])
    >>> latest(History(rows=1), groups, times, np.ones(5, np.int64)).tolist()
    [0, 2, 4]
    >>> latest(History(rows=3), groups, times, np.ones(5, np.int64)).tolist()
    [1, 0, 2, 4]
    >>> latest(History(time_us=4), groups, times, np.ones(5, np.int64)).tolist()
    [1, 0, 2, 4]
    """
    if not len(groups):
        return groups
    order: Index = np.lexsort((times, groups))
    own, moments = groups[order], times[order]
    last = _lasts(np.diff(own) != 0)
    if history.rows is None:
        return order[moments[last] - moments < (history.time_us or 0)]
    so_far = np.cumsum(counts[order])
    later = so_far[last] - so_far[_lasts((np.diff(own) != 0) | (np.diff(moments) != 0))]
    return order[later < history.rows]


def numbered(groups: Index, times: Index) -> Index:
    """A number for each pair of a group and a time, of rows that are in their order.

    >>> numbered(np.array([0, 0, 1, 1]), np.array([3, 3, 3, 4])).tolist()
    [0, 0, 1, 2]
    """
    is_next = (np.diff(groups) != 0) | (np.diff(times) != 0)
    return np.concatenate([[0], np.cumsum(is_next)]) if len(groups) else groups


def _lasts(ends: npt.NDArray[np.bool_]) -> Index:
    """For each row the number of the last one before an end; the last row of all is one."""
    places = np.append(np.flatnonzero(ends), len(ends))
    return np.repeat(places, np.diff(places, prepend=-1))
