"""Workload smoothing by count (PSP, section 6): every site of a ring stores about as many rows.

The paper bounds the rows of a slice, so that a burst is passed on to the next node. Here moments are spread by their
hashes, so bursts are level by themselves, unless many rows have the same moment: times in whole minutes, a pause in
which only few come. Then sites that store too many rows give groups to those that store fewest. Only the sites that the
ring has take part; how many these are is another question (`length`).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from watersmeet.model.ids import SiteId

TOLERANCE = 0.2
"""A site may store so much more than its part. Below it, a move costs more than it gains."""


def smoothed(routing: Sequence[SiteId], rows: npt.NDArray[np.int64]) -> list[SiteId] | None:
    """A routing under which sites are level; None if they are, or if no group is small enough to help.

    >>> smoothed([0, 0, 0, 1], np.array([40, 10, 30, 20]))
    [0, 0, 1, 1]
    >>> smoothed([0, 0, 1, 1], np.array([40, 10, 30, 20])) is None
    True
    >>> smoothed([0, 1], np.array([90, 10])) is None
    True
    """
    sites = sorted(set(routing))
    places = np.array(routing, dtype=np.int64)
    held = np.bincount(places, weights=rows, minlength=max(sites) + 1)
    is_level = True
    while held[sites].max() > (1 + TOLERANCE) * held[sites].mean():
        fullest, emptiest = (sites[int(pick(held[sites]))] for pick in (np.argmax, np.argmin))
        gap = held[fullest] - held[emptiest]
        able = np.flatnonzero((places == fullest) & (rows > 0) & (rows < gap))
        if not len(able):
            break
        group = able[np.argmin(np.abs(rows[able] - gap / 2))]
        places[group], is_level = emptiest, False
        held[fullest] -= rows[group]
        held[emptiest] += rows[group]
    return None if is_level else [SiteId(site) for site in places.tolist()]
