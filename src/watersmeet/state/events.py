"""What happened to a query besides its epochs: every change that adapts it is an event, told from that change.

Which of them are kept, and where, is the matter of `watersmeet.state.event_log`.
"""

from collections.abc import Iterable

import msgspec

from watersmeet.model.ids import InputName, OperatorId, SiteId
from watersmeet.state.changes import (
    AnnounceMove,
    Change,
    ChangeExecutors,
    ChangePatience,
    ChangeRegistry,
    DropRows,
    FinishCleaning,
    ForgetPromises,
    MergeRuns,
    MoveGroups,
    ReplacePlan,
    Reroute,
    SpillGroups,
    SplitGroup,
)
from watersmeet.state.manifest import Cleaning


class LiveBytes(msgspec.Struct, frozen=True, rename="camel"):
    """The live state of a site."""

    live_bytes: int


class Groups(msgspec.Struct, frozen=True):
    """How many groups of an operator have results missing."""

    groups: int


class Sites(msgspec.Struct, frozen=True):
    """How many sites there are."""

    sites: int


class Operators(msgspec.Struct, frozen=True):
    """Which operators there are."""

    operators: tuple[OperatorId, ...] = ()


class SpillEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="spill"):
    """Groups of a site left memory."""

    epoch: int
    reason: str
    before: LiveBytes
    after: LiveBytes
    site: SiteId
    strategy: str
    bytes: int
    groups: dict[OperatorId, list[int]]


class EpochMs(msgspec.Struct, frozen=True, rename="camel"):
    """How long an epoch keeps a site busy."""

    epoch_ms: int


class ParkEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="park"):
    """Groups of a site are not joined with what they hold until it has time again."""

    epoch: int
    reason: str
    before: EpochMs
    after: EpochMs
    site: SiteId
    policy: str
    bytes: int
    groups: dict[OperatorId, list[int]]


class CleanupEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="cleanup"):
    """Missing results of some groups were produced."""

    epoch: int
    reason: str
    before: Groups
    after: Groups
    operator: OperatorId
    groups: list[int]
    bytes: int
    results: int


class Rows(msgspec.Struct, frozen=True):
    """How many rows there are of those that an event is about."""

    rows: int


class ExpireEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="expire"):
    """State was dropped that nothing can be joined with any more."""

    epoch: int
    reason: str
    before: Rows
    after: Rows
    operator: OperatorId
    bytes: int
    runs: int


class PurgeEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="purge"):
    """A run was written anew without rows whose keys were promised not to come any more."""

    epoch: int
    reason: str
    before: Rows
    after: Rows
    operator: OperatorId
    input: InputName


class Since(msgspec.Struct, frozen=True):
    """The epoch after which promises count."""

    since: int


class ForgetEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="forget"):
    """Promises of a stream are not kept any more, as its watermark has left them behind."""

    epoch: int
    reason: str
    before: Since
    after: Since
    stream: str


class RerouteEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="reroute"):
    """Groups were given to other sites."""

    epoch: int
    reason: str
    before: Sites
    after: Sites


class Executors(msgspec.Struct, frozen=True):
    """How many executors there are."""

    executors: int


class ExecutorsEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="executors"):
    """Executors have come or gone; if it ``spreads``, the sites are spread over all of them anew."""

    epoch: int
    reason: str
    before: Executors
    after: Executors
    joined: tuple[str, ...]
    lost: tuple[str, ...]
    spreads: bool


class Site(msgspec.Struct, frozen=True):
    """Where groups are."""

    site: SiteId


class _Moved(msgspec.Struct, frozen=True):
    """Groups of an operator, where they were and where they go, and who said so."""

    epoch: int
    reason: str
    before: Site
    after: Site
    operator: OperatorId
    groups: list[int]
    bytes: int
    policy: str


class MoveEvent(_Moved, frozen=True, tag_field="kind", tag="move"):
    """Groups of an operator were given to another site."""


class AnnounceEvent(_Moved, frozen=True, tag_field="kind", tag="announce"):
    """Groups of an operator are going to be given to another site, which fetches their rows first."""


class SharedBy(msgspec.Struct, frozen=True):
    """Which sites share a group."""

    sites: tuple[SiteId, ...]


class SplitEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="split"):
    """A group of an operator, too hot for one site, was split over several, or is whole again.

    The rows of ``input`` are dealt out to them, those of all others are read by each.
    """

    epoch: int
    reason: str
    before: SharedBy
    after: SharedBy
    operator: OperatorId
    group: int
    input: InputName
    bytes: int
    tuples: int
    policy: str


class Epochs(msgspec.Struct, frozen=True):
    """How many epochs are watched before a decision."""

    epochs: int


class PatienceEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="patience"):
    """A policy watches longer before it decides again, as what it did has not paid; or less long, as it has."""

    epoch: int
    reason: str
    before: Epochs
    after: Epochs
    policy: str


class ReplanEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="replan"):
    """The query goes on with another plan."""

    epoch: int
    reason: str
    before: Operators
    after: Operators


class Entries(msgspec.Struct, frozen=True):
    """Which component runs when which event holds: event, condition, component."""

    entries: tuple[tuple[str, str, str], ...] = ()


class RegistryEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="registry"):
    """Other components run at other events."""

    epoch: int
    reason: str
    before: Entries
    after: Entries


Event = (
    SpillEvent
    | ParkEvent
    | CleanupEvent
    | ExpireEvent
    | PurgeEvent
    | ForgetEvent
    | RerouteEvent
    | ExecutorsEvent
    | AnnounceEvent
    | MoveEvent
    | SplitEvent
    | PatienceEvent
    | ReplanEvent
    | RegistryEvent
)


def events_of(epoch: int, changes: Iterable[Change], cleaning: Cleaning | None) -> list[Event]:
    """The events of one version's changes; ``cleaning`` is what the step before it began to clean."""
    found = (_event(epoch, change, cleaning) for change in changes)
    return [event for event in found if event is not None]


def _event(epoch: int, change: Change, cleaning: Cleaning | None) -> Event | None:  # noqa: PLR0911 -- one for each kind
    if isinstance(change, SpillGroups):
        return _closed(epoch, change)
    if isinstance(change, FinishCleaning) and cleaning is not None and cleaning.groups:
        groups_, missing = sorted(cleaning.groups), Groups(change.missing)
        groups_left = Groups(change.missing - len(groups_))
        read, made = change.read_bytes, change.results
        return CleanupEvent(epoch, cleaning.reason, missing, groups_left, cleaning.operator, groups_, read, made)
    if isinstance(change, DropRows):
        rows, runs = Rows(change.rows), len(change.runs)
        return ExpireEvent(epoch, change.reason, rows, Rows(0), change.operator, change.bytes, runs)
    if isinstance(change, MergeRuns) and change.is_purge:
        left, run = Rows(change.run.rows), change.run
        return PurgeEvent(epoch, change.reason, Rows(run.rows + change.dropped), left, run.operator, run.input)
    if isinstance(change, ForgetPromises):
        return ForgetEvent(epoch, change.reason, Since(change.before), Since(change.upto), change.stream)
    if isinstance(change, ChangeExecutors):
        numbers = Executors(change.before), Executors(change.after)
        return ExecutorsEvent(epoch, change.reason, *numbers, change.joined, change.lost, change.spreads)
    if isinstance(change, Reroute | AnnounceMove | MoveGroups | SplitGroup):
        return _routed(epoch, change)
    if isinstance(change, ChangePatience):
        return PatienceEvent(epoch, change.reason, Epochs(change.before), Epochs(change.after), change.policy)
    if isinstance(change, ReplacePlan | ChangeRegistry):
        return _asked_for(epoch, change)
    return None


def _closed(epoch: int, change: SpillGroups) -> Event:
    groups = {name: list(some) for name, some in change.groups.items()}
    what = change.site, change.strategy, change.spilled_bytes, groups
    if change.epoch_ms is not None:
        before, after = map(EpochMs, change.epoch_ms)
        return ParkEvent(epoch, change.reason, before, after, *what)
    live, left = LiveBytes(change.live_bytes), LiveBytes(change.live_bytes - change.spilled_bytes)
    return SpillEvent(epoch, change.reason, live, left, *what)


def _asked_for(epoch: int, change: ReplacePlan | ChangeRegistry) -> Event:
    if isinstance(change, ChangeRegistry):
        return RegistryEvent(epoch, change.reason, Entries(change.before), Entries(change.after))
    now = Operators(tuple(operator.id for operator in change.plan.operators))
    return ReplanEvent(epoch, change.reason, Operators(change.operators_before), now)


def _routed(epoch: int, change: Reroute | AnnounceMove | MoveGroups | SplitGroup) -> Event:
    if isinstance(change, Reroute):
        return RerouteEvent(epoch, change.reason, Sites(change.sites_before), Sites(change.sites))
    if isinstance(change, SplitGroup):
        shared = SharedBy(change.before), SharedBy(change.after)
        size, tuples = change.bytes, change.tuples
        return SplitEvent(
            epoch, change.reason, *shared, change.operator, change.group, change.input, size, tuples, change.policy
        )
    before, after, groups = Site(change.before), Site(change.after), list(change.groups)
    kind = AnnounceEvent if isinstance(change, AnnounceMove) else MoveEvent
    return kind(epoch, change.reason, before, after, change.operator, groups, change.bytes, change.policy)
