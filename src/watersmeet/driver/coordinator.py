"""The coordinator: observations in, changes out. All that adapts a query while it runs is decided here.

Policies suggest, inner ones first (CAPE's intervals, from the operator to the distribution): merges, what has ended,
spills, cleanup. Sites and moves come before spills, as what has moved to a site with room need not be spilled: policies
see the groups where those before them have put them. What has neither moved nor is spilled may be parked. Some policies
are components that run only if an event calls them: the *registry* says which, and may change while the query runs
(`watersmeet.adapt.registry`). The coordinator asks those that a moment concerns, in that order, and takes what they
suggest, best first, unless it touches a group that

- is being cleaned by the step at hand, or
- was touched by a suggestion taken before, or
- is held by a mover, if another one suggests it.

So a group changes in one way at a time, and no two policies undo each other's work. What one drops the next do not see:
rows that have ended go before others are spilled. Every change says why it was made.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from watersmeet.adapt.cleaning.draining import Draining
from watersmeet.adapt.cleaning.policy import CleanPolicy, DuePolicy, RevivePolicy
from watersmeet.adapt.expiring.forgetting import ForgetPolicy
from watersmeet.adapt.expiring.passing import PassPolicy
from watersmeet.adapt.expiring.policy import ExpirePolicy
from watersmeet.adapt.merging.policy import MergePolicy
from watersmeet.adapt.merging.purging import Purging
from watersmeet.adapt.moving.announcing import TakeOverPolicy, announced_first
from watersmeet.adapt.moving.distribution import ResizePolicy
from watersmeet.adapt.moving.exchanging import ExchangePolicy
from watersmeet.adapt.moving.executors import ExecutorPolicy
from watersmeet.adapt.moving.hot import HotGroupPolicy, UnsplitPolicy
from watersmeet.adapt.moving.parking import ParkPolicy
from watersmeet.adapt.policy import MemoryOptions, Merge, Policy, Suggestion, View
from watersmeet.adapt.registry import Registry, events_of, listens_at
from watersmeet.adapt.spilling.policy import Choose, SpillPolicy
from watersmeet.model.ids import OperatorId
from watersmeet.site.effects import Effects
from watersmeet.state.applying import apply_all
from watersmeet.state.changes import (
    AddRun,
    Change,
    ChangeRegistry,
    DropRows,
    FinishCleaning,
    MergeRuns,
    MoveGroups,
    Reroute,
    SpillGroups,
)
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest

COMPONENTS: Mapping[type, str] = {
    ExpirePolicy: "invalidation",
    SpillPolicy: "state relocation",
    ExchangePolicy: "state relocation",
    CleanPolicy: "disk join",
}
"""The policies that are components. "purge" is done with merges, as runs are written anew (`MergePolicy`)."""

_SEEN = (DropRows, Reroute, MoveGroups)
"""Changes that later policies must see, besides those of movers."""


@runtime_checkable
class Holding(Protocol):
    """A policy that alone places some groups: no other mover may change them."""

    def holds(self, manifest: Manifest) -> Mapping[OperatorId, GroupSet]:
        """The groups."""


@runtime_checkable
class Limited(Protocol):
    """A policy that keeps to a budget."""

    options: MemoryOptions


@runtime_checkable
class Relieving(Protocol):
    """A policy that moves groups, and some of them also while announced moves are under way."""

    under_way: bool


@dataclass
class Coordinator:
    """The policies of one run of a query, and what they may do together; the ``registry`` may be replaced any time.

    The ``movers`` are those that move groups. If it ``announces``, they are announced to other hosts first.
    """

    policies: Sequence[Policy]
    cleaning: CleanPolicy
    options: MemoryOptions = field(default_factory=MemoryOptions)
    registry: Registry = field(default_factory=Registry)
    movers: Sequence[Policy] = ()
    announces: bool = False
    purging: Purging = field(default_factory=Purging)
    _registry_changes: deque[ChangeRegistry] = field(default_factory=deque)

    @classmethod
    def of(  # noqa: PLR0913 -- what a run is told
        cls,
        options: MemoryOptions,
        sites: int,
        round_bytes: int,
        choose: Choose | None = None,
        movers: Sequence[Policy] = (),
        weights: tuple[float, ...] = (),
        retention_us: int | None = None,
        *,
        sites_follow: bool = False,
    ) -> "Coordinator":
        """The policies there are, from the inner to the outer; ``movers`` are those that move groups.

        Promises are forgotten after the time ``retention_us``, if it is given.
        """
        parking = [each for each in movers if isinstance(each, ParkPolicy)]
        moving = [each for each in movers if not isinstance(each, ParkPolicy)]
        cleaning = CleanPolicy(options, draining=next((each.draining for each in parking), Draining()))
        purging = Purging(options.budget_bytes)
        merging = MergePolicy(round_bytes, merges_closed=options.is_limited, purging=purging)
        spilling = SpillPolicy(options, choose)
        forgetting = [] if retention_us is None else [ForgetPolicy(retention_us, purging)]
        placing: list[Policy] = [
            ExecutorPolicy(),
            ResizePolicy(sites, weights, sites_follow),
            TakeOverPolicy(),
            *([] if any(isinstance(each, HotGroupPolicy) for each in movers) else [UnsplitPolicy()]),
            *moving,
        ]
        policies: list[Policy] = [merging, PassPolicy(), ExpirePolicy(), *forgetting, *placing, spilling, *parking]
        policies += [cleaning, DuePolicy(), RevivePolicy(options)]
        return cls(policies, cleaning, options, movers=moving, purging=purging)

    def change_registry(self, registry: Registry, reason: str) -> None:
        """Use another registry from the next decision on; the next version has the event."""
        told = ChangeRegistry(self.registry.entries, registry.entries, reason)
        self.registry = registry
        self._registry_changes.append(told)

    def rests_after(self) -> float:
        """How many seconds without input count as a pause."""
        return self.registry.threshold("StreamEmpty")

    def decide(self, view: View) -> list[Change]:
        """The changes to make at this moment."""
        return [each for each in self._taken(view) if not isinstance(each, Merge)]

    def merges(self, view: View) -> list[Merge]:
        """The merges for the tasks of the next step."""
        return [each for each in self._taken(view) if isinstance(each, Merge)]

    def learn(self, manifest: Manifest, effects: Sequence[Effects], decided: Iterable[Change]) -> None:
        """Take in what the tasks of a step did that has read a manifest, and what was decided after it."""
        levels = {operator.id: operator.level for operator in manifest.plan.operators}
        self.purging.forget_others(manifest)
        for each in effects if any(stream.has_promises for stream in manifest.plan.streams) else ():
            written = (one for one in each.changes if isinstance(one, AddRun | MergeRuns))
            # What is kept for a higher level was not asked whether it can go.
            own = [one for one in written if levels[one.run.operator] == each.level]
            self.purging.learn(manifest, each.site, own, each.looked)
        for drop in (change for change in decided if isinstance(change, DropRows)):
            self.purging.count_dropped(drop.operator, drop.rows)

    def finish_cleaning(self, manifest: Manifest, read_bytes: int, results: int) -> FinishCleaning:
        """The changes for groups that a step has cleaned."""
        return self.cleaning.finish(manifest, read_bytes, results)

    def _taken(self, view: View) -> Iterator[Change | Merge]:
        busy = _being_cleaned(view.manifest)
        while self._registry_changes and view.moment == "step":
            yield self._registry_changes.popleft()
        registry = self._followed()
        limited = registry.limited(self.options)
        events = events_of(view, limited)
        under_way = bool(view.manifest.announced)
        view = replace(view, rewrite_at=registry.rewrite_at(events), busy=busy, under_way=under_way)
        asked = [each for each in self.policies if self._has_a_say(each, view)]
        for policy in asked:
            if view.moment in policy.moments and _is_called(policy, view, registry, events):
                seen: list[Change] = []
                held = self._held(policy, view.manifest)
                for suggestion in self._suggested(policy, replace(view, held=held), limited):
                    if (
                        _is_free(suggestion, busy)
                        and _is_free(suggestion, held)
                        and _may_be(suggestion, view, registry)
                    ):
                        _occupy(suggestion, busy)
                        seen += self._seen(policy, suggestion.what)
                        yield suggestion.what
                is_of_others = any(isinstance(each, Reroute) for each in seen)  # the load is of other sites
                view = replace(view, manifest=apply_all(view.manifest, seen), load=None if is_of_others else view.load)
                events |= events_of(view, limited) if is_of_others else frozenset()  # fewer may hold too much now

    def _suggested(self, policy: Policy, view: View, limited: MemoryOptions) -> Iterator[Suggestion]:
        is_announced = self.announces and self._moves(policy)
        for each in policy.suggest(view):
            yield announced_first(each, view, limited) if is_announced else each

    def _held(self, policy: Policy, manifest: Manifest) -> Mapping[OperatorId, GroupSet]:
        """The groups that one mover has from the others; what is put off for the sake of time is theirs, too."""
        if not self._moves(policy) and not isinstance(policy, ParkPolicy):
            return {}
        holding = [each for each in self.movers if isinstance(each, Holding) and each is not policy]
        return {name: groups for each in holding for name, groups in each.holds(manifest).items()}

    def _seen(self, policy: Policy, what: Change | Merge) -> list[Change]:
        """A change that the policies after this one have to know of."""
        return [what] if not isinstance(what, Merge) and (isinstance(what, _SEEN) or self._moves(policy)) else []

    def _moves(self, policy: Policy) -> bool:
        return any(each is policy for each in self.movers)

    def _has_a_say(self, policy: Policy, view: View) -> bool:
        """While announced moves are under way, most movers wait for them."""
        return not (view.under_way and self._moves(policy)) or isinstance(policy, Relieving)

    def _followed(self) -> Registry:
        """The registry, with the policies that keep to a budget told of its limit."""
        registry = self.registry
        limited = registry.limited(self.options)
        for policy in self.policies:
            if isinstance(policy, Limited) and policy.options.share != limited.share:
                policy.options = replace(policy.options, share=limited.share)
        return registry


def _is_called(policy: Policy, view: View, registry: Registry, events: frozenset[str]) -> bool:
    """Whether a policy is no component that waits for an event at this moment, or is called by one that holds."""
    component = COMPONENTS.get(type(policy), "")
    return component not in listens_at(view.moment) or registry.calls(component, events)


def _may_be(suggestion: Suggestion, view: View, registry: Registry) -> bool:
    """Whether it is no spill, or spilling is registered: who has taken it out wants none, whichever policy asks."""
    what, component = suggestion.what, COMPONENTS[SpillPolicy]
    is_spill = isinstance(what, SpillGroups) and what.epoch_ms is None
    return not is_spill or component not in listens_at(view.moment) or registry.has(component)


def _being_cleaned(manifest: Manifest) -> dict[OperatorId, GroupSet]:
    step = manifest.cleaning
    return {} if step is None else {step.operator: GroupSet.of(step.groups)}


def _is_free(suggestion: Suggestion, busy: Mapping[OperatorId, GroupSet]) -> bool:
    return not any(groups & busy.get(name, GroupSet()) for name, groups in suggestion.touches.items())


def _occupy(suggestion: Suggestion, busy: dict[OperatorId, GroupSet]) -> None:
    """Whether its groups are touched by nothing else; except that, with fewer sites, groups may be spilled at once."""
    for name, groups in suggestion.touches.items() if not isinstance(suggestion.what, Reroute) else ():
        busy[name] = busy.get(name, GroupSet()) | groups
