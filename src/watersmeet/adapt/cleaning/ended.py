"""Spilled groups whose rows have ended: they hold no results up any more, and stay only until they are cleaned.

A group that misses results keeps all its rows. While input never pauses nobody cleans it, and what it holds grows with
every spill, although all of it may be over. So once such rows of all groups take more than the budget of all sites, the
groups are cleaned of which at least `SHARE` has ended, a slice after each epoch: for a byte that goes then, at most one
is read that stays. What has ended is told by the times of runs; of a run that is partly over, the part is estimated.
"""

import numpy as np

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.model.ids import OperatorId
from watersmeet.state.ends import ends
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest
from watersmeet.state.promises import Limits, droppable
from watersmeet.state.sizes import Bytes, rows_and_bytes

SHARE = 0.5


def mostly_ended(manifest: Manifest, options: MemoryOptions) -> dict[OperatorId, GroupSet]:
    """The groups of each operator to clean because most of what they hold has ended, if that is too much."""
    limits = droppable(manifest) if options.limit_bytes is not None else {}
    missing = {name: manifest.spilled(name) for name in manifest.operators} if limits else {}
    held = {name: _held(manifest, name, groups, limits) for name, groups in missing.items() if groups}
    if sum(float(ended.sum()) for ended, _ in held.values()) <= (options.limit_bytes or 0) * manifest.sites:
        return {}
    return {name: GroupSet.within((ended > 0) & (ended >= SHARE * total)) for name, (ended, total) in held.items()}


def _held(manifest: Manifest, operator: OperatorId, groups: GroupSet, limits: Limits) -> tuple[Bytes, Bytes]:
    """The bytes of some groups that have ended, and all of them, by group."""
    ended, total = np.zeros(manifest.groups), np.zeros(manifest.groups)
    lives = {source.name: source.life for source in manifest.plan.operator(operator).inputs}
    for part in (each for each in manifest.operators[operator].slices if each.groups & groups):
        run = manifest.runs[part.run]
        sizes = np.where(groups.mask(manifest.groups), rows_and_bytes(manifest, [part])[1], 0)
        life, limit = lives[run.input], limits.get((operator, run.input))
        span = None if life is None or limit is None else ends(run, life)
        total += sizes
        if span is not None and limit is not None:
            first, last = span
            ended += sizes * min(1.0, max(0.0, (limit + 1 - first) / (last + 1 - first)))
    return ended, total
