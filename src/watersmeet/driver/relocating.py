"""Logs the steps of a relocation by their papers' names as they happen (Lazy/Active 5.1; in brackets Flux 5.2).

| when | what has happened |
|---|---|
| the coordinator has decided | ComputePartitionsToMove (the policy), PartitionsToMove (the list of moves) |
| meanwhile, as all tasks of the epoch have told | DeactivatePartitions (pause), Deactivated (acknowledgements) |
| the version is committed | SendPartitions (getPartitionState): who reads the runs is another site |
| the next epoch has been joined | ReceivePartitions (StateMover), Received (install), ReactivatePartitions (restart) |

Of a move that is *announced* first, the new site's host fetches in between: SendPartitions and ReceivePartitions, with
what is left; when it moves, that is what was Received. A driver tells of what it has committed itself. See
`docs/design/0005-moving-state.md`.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from watersmeet.model.ids import SiteId
from watersmeet.state.changes import AnnounceMove, Change, MoveGroups
from watersmeet.state.manifest import Announced, Manifest

_LOG = logging.getLogger("watersmeet.relocation")

Relocated = MoveGroups | AnnounceMove | Announced


@dataclass
class RelocationLog:
    """Tracks the moves of one driver."""

    _decided: list[tuple[MoveGroups | AnnounceMove, bool]] = field(default_factory=list)
    _sent: list[MoveGroups] = field(default_factory=list)

    def tasks_ended(self, manifest: Manifest, to_fetch: Mapping[tuple[int, SiteId], int], *, is_epoch: bool) -> None:
        """Log the end of a step's tasks; the manifest is the one that they read."""
        epoch = manifest.version
        for each in manifest.announced:
            left = to_fetch.get((manifest.plan.operator(each.operator).level, each.after))
            if left is None:  # a step of cleanup, of other levels
                continue
            _tell(epoch, "SendPartitions", each, "the old site goes on with them meanwhile")
            _tell(epoch, "ReceivePartitions", each, f"in the background, {left} bytes are left")
        for move in self._sent if is_epoch else ():
            _tell(epoch, "ReceivePartitions", move, "the new site has opened their runs")
            _tell(epoch, "Received", move, "its task has ended")
            _tell(epoch, "ReactivatePartitions", move, "the epoch's rows were routed by the new table")
        self._sent = [] if is_epoch else self._sent

    def decided(self, manifest: Manifest, changes: Iterable[Change], tasks: int) -> None:
        """Log the decision on the next version, after ``tasks`` tasks have ended."""
        for each in changes:
            if isinstance(each, MoveGroups | AnnounceMove):
                was_announced = isinstance(each, MoveGroups) and _is_announced(each, manifest.announced)
                self._decided.append((each, was_announced))
                _tell_decided(manifest.version, each, tasks, was_announced=was_announced)

    def committed(self, manifest: Manifest) -> None:
        """Log that the version is committed."""
        for each, was_announced in self._decided:
            if isinstance(each, MoveGroups):
                self._sent.append(each)
                if not was_announced:
                    _tell(manifest.version - 1, "SendPartitions", each, f"version {manifest.version} has the new table")
        self._decided = []


def _tell_decided(epoch: int, each: MoveGroups | AnnounceMove, tasks: int, *, was_announced: bool) -> None:
    if was_announced:
        _tell(epoch, "Received", each, each.reason)
    else:
        _tell(epoch, "ComputePartitionsToMove", each, f"{each.policy or 'somebody'} wants it: {each.reason}")
        _tell(epoch, "PartitionsToMove", each, "announced" if isinstance(each, AnnounceMove) else "with this version")
    if isinstance(each, MoveGroups):
        _tell(epoch, "DeactivatePartitions", each, "the epoch is over, and the next has not begun")
        _tell(epoch, "Deactivated", each, f"all {tasks} tasks have told what they did")


def _is_announced(move: MoveGroups, announced: Sequence[Announced]) -> bool:
    known = ((each.operator, each.groups, each.after) for each in announced)
    return (move.operator, move.groups, move.after) in known


def _tell(epoch: int, step: str, each: Relocated, note: str) -> None:
    groups = ", ".join(map(str, each.groups))
    about = (each.operator, groups, each.before, each.after, each.bytes)
    _LOG.info("epoch %d: %s: %s groups %s from site %d to %d, %d bytes; %s", epoch, step, *about, note)
