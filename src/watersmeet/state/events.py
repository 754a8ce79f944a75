"""What happened to a query besides its epochs, told from the changes of its versions.

Every change that adapts the query is an event. Those of versions since the last snapshot are read from these; when a
snapshot is taken, those before it are *folded* into a file of their own, as their versions will be deleted. Such files
are filled up to `FILE_EVENTS`, and the oldest go when there are more than `RETAINED_FILES`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import InputName, OperatorId, SiteId, Version
from watersmeet.state.changes import (
    BeginCleaning,
    Change,
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
from watersmeet.state.stored import from_json, to_json
from watersmeet.state.versions import VersionStore

FOLDER = "events"
FILE_EVENTS = 500
RETAINED_FILES = 20
READ_TRIES = 3


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


class Site(msgspec.Struct, frozen=True):
    """Where groups are."""

    site: SiteId


class MoveEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="move"):
    """Groups of an operator were given to another site."""

    epoch: int
    reason: str
    before: Site
    after: Site
    operator: OperatorId
    groups: list[int]
    bytes: int
    policy: str


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
    | CleanupEvent
    | ExpireEvent
    | PurgeEvent
    | ForgetEvent
    | RerouteEvent
    | MoveEvent
    | SplitEvent
    | ReplanEvent
    | RegistryEvent
)


def events_of(epoch: int, changes: Iterable[Change], cleaning: Cleaning | None) -> list[Event]:
    """The events of one version's changes; ``cleaning`` is what the step before it began to clean."""
    found = (_event(epoch, change, cleaning) for change in changes)
    return [event for event in found if event is not None]


def _event(epoch: int, change: Change, cleaning: Cleaning | None) -> Event | None:  # noqa: PLR0911 -- one for each kind
    if isinstance(change, SpillGroups):
        groups = {name: list(some) for name, some in change.groups.items()}
        live, after = LiveBytes(change.live_bytes), LiveBytes(change.live_bytes - change.spilled_bytes)
        spilled = change.spilled_bytes
        return SpillEvent(epoch, change.reason, live, after, change.site, change.strategy, spilled, groups)
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
    if isinstance(change, Reroute | MoveGroups | SplitGroup):
        return _routed(epoch, change)
    if isinstance(change, ReplacePlan | ChangeRegistry):
        return _asked_for(epoch, change)
    return None


def _asked_for(epoch: int, change: ReplacePlan | ChangeRegistry) -> Event:
    if isinstance(change, ChangeRegistry):
        return RegistryEvent(epoch, change.reason, Entries(change.before), Entries(change.after))
    now = Operators(tuple(operator.id for operator in change.plan.operators))
    return ReplanEvent(epoch, change.reason, Operators(change.operators_before), now)


def _routed(epoch: int, change: Reroute | MoveGroups | SplitGroup) -> Event:
    if isinstance(change, Reroute):
        return RerouteEvent(epoch, change.reason, Sites(change.sites_before), Sites(change.sites))
    if isinstance(change, SplitGroup):
        shared = SharedBy(change.before), SharedBy(change.after)
        size, tuples = change.bytes, change.tuples
        return SplitEvent(
            epoch, change.reason, *shared, change.operator, change.group, change.input, size, tuples, change.policy
        )
    before, after, groups = Site(change.before), Site(change.after), list(change.groups)
    return MoveEvent(epoch, change.reason, before, after, change.operator, groups, change.bytes, change.policy)


class _File(msgspec.Struct):
    """The events of versions after one and up to the one that the file is named by."""

    events: list[Event]
    after: int = -1


@dataclass(frozen=True)
class EventLog:
    """The events of one checkpoint."""

    store: VersionStore

    def all(self) -> list[Event]:
        """All that is retained, oldest first; what the query deletes meanwhile is found where it has been folded."""
        for _ in range(READ_TRIES - 1):
            with suppress(CheckpointCorruptError, FileNotFoundError):
                return self._all()
        return self._all(passes_over=True)

    def _all(self, *, passes_over: bool = False) -> list[Event]:
        paths = self._paths()
        return [*self._folded(paths), *self._told(_covered(paths), passes_over=passes_over)]

    def fold(self) -> None:
        """Keep the events of all versions there are, for the versions will go; to be called before any is deleted."""
        versions, paths = self.store.versions(), self._paths()
        covered = _covered(paths)
        if not versions or versions[-1] <= covered:
            return
        kept, replaced = _File(list(self._told(covered, passes_over=True)), covered), []
        if paths:
            last = self._read(paths[-1])
            if len(last.events) + len(kept.events) <= FILE_EVENTS:
                kept, replaced = _File([*last.events, *kept.events], last.after), paths[-1:]
        self.store.storage.create(f"{FOLDER}/{versions[-1]:012d}.json", to_json(kept))
        left = [path for path in self._paths() if path not in replaced]
        self.store.storage.delete([*replaced, *left[:-RETAINED_FILES]])

    def _folded(self, paths: Sequence[str]) -> list[Event]:
        """The events in files; one is passed over that another has replaced and that was not deleted yet."""
        files: list[_File] = []
        for path in reversed(paths):
            if not files or _number(path) <= files[0].after:
                files.insert(0, self._read(path))
        return [event for file in files for event in file.events]

    def _told(self, after: int, *, passes_over: bool) -> Iterator[Event]:
        """The events of versions that are not folded yet; what no manifest needs any more may be damaged."""
        cleaning: Cleaning | None = None
        for each in self.store.files([version for version in self.store.versions() if version >= after]):
            try:
                changes, snapshot = each.file.changes, each.file.snapshot
            except CheckpointCorruptError:
                if not passes_over:
                    raise
                continue
            if each.version > after:
                yield from events_of(each.version - 1, changes, cleaning)
            cleaning = _cleaning_after(changes, cleaning, None if snapshot is None else snapshot.cleaning)

    def _paths(self) -> list[str]:
        return self.store.storage.list(FOLDER)

    def _read(self, path: str) -> _File:
        return from_json(self.store.storage.read(path), _File)


def _cleaning_after(changes: Sequence[Change], before: Cleaning | None, snapshot: Cleaning | None) -> Cleaning | None:
    begun = next((change.cleaning for change in changes if isinstance(change, BeginCleaning)), None)
    finished = any(isinstance(change, FinishCleaning) for change in changes)
    return begun or snapshot or (None if finished else before)


def _covered(paths: Sequence[str]) -> int:
    """The last version whose events are in a file."""
    return _number(paths[-1]) if paths else -1


def _number(path: str) -> Version:
    return Version(int(path.rsplit("/", 1)[-1].removesuffix(".json")))
