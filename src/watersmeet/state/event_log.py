"""The events of a checkpoint, as far back as they are kept.

Those of versions since the last snapshot are told from these; when a snapshot is taken, those before it are *folded*
into a file of their own, as their versions will be deleted. Such files are filled up to `FILE_EVENTS`, and the oldest
go when there are more than `RETAINED_FILES`.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import Version
from watersmeet.state.changes import BeginCleaning, Change, FinishCleaning
from watersmeet.state.events import Event, events_of
from watersmeet.state.manifest import Cleaning
from watersmeet.state.stored import from_json, to_json
from watersmeet.state.versions import VersionStore

FOLDER = "events"
FILE_EVENTS = 500
RETAINED_FILES = 20
READ_TRIES = 3


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
