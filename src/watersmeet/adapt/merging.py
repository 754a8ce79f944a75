"""Which runs to merge: a size-tiered LSM tree.

A run of ``b`` bytes is in tier ``log8(b / 4 KiB)``. When an input has `FAN_IN` runs in one tier at a site they become
one, which is then in the next tier. Every row is rewritten at most once a tier, and the number of runs a probe visits
grows with the logarithm of the state, up to `MERGED_LIMIT_BYTES`. Runs that would together exceed that are left alone,
as a merge holds its result in memory: beyond it, an input has another run for every 32 to 256 MiB at a site.
"""

from collections.abc import Sequence

from watersmeet.state.manifest import RunFile

FAN_IN = 8
TIER_BASE_BYTES = 4 << 10
MERGED_LIMIT_BYTES = 256 << 20


def tier(size_bytes: int) -> int:
    """The tier of a run.

    >>> [tier(size) for size in (1, 4 << 10, 32 << 10, 1 << 20)]
    [0, 0, 1, 2]
    """
    return max(0, (max(1, size_bytes // TIER_BASE_BYTES).bit_length() - 1) // 3)


def choose(runs: Sequence[RunFile]) -> list[RunFile]:
    """The runs to merge now; none where there is nothing to gain."""
    tiers: dict[int, list[RunFile]] = {}
    for run in runs:
        tiers.setdefault(tier(run.bytes), []).append(run)
    for _, members in sorted(tiers.items()):
        chosen = sorted(members, key=lambda run: (run.bytes, run.id))[:FAN_IN]
        if len(chosen) == FAN_IN and sum(run.bytes for run in chosen) <= MERGED_LIMIT_BYTES:
            return chosen
    return []
