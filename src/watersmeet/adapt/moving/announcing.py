"""Moves that are announced (Flux 5.2: state moves in the background; Lazy/Active 5.1, steps 2 to 8).

Where the checkpoint is remote, a host has copies of the runs that its sites use. A site that takes groups over without
further ado fetches their rows while the epoch waits. So a move between hosts is *announced* first:

1. A policy's move becomes an announcement, which is part of the manifest (PartitionsToMove).
2. From the next step on, tasks of the new site fetch what the groups have, in the background, while their old site goes
   on with them (SendPartitions, ReceivePartitions). They tell how much is left.
3. When nothing is left but what the last epoch brought (Received), or after `WAIT_MOST` epochs, the groups move
   (ReactivatePartitions). Steps of cleanup do not count: there may be many between two epochs.

Meanwhile no policy moves groups for the sake of load: to them, the steps between a decision and its effect do not
exist. What has to move because its site would spill moves at once, also while others are announced.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.state.changes import AnnounceMove, MoveGroups
from watersmeet.state.manifest import Announced
from watersmeet.state.sizes import live_bytes_by_site

WAIT_MOST = 5
"""Epochs after which groups move although not all has been fetched: the load they move for is not that of yesterday."""


def announced_first(suggestion: Suggestion, view: View, options: MemoryOptions) -> Suggestion:
    """A move as an announcement, if another host takes the groups over, and their site can keep them for a while."""
    move = suggestion.what
    if not isinstance(move, MoveGroups) or view.load is None:
        return suggestion
    hosts = [name.rpartition(":")[0] for name in view.load.executors]
    limit = options.limit_bytes
    is_short = limit is not None and live_bytes_by_site(view.manifest)[move.before] > limit
    if is_short or hosts[move.before] == hosts[move.after]:
        return suggestion
    told = AnnounceMove(move.operator, move.groups, move.before, move.after, move.policy, move.bytes, move.reason)
    return Suggestion(told, suggestion.touches)


@dataclass
class TakeOverPolicy:
    """Moves groups that were announced, once their rows are where they are going to be."""

    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """The moves that are due."""
        for each in view.manifest.announced:
            waited = view.manifest.batch - each.batch
            left = view.to_fetch.get((view.manifest.plan.operator(each.operator).level, each.after))
            if waited > 0 and (left == 0 or waited >= WAIT_MOST):
                move = MoveGroups(each.operator, each.groups, each.before, each.after, each.policy, each.bytes)
                yield Suggestion(_with_reason(move, each, waited, left), {each.operator: each.groups})


def _with_reason(move: MoveGroups, announced: Announced, waited: int, left: int | None) -> MoveGroups:
    some = "it is not known how much is" if left is None else f"{left} bytes are"
    fetched = "and all was fetched" if left == 0 else f"and {some} still to be fetched"
    reason = f"{announced.reason}; announced {waited} epoch{'s' if waited > 1 else ''} ago, {fetched}"
    return MoveGroups(move.operator, move.groups, move.before, move.after, move.policy, move.bytes, reason)
