"""Garbage is what no retained manifest names.

After a commit the versions beyond ``retained`` go, but for those that retained ones are made of: the last snapshot
before them and the changes since. Runs that no retained version names go, too. Runs of tasks that
failed or were repeated are named by no manifest at all; they are found by listing, now and then, and deleted once the
epoch that wrote them is committed, for then it is certain that no commit will ever name them.
"""

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from watersmeet.model.errors import StorageError
from watersmeet.model.ids import Version
from watersmeet.state import runs, versions
from watersmeet.state.event_log import EventLog
from watersmeet.state.manifest import Manifest
from watersmeet.state.runs import epoch_of
from watersmeet.state.versions import VersionStore

LISTING_INTERVAL = 64
LEFTOVER_AGE_S = 3600.0
_LOG = logging.getLogger("watersmeet")


@dataclass
class Collector:
    """Deletes what is no longer named, of one checkpoint."""

    store: VersionStore
    retained: int
    _kept: deque[tuple[Version, frozenset[str]]] = field(default_factory=deque)
    _snapshots: list[Version] = field(default_factory=list)

    def start(self) -> None:
        """Learn what the stored versions name, and delete what earlier drivers left behind."""
        first, retained = self.store.recent(self.retained)
        self._kept = deque((manifest.version, _named(manifest)) for manifest in retained)
        self._snapshots = sorted({first, self.store.snapshot})
        EventLog(self.store).fold()
        self._delete_versions(self._snapshots[0])
        self._sweep()

    def committed(self, manifest: Manifest) -> None:
        """Drop what the new version makes garbage; a file that cannot be deleted now is found by a later listing."""
        try:
            self._collect(manifest)
        except StorageError as error:
            _LOG.warning("garbage of version %d stays for now: %s", manifest.version, error)

    def _collect(self, manifest: Manifest) -> None:
        self._kept.append((manifest.version, _named(manifest)))
        if self.store.snapshot == manifest.version:
            self._snapshots.append(manifest.version)
            EventLog(self.store).fold()
        gone: set[str] = set()
        while len(self._kept) > self.retained:
            gone |= self._kept.popleft()[1]
        self._delete(gone - self._named())
        self._forget_snapshots()
        if manifest.version % LISTING_INTERVAL == 0:
            self._sweep()

    def _forget_snapshots(self) -> None:
        """Delete the versions before the last snapshot that is not younger than all retained versions."""
        while len(self._snapshots) > 1 and self._snapshots[1] <= self._kept[0][0]:
            self._snapshots.pop(0)
            self._delete_versions(self._snapshots[0])

    def _delete_versions(self, before: Version) -> None:
        stale = [version for version in self.store.versions() if version < before]
        self.store.storage.delete(versions.path_of(version) for version in stale)

    def _sweep(self) -> None:
        last = self._kept[-1][0] if self._kept else -1
        named = self._named()
        stored = self.store.storage.list(runs.FOLDER)
        self._delete(path for path in stored if path not in named and epoch_of(path) < last)
        self.store.storage.sweep(LEFTOVER_AGE_S)

    def _named(self) -> frozenset[str]:
        return frozenset().union(*(named for _, named in self._kept))

    def _delete(self, paths: Iterable[str]) -> None:
        gone = list(paths)
        self.store.storage.delete(gone)
        self.store.storage.forget(gone)


def _named(manifest: Manifest) -> frozenset[str]:
    return runs.paths([*manifest.runs.values(), *manifest.promise_runs])
