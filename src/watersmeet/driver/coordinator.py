"""The coordinator: observations in, changes out. All that adapts a query while it runs is decided here.

Policies suggest, inner ones first (CAPE's intervals, from the operator to the distribution): merges, what has ended,
spills, cleanup, sites. Moves come before spills, as what has moved to a site with room need not be spilled: policies
see the groups where those before them have put them. The coordinator asks those that a moment concerns, in that order,
and takes what they suggest, best first, unless it touches a group that

- is being cleaned by the step at hand, or
- was touched by a suggestion taken before.

So a group changes in one way at a time, and no two policies undo each other's work. Every change says why it was made.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from watersmeet.adapt.cleaning.policy import CleanPolicy, RevivePolicy
from watersmeet.adapt.expiring.policy import ExpirePolicy
from watersmeet.adapt.merging.policy import MergePolicy
from watersmeet.adapt.moving.distribution import ResizePolicy
from watersmeet.adapt.policy import MemoryOptions, Merge, Policy, Suggestion, View
from watersmeet.adapt.spilling.policy import Choose, SpillPolicy
from watersmeet.model.ids import OperatorId
from watersmeet.state.changes import Change, FinishCleaning, MoveGroups, apply_all
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest


@dataclass
class Coordinator:
    """The policies of one run of a query, and what they may do together."""

    policies: Sequence[Policy]
    cleaning: CleanPolicy

    @classmethod
    def of(
        cls,
        options: MemoryOptions,
        sites: int,
        round_bytes: int,
        choose: Choose | None = None,
        movers: Sequence[Policy] = (),
        weights: tuple[float, ...] = (),
    ) -> "Coordinator":
        """The policies there are, from the inner to the outer; ``movers`` are those that move groups."""
        cleaning = CleanPolicy(options)
        merging = MergePolicy(round_bytes, merges_closed=options.is_limited)
        spilling = SpillPolicy(options, choose)
        policies: list[Policy] = [merging, ExpirePolicy(), *movers, spilling, cleaning]
        return cls([*policies, RevivePolicy(options), ResizePolicy(sites, weights)], cleaning)

    def decide(self, view: View) -> list[Change]:
        """The changes to make at a moment."""
        return [each for each in self._taken(view) if not isinstance(each, Merge)]

    def merges(self, view: View) -> list[Merge]:
        """The merges that the tasks of the next step shall do."""
        return [each for each in self._taken(view) if isinstance(each, Merge)]

    def finish_cleaning(self, manifest: Manifest, read_bytes: int, results: int) -> FinishCleaning:
        """What becomes of the groups that a step has cleaned."""
        return self.cleaning.finish(manifest, read_bytes, results)

    def _taken(self, view: View) -> Iterator[Change | Merge]:
        busy = _being_cleaned(view.manifest)
        for policy in self.policies:
            if view.moment in policy.moments:
                moves: list[MoveGroups] = []
                for suggestion in policy.suggest(view):
                    if _is_free(suggestion, busy):
                        _occupy(suggestion, busy)
                        moves += [suggestion.what] if isinstance(suggestion.what, MoveGroups) else []
                        yield suggestion.what
                view = replace(view, manifest=apply_all(view.manifest, moves))


def _being_cleaned(manifest: Manifest) -> dict[OperatorId, GroupSet]:
    step = manifest.cleaning
    return {} if step is None else {step.operator: GroupSet.of(step.groups)}


def _is_free(suggestion: Suggestion, busy: Mapping[OperatorId, GroupSet]) -> bool:
    return not any(groups & busy.get(name, GroupSet()) for name, groups in suggestion.touches.items())


def _occupy(suggestion: Suggestion, busy: dict[OperatorId, GroupSet]) -> None:
    for name, groups in suggestion.touches.items():
        busy[name] = busy.get(name, GroupSet()) | groups
