"""When results are missing: which groups to clean next, and how much at a time (Spill 4.2).

1. A group has results missing if it has more than one generation. How many can be told from the sizes: of the
   combinations of all its rows, those within a generation were joined already. What part of the rest are results is
   taken from what the group has yielded so far (`watersmeet.adapt.statistics`).
2. While the query runs, the groups that promise most results for the bytes that must be read come first, of whatever
   operator. At the end operators are cleaned bottom-up, as missing results of one are rows to the next.
3. A step cleans groups of one operator, as many as have about ``read_bytes`` to read, at least one. Between steps the
   query may go on with its input, so a step is what the sites can clean in `SLICE_TARGET_S`, going by the last one; at
   the end there is nothing to wait for. What an operator below the root misses becomes live state of the next one, so
   no more is taken on than the budget is expected to hold; at the end it is only stored there. All groups of a step are
   cleaned, however many results they turn out to have, so that a step that is repeated has the same results.
4. A step's groups are dealt out to all sites, about the same bytes each: neighbours together at the end, where the
   order of promise no longer matters and files are best read from front to back.
5. A cleaned group may be live again if the budget has room for it without bringing on the next spill; else it stays on
   disk, as one closed generation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.statistics import Floats, exposure
from watersmeet.model.ids import OperatorId
from watersmeet.state.manifest import Cleaning

SLICE_TARGET_S = 0.5
SLICE_FIRST_BYTES = 4 << 20
SLICE_LEAST_BYTES = 1 << 20
SLICE_MOST_BYTES = 256 << 20
RESULT_BYTES = 64
"""What an intermediate result is taken to need in the state above, before it is seen."""

GATHER_BYTES = 32 << 20
GATHER_LEAST_BYTES = 1 << 16
GATHER_COPIES = 4
"""Rows brought together are there as copied out of their runs, put together, and in order; and their numbers beside."""


@dataclass(frozen=True)
class Allowance:
    """What a step may take: bytes to read, results to expect, and bytes of rows brought together at a site."""

    read_bytes: int
    results: float
    gather_bytes: int


def allowance(slice_bytes: int | None, budget_bytes: int | None, *, is_root: bool) -> Allowance:
    """What a step may take, in slices while the query runs (None: at the end).

    >>> allowance(4 << 20, 1 << 20, is_root=False)
    Allowance(read_bytes=4194304, results=16384.0, gather_bytes=262144)
    """
    budget = budget_bytes or SLICE_MOST_BYTES
    read = SLICE_MOST_BYTES if slice_bytes is None else slice_bytes
    results = float("inf") if is_root or slice_bytes is None else budget / RESULT_BYTES
    return Allowance(read, results, max(GATHER_LEAST_BYTES, min(GATHER_BYTES, budget // GATHER_COPIES)))


@dataclass(frozen=True)
class Dirty:
    """The groups of one operator that have results missing: bytes of all generations, and results to be expected."""

    operator: OperatorId
    groups: tuple[int, ...]
    read_bytes: Floats
    promise: Floats


def expected_missing(by_generation: Mapping[int, Floats], results_per_exposure: Floats) -> Floats:
    """How many results each group may be missing, given the bytes ``[input, group]`` of its generations.

    >>> one, other = np.array([[1024.0], [1024.0]]), np.array([[2048.0], [1024.0]])
    >>> expected_missing({0: one, 7: other}, np.array([10.0])).tolist()
    [30.0]
    """
    together = np.sum(list(by_generation.values()), axis=0)
    within = np.sum([exposure(each) for each in by_generation.values()], axis=0)
    missing: Floats = (exposure(together) - within) * results_per_exposure
    return missing


def choose(
    dirty: Sequence[Dirty], allowances: Mapping[OperatorId, Allowance], *, at_end: bool = False
) -> Cleaning | None:
    """The next step: the most promising groups of the operator that has the most promising one."""
    worth = {each.operator: each.promise / np.maximum(each.read_bytes, 1.0) for each in dirty if each.groups}
    if not worth:
        return None
    best = max((each for each in dirty if each.groups), key=lambda each: float(worth[each.operator].max()))
    allowed = allowances[best.operator]
    order = np.arange(len(best.groups)) if at_end else np.argsort(-worth[best.operator], kind="stable")
    fits = (_before(best.read_bytes[order]) < allowed.read_bytes) & (_before(best.promise[order]) < allowed.results)
    taken = tuple(best.groups[number] for number in order[fits].tolist())
    reason = f"results of {len(taken)} spilled groups of {best.operator} were missing"
    return Cleaning(best.operator, taken, allowed.gather_bytes, at_end, reason)


def _before(amounts: Floats) -> Floats:
    """What comes before each item: nothing before the first, so at least one is taken."""
    sums: Floats = np.cumsum(amounts) - amounts
    return sums


def deal(step: Cleaning, sizes: Mapping[int, float], sites: int) -> list[tuple[int, ...]]:
    """Groups for every site, in the order of the step.

    >>> sizes = {1: 20.0, 3: 30.0, 5: 10.0}
    >>> deal(Cleaning(OperatorId("join1"), (5, 3, 1), 0), sizes, 2)
    [(3,), (5, 1)]
    >>> deal(Cleaning(OperatorId("join1"), (1, 3, 5), 0, at_end=True), sizes, 2)
    [(1,), (3, 5)]
    """
    weights = {group: max(1.0, sizes.get(group, 0.0)) for group in step.groups}
    site_of = _in_ranges(weights, sites) if step.at_end else _largest_first(weights, sites)
    return [tuple(group for group in step.groups if site_of[group] == site) for site in range(sites)]


def _largest_first(weights: Mapping[int, float], sites: int) -> dict[int, int]:
    """Each to the site that has least to do."""
    load, site_of = [0.0] * sites, {}
    for group in sorted(weights, key=lambda each: -weights[each]):
        site_of[group] = load.index(min(load))
        load[site_of[group]] += weights[group]
    return site_of


def _in_ranges(weights: Mapping[int, float], sites: int) -> dict[int, int]:
    """Neighbours together: a group goes where the middle of its bytes lies."""
    total, before, site_of = sum(weights.values()), 0.0, {}
    for group, weight in weights.items():
        site_of[group] = min(sites - 1, int((before + weight / 2) / total * sites))
        before += weight
    return site_of


def next_slice(read_bytes: int, seconds: float) -> int:
    """How much to clean next time, from what the last step read in what time.

    >>> next_slice(64 << 20, 2.0) == 16 << 20
    True
    """
    target = read_bytes / max(seconds, 1e-3) * SLICE_TARGET_S
    return int(min(max(target, SLICE_LEAST_BYTES), SLICE_MOST_BYTES))


def fits_again(sizes: Mapping[int, float], room_bytes: float) -> frozenset[int]:
    """The cleaned groups that may be live again: the first ones that fit.

    >>> sorted(fits_again({4: 10.0, 2: 50.0, 9: 30.0}, 45.0))
    [4, 9]
    """
    chosen, left = set(), room_bytes
    for group, size in sizes.items():
        if size <= left:
            chosen.add(group)
            left -= size
    return frozenset(chosen)
