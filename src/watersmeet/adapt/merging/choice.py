"""Which runs to merge: a size-tiered LSM tree.

A run of ``b`` bytes is in tier ``log8(b / 4 KiB)``. When an input has `FAN_IN` runs in one tier at a site they become
one, which is then in the next tier. Every row is rewritten at most once a tier, and the number of runs a probe visits
grows with the logarithm of the state, up to `MERGED_LIMIT_BYTES`. Runs that would together exceed that are left alone,
as a merge holds its result in memory: beyond it, an input has another run for every 32 to 256 MiB at a site.

What a closed generation holds of an input lies in all the runs that were live when it was closed, and keeps them from
being deleted. It does not grow any more, so it is merged at once, small runs with large ones, as long as four of them
stay below a limit; the number of runs follows that of generations.

Rows that end are kept apart by age (time-window compaction), so that a run ends as a whole and is dropped unread: the
time until the last row ends is cut into `AGES` parts, and only runs of one part are merged. An older part gets no rows
any more, and soon becomes one run. A run most of whose rows have ended is written anew without them.
"""

from collections.abc import Mapping
from itertools import accumulate

from watersmeet.adapt.policy import REWRITE_AT
from watersmeet.model.ids import RunId

FAN_IN = 8
CLOSED_FAN_IN = 4
SETTLED_FAN_IN = 3
AGES = 8
NEVER = (1 << 63) - 1
TIER_BASE_BYTES = 4 << 10
MERGED_LIMIT_BYTES = 256 << 20


def tier(size_bytes: int) -> int:
    """The tier of a run.

    >>> [tier(size) for size in (1, 4 << 10, 32 << 10, 1 << 20)]
    [0, 0, 1, 2]
    """
    return max(0, (max(1, size_bytes // TIER_BASE_BYTES).bit_length() - 1) // 3)


def choose(sizes: Mapping[RunId, int]) -> list[RunId]:
    """The live runs to merge now, by their bytes; none where there is nothing to gain.

    >>> choose({RunId(f"run{number}"): 100 for number in range(9)})[-1]
    'run7'
    >>> choose({RunId("run0"): 100})
    []
    """
    tiers: dict[int, list[RunId]] = {}
    for run, size in sizes.items():
        tiers.setdefault(tier(size), []).append(run)
    for _, runs in sorted(tiers.items()):
        chosen = sorted(runs, key=lambda run: (sizes[run], run))[:FAN_IN]
        if len(chosen) == FAN_IN and sum(sizes[run] for run in chosen) <= MERGED_LIMIT_BYTES:
            return chosen
    return []


def choose_by_age(
    sizes: Mapping[RunId, int],
    ends: Mapping[RunId, tuple[int, int]],
    limit: int | None,
    rewrite_at: float | None = REWRITE_AT["invalidation"],
) -> list[RunId]:
    """The live runs to merge now, by their bytes and by when their first and last rows end.

    A run is written anew if more than a part of its rows have ended.

    >>> ends = {RunId(f"run{number}"): (number, number + 5) for number in range(20)}
    >>> choose_by_age(dict.fromkeys(ends, 100), ends, limit=None)
    ['run0', 'run1', 'run2']
    >>> choose_by_age({RunId("run0"): 100, RunId("run1"): 100}, {RunId("run0"): (0, 9), RunId("run1"): (8, 9)}, limit=6)
    ['run0']
    """
    shares = {run: _ended_share(span, limit) for run, span in ends.items() if limit is not None}
    waning = [run for run, share in shares.items() if rewrite_at is not None and share > rewrite_at]
    if waning:
        return sorted(waning)[:FAN_IN]
    lasts = [last for _, last in ends.values()]
    newest, oldest = max(lasts), min(lasts) if limit is None else limit
    part = 1 << max(0, (newest - oldest) // AGES).bit_length()  # so that its bounds stay the same for long
    ages: dict[int, dict[RunId, int]] = {}
    for run, (_, last) in ends.items():
        ages.setdefault(last // part, {})[run] = sizes[run]
    for age, runs in sorted(ages.items()):
        is_filling = age >= newest // part - 1
        if not is_filling and len(runs) >= SETTLED_FAN_IN and sum(runs.values()) <= MERGED_LIMIT_BYTES:
            return sorted(runs)[:FAN_IN]
        chosen = choose(runs)
        if chosen:
            return chosen
    return []


def _ended_share(span: tuple[int, int], limit: int) -> float:
    """How many of a run's rows have ended, if they end evenly."""
    first, last = span
    return 0.0 if limit <= first else min(1.0, (limit - first) / max(1, last - first))


def choose_closed(sizes: Mapping[RunId, int], limit_bytes: int) -> list[RunId]:
    """The runs of a closed generation to merge now: as many as the limit allows, if they are many.

    >>> sizes = {RunId("a"): 700, RunId("b"): 10, RunId("c"): 20, RunId("d"): 30, RunId("e"): 40}
    >>> choose_closed(sizes, 100), choose_closed(sizes, 30)
    (['b', 'c', 'd', 'e'], [])
    """
    smallest = sorted(sizes, key=lambda run: (sizes[run], run))
    together = accumulate(sizes[run] for run in smallest)
    chosen = [
        run for run, total in zip(smallest, together, strict=True) if total <= min(limit_bytes, MERGED_LIMIT_BYTES)
    ]
    return chosen if len(chosen) >= CLOSED_FAN_IN else []
