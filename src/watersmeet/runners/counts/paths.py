"""All paths a workload can have: which carrier rows meet, and from which epoch on.

1. A level without one below has a path for every row of its carrier, or for every key where it has none.
2. A level above continues the paths below: each meets the carrier rows whose key it carries, or goes on by itself.
3. Paths are sorted by the epoch in which the last of their carriers arrives, so that those an epoch is concerned with
   are the first so many.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from watersmeet.runners.counts.hashing import key_group
from watersmeet.runners.counts.streams import Ints, Level

GroupOf = Callable[[Ints, int], Ints]
"""The group of each key, of so many."""


@dataclass(frozen=True)
class Paths:
    """The paths of a level: the path below, the carrier row and the key of each, and its groups at all levels so far.

    By epoch e, the first ``until[e]`` of them can exist.
    """

    below: Ints
    carrier: Ints
    key: Ints
    groups: tuple[Ints, ...]
    begin: Ints
    until: Ints


def number_keys(
    levels: Sequence[Level], groups: int, group_of: GroupOf = key_group
) -> tuple[tuple[Level, ...], tuple[Ints, ...]]:
    """Number the keys of every level from 0, and give the group of each."""
    numbered, key_groups, below = [], [], np.empty(0, dtype=np.int64)
    for level in levels:
        keys = np.unique(np.concatenate([below, *(stream.key for stream in level.streams)]))
        numbered.append(_with_keys(level, keys))
        if level_below := numbered[-2:-1]:
            numbered[-2] = _with_next_keys(level_below[0], keys)
        key_groups.append(group_of(keys, groups))
        below = level.carrier.next_key if level.carrier else below[:0]
    return tuple(numbered), tuple(key_groups)


def find_paths(levels: Sequence[Level], key_groups: Sequence[Ints], epochs: int) -> tuple[Paths, ...]:
    """Find the paths of all levels, from the bottom up; the levels' keys are numbered."""
    found: list[Paths] = []
    for number, level in enumerate(levels):
        rows_below = levels[number - 1].carrier if found else None
        below = found[-1] if found else None
        if below is None or rows_below is None:
            paths = _first(level, len(key_groups[number]))
        else:
            paths = _continued(level, below, rows_below.next_key[below.carrier])
        found.append(_sorted(replace(paths, groups=(*paths.groups, key_groups[number][paths.key])), epochs))
    return tuple(found)


def _first(level: Level, keys: int) -> Paths:
    if level.carrier is None:
        each = np.arange(keys)
        return Paths(each, each, each, (), np.zeros_like(each), each)
    each = np.arange(len(level.carrier.key))
    return Paths(each, each, level.carrier.key, (), level.carrier.epoch, each)


def _continued(level: Level, below: Paths, key: Ints) -> Paths:
    if level.carrier is None:
        each = np.arange(len(key))
        return Paths(each, each, key, below.groups, below.begin, each)
    path, row = _matches(key, level.carrier.key)
    begin = np.maximum(below.begin[path], level.carrier.epoch[row])
    return Paths(path, row, key[path], tuple(group[path] for group in below.groups), begin, row)


def _matches(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Where equal keys are on either side: one pair for every match.

    >>> [side.tolist() for side in _matches(np.array([7, 8, 9]), np.array([9, 7, 9]))]
    [[0, 2, 2], [1, 0, 2]]
    """
    order = np.argsort(right, kind="stable")
    first, last = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    times = last - first
    left_rows = np.repeat(np.arange(len(left)), times)
    rank = np.arange(len(left_rows)) - np.repeat(np.cumsum(times) - times, times)
    return left_rows, order[np.repeat(first, times) + rank]


def _sorted(paths: Paths, epochs: int) -> Paths:
    order = np.argsort(paths.begin, kind="stable")
    begin = paths.begin[order]
    return Paths(
        paths.below[order],
        paths.carrier[order],
        paths.key[order],
        tuple(group[order] for group in paths.groups),
        begin,
        np.searchsorted(begin, np.arange(epochs), "right"),
    )


def _with_keys(level: Level, keys: Ints) -> Level:
    plain = tuple(replace(stream, key=np.searchsorted(keys, stream.key)) for stream in level.plain)
    carrier = level.carrier and replace(level.carrier, key=np.searchsorted(keys, level.carrier.key))
    return Level(plain, carrier)


def _with_next_keys(level: Level, keys: Ints) -> Level:
    carrier = level.carrier and replace(level.carrier, next_key=np.searchsorted(keys, level.carrier.next_key))
    return Level(level.plain, carrier)
