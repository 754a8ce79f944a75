"""Partition groups: the hash space cut into equal ranges.

A row's *hash* is Spark's ``xxhash64`` of its join key, read as an unsigned 64-bit number. Its group is
``((hash >> 32) * groups) >> 32``: monotone in the hash, so rows sorted by hash lie group by group, a group of a run is
one contiguous range, and a narrower range of hashes is a part of a group. `watersmeet.engine.split` has the same
definition as a Spark expression; a test holds the two together.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Ranges = tuple[tuple[int, int], ...]

_SHIFT = np.uint64(32)
MAX_GROUPS = 1 << 16


def group_of(hashes: Hashes, groups: int) -> npt.NDArray[np.int64]:
    """The partition group of each hash.

    >>> group_of(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 300).tolist()
    [0, 150, 299]
    """
    return (((hashes >> _SHIFT) * np.uint64(groups)) >> _SHIFT).astype(np.int64)


def first_hash(group: int, groups: int) -> int:
    """The smallest hash of a group; of ``groups`` itself, one past the largest hash there is.

    >>> first_hash(150, 300) == 2**63
    True
    """
    return -((-group << 32) // groups) << 32


def row_range(hashes: Hashes, start: int, stop: int, groups: int) -> tuple[int, int]:
    """Where the rows of groups ``start`` to ``stop`` (half-open) lie among sorted hashes."""
    low = int(np.searchsorted(hashes, np.uint64(first_hash(start, groups))))
    if stop >= groups:
        return low, len(hashes)
    return low, int(np.searchsorted(hashes, np.uint64(first_hash(stop, groups))))


def group_offsets(hashes: Hashes, groups: int) -> npt.NDArray[np.int64]:
    """Where each group starts among sorted hashes, with the number of rows at the end."""
    return np.append(np.searchsorted(hashes, _starts(groups)), len(hashes)).astype(np.int64)


@lru_cache(maxsize=8)
def _starts(groups: int) -> Hashes:
    return np.array([first_hash(group, groups) for group in range(groups)], dtype=np.uint64)


def to_ranges(groups: Iterable[int]) -> Ranges:
    """Groups as sorted half-open ranges.

    >>> to_ranges([3, 1, 2, 7])
    ((1, 4), (7, 8))
    """
    ranges: list[tuple[int, int]] = []
    for group in sorted(set(groups)):
        if ranges and ranges[-1][1] == group:
            ranges[-1] = (ranges[-1][0], group + 1)
        else:
            ranges.append((group, group + 1))
    return tuple(ranges)


@lru_cache(maxsize=1 << 10)
def members(ranges: Ranges) -> frozenset[int]:
    """The groups of half-open ranges.

    >>> sorted(members(((1, 4), (7, 8))))
    [1, 2, 3, 7]
    """
    return frozenset(group for start, stop in ranges for group in range(start, stop))


@lru_cache(maxsize=1 << 10)
def groups_at(routing: tuple[int, ...], site: int) -> frozenset[int]:
    """The groups a routing table sends to a site.

    >>> sorted(groups_at((0, 1, 0), 0))
    [0, 2]
    """
    return frozenset(group for group, routed in enumerate(routing) if routed == site)
