"""What can be moved: the groups of all operators of a plan, seen together, and what a move consists of.

The papers balance one operator. A plan has several, their groups live on the same sites, and a site is as full or as
busy as all of them make it. A *piece* is a group of an operator.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from watersmeet.adapt.policy import MemoryOptions, Suggestion, View
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.state.changes import MoveGroups
from watersmeet.state.groups import GroupSet
from watersmeet.state.sizes import live_bytes, total_bytes

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Pieces:
    """All pieces, as parallel arrays: those of the first operator by group, then those of the second.

    ``output`` is P_output: the query's results that came through a piece, of its live generation where that is known.
    Some are ``shared`` by several sites: they stay where they are, and so do those that another policy has ``held``.
    """

    operators: tuple[OperatorId, ...]
    groups: int
    sites: int
    site: Ints
    live_bytes: Floats
    closed_bytes: Floats
    output: Floats
    shared: Mapping[int, tuple[SiteId, ...]] = field(default_factory=dict)
    held: Flags | None = None

    @classmethod
    def of(cls, view: View) -> "Pieces":
        """The pieces of a manifest, and where they are."""
        manifest = view.manifest
        names = tuple(operator.id for operator in manifest.plan.operators)
        live = np.concatenate([live_bytes(manifest, name) for name in names])
        total = np.concatenate([total_bytes(manifest, name) for name in names])
        site = np.concatenate([np.asarray(manifest.operators[name].routing, np.int64) for name in names])
        output = np.concatenate([_output(view, name) for name in names])
        shared = {
            number * manifest.groups + split.group: split.sites
            for number, name in enumerate(names)
            for split in manifest.operators[name].splits
        }
        held = np.concatenate([view.held.get(name, GroupSet()).mask(manifest.groups) for name in names])
        return cls(names, manifest.groups, manifest.sites, site, live, total - live, output, shared, held)

    def by_piece(self, by_group: Mapping[OperatorId, Floats]) -> Floats:
        """What is told by operator and group, in the order of the pieces."""
        return np.concatenate([by_group.get(name, np.zeros(self.groups)) for name in self.operators])

    def by_site(self, values: Floats) -> Floats:
        """The sums of the sites."""
        return np.bincount(self.site, values, minlength=self.sites).astype(np.float64)

    def told_apart(self, values: Floats, mine: Ints) -> tuple[Floats, Floats]:
        """The values of some pieces, but for those that do not move; of these, what each site has, about."""
        left, at_site = values[mine], np.zeros(self.sites)
        if self.held is not None:
            stay = self.held[mine]
            at_site += np.bincount(self.site[mine][stay], left[stay], minlength=self.sites)
            left[stay] = 0.0
        for piece, sites in self.shared.items():
            found = mine == piece
            if found.any():
                left[found] = 0.0
                at_site[list(sites)] += values[piece] / len(sites)
        return left, at_site

    @property
    def is_free(self) -> Flags:
        """Which pieces no other policy has."""
        return np.ones(len(self.site), np.bool_) if self.held is None else ~self.held

    @property
    def is_whole(self) -> Flags:
        """Which pieces are at one site, and may go to another."""
        whole = self.is_free
        whole[list(self.shared)] = False
        return whole

    @property
    def productivity(self) -> Floats:
        """P_output / P_size; 0 of what holds nothing."""
        return np.divide(self.output, self.live_bytes, out=np.zeros(len(self.site)), where=self.live_bytes > 0)

    def moved_by(self, change: MoveGroups) -> tuple[Ints, Ints]:
        """The pieces of a move, and where each was before."""
        moved = self.operators.index(change.operator) * self.groups + change.groups.numbers
        return moved, np.full(len(moved), int(change.before))

    def moves(self, chosen: Ints, to: Sequence[int] | Ints, policy: str, reason: str) -> Iterator[Suggestion]:
        """Suggest that some pieces move, each to a site; those that go the same way together."""
        ways = zip((chosen // self.groups).tolist(), self.site[chosen].tolist(), np.asarray(to).tolist(), strict=True)
        found: dict[tuple[int, int, int], list[int]] = {}
        for piece, way in zip(chosen.tolist(), ways, strict=True):
            found.setdefault(way, []).append(piece)
        for (operator, before, after), some in found.items():
            name, moved = self.operators[operator], int(self.live_bytes[some].sum())
            groups = GroupSet.of(np.array(some) % self.groups)
            change = MoveGroups(name, groups, SiteId(before), SiteId(after), policy, moved, reason)
            yield Suggestion(change, {name: groups})


def _output(view: View, operator: OperatorId) -> Floats:
    known = view.statistics.get(operator)
    if known is not None and known.epochs[0] > 0:
        return known.global_output
    counted = view.manifest.operators[operator].output
    return counted.array.astype(np.float64) if counted else np.zeros(view.manifest.groups)


def allowed_bytes(options: MemoryOptions, sites: int, memory_bytes: Floats | None = None) -> Floats:
    """What every site may hold live: its own memory where that is told, else the budget; endless without one."""
    if memory_bytes is not None:
        return memory_bytes
    return np.full(sites, np.inf if options.limit_bytes is None else float(options.limit_bytes))


def room_bytes(options: MemoryOptions, live_by_site: Floats, memory_bytes: Floats | None = None) -> Floats:
    """How much every site may be given before it had to spill.

    Whatever a policy balances, no site is given more: what came would be spilled in the same breath.
    """
    return np.maximum(allowed_bytes(options, len(live_by_site), memory_bytes) - live_by_site, 0.0)
