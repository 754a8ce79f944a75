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
from watersmeet.model.ids import OperatorId, SiteId, Version
from watersmeet.state.changes import BeginCleaning, Change, FinishCleaning, ReplacePlan, Reroute, SpillGroups
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


class RerouteEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="reroute"):
    """Groups were given to other sites."""

    epoch: int
    reason: str
    before: Sites
    after: Sites


class ReplanEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="replan"):
    """The query goes on with another plan."""

    epoch: int
    reason: str
    before: Operators
    after: Operators


Event = SpillEvent | CleanupEvent | RerouteEvent | ReplanEvent


def events_of(epoch: int, changes: Iterable[Change], cleaning: Cleaning | None) -> list[Event]:
    """The events of one version's changes; ``cleaning`` is what the step before it began to clean."""
    found = (_event(epoch, change, cleaning) for change in changes)
    return [event for event in found if event is not None]


def _event(epoch: int, change: Change, cleaning: Cleaning | None) -> Event | None:
    if isinstance(change, SpillGroups):
        groups = {name: list(some) for name, some in change.groups.items()}
        before, after = LiveBytes(change.live_bytes), LiveBytes(change.live_bytes - change.spilled_bytes)
        spilled = change.spilled_bytes
        return SpillEvent(epoch, change.reason, before, after, change.site, change.strategy, spilled, groups)
    if isinstance(change, FinishCleaning) and cleaning is not None:
        groups_, missing = sorted(cleaning.groups), Groups(change.missing)
        left = Groups(change.missing - len(groups_))
        read, made = change.read_bytes, change.results
        return CleanupEvent(epoch, cleaning.reason, missing, left, cleaning.operator, groups_, read, made)
    if isinstance(change, Reroute):
        return RerouteEvent(epoch, change.reason, Sites(change.sites_before), Sites(change.sites))
    if isinstance(change, ReplacePlan):
        return ReplanEvent(epoch, change.reason, Operators(), Operators(tuple(o.id for o in change.plan.operators)))
    return None


class _File(msgspec.Struct):
    events: list[Event]


@dataclass(frozen=True)
class EventLog:
    """The events of one checkpoint."""

    store: VersionStore

    def all(self) -> list[Event]:
        """All that is retained, oldest first; what the query deletes meanwhile is found where it has been folded."""
        for _ in range(READ_TRIES - 1):
            with suppress(CheckpointCorruptError, FileNotFoundError):
                return self._all()
        return self._all()

    def _all(self) -> list[Event]:
        folded = [event for path in self._paths() for event in self._read(path)]
        return folded + list(self._told(self._covered()))

    def fold(self) -> None:
        """Keep the events of all versions there are, for the versions will go; to be called before any is deleted."""
        versions = self.store.versions()
        covered = self._covered()
        if not versions or versions[-1] <= covered:
            return
        new, paths = list(self._told(covered)), self._paths()
        filled = [*self._read(paths[-1]), *new] if paths else new
        replaces = paths[-1:] if len(filled) <= FILE_EVENTS else []
        kept = filled if replaces or not paths else new
        self.store.storage.create(f"{FOLDER}/{versions[-1]:012d}.json", to_json(_File(kept)))
        self.store.storage.delete([*replaces, *self._paths()[:-RETAINED_FILES]])

    def _told(self, after: int) -> Iterator[Event]:
        """The events of versions that are not folded yet."""
        cleaning: Cleaning | None = None
        for each in self.store.files([version for version in self.store.versions() if version >= after]):
            changes, snapshot = each.file.changes, each.file.snapshot
            if each.version > after:
                yield from events_of(each.version - 1, changes, cleaning)
            cleaning = _cleaning_after(changes, cleaning, None if snapshot is None else snapshot.cleaning)

    def _covered(self) -> int:
        paths = self._paths()
        return _number(paths[-1]) if paths else -1

    def _paths(self) -> list[str]:
        return self.store.storage.list(FOLDER)

    def _read(self, path: str) -> list[Event]:
        return from_json(self.store.storage.read(path), _File).events


def _cleaning_after(changes: Sequence[Change], before: Cleaning | None, snapshot: Cleaning | None) -> Cleaning | None:
    begun = next((change.cleaning for change in changes if isinstance(change, BeginCleaning)), None)
    finished = any(isinstance(change, FinishCleaning) for change in changes)
    return begun or snapshot or (None if finished else before)


def _number(path: str) -> Version:
    return Version(int(path.rsplit("/", 1)[-1].removesuffix(".json")))
