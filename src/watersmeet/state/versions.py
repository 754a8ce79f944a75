"""Versions of the manifest in storage: reading the last one, committing the next one, all or nothing.

A version is one object, created exclusively: whoever creates version *n+1* first has committed it, and any other
driver on the same checkpoint is thereby fenced off. There is no rename and no pointer to update.

1. A version holds its *changes*, so that its size follows what happened and not what is kept. Now and then it also
   holds a *snapshot*, the whole manifest: when the changes since the last one weigh as much as that did, at least
   `SNAPSHOT_LEAST` and at most `SNAPSHOT_MOST` versions later. So snapshots cost no more than changes, and reading
   takes no longer than reading twice the state.
2. Reading a version is applying the changes since the last snapshot before it.
3. A commit lands, is refused (somebody else's version is there), or its outcome is unknown (the storage failed while
   answering). Unknown is settled by reading: if the object is there and is ours, it landed.

Manifests are checked at both doors (`invariants`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from watersmeet.model.errors import CheckpointCorruptError, CheckpointInUseError, StorageError
from watersmeet.model.ids import Version
from watersmeet.state.applying import apply_all
from watersmeet.state.changes import Change
from watersmeet.state.invariants import check
from watersmeet.state.manifest import Manifest
from watersmeet.state.stored import corrupt, seal, unseal
from watersmeet.storage.base import Storage

FOLDER = "manifest"
SNAPSHOT_LEAST, SNAPSHOT_MOST = 8, 64
READ_THREADS = 16


class VersionFile(msgspec.Struct, frozen=True):
    """A version as it is stored; the ``writer`` tells those of two drivers apart that are alike."""

    version: Version
    changes: tuple[Change, ...] = ()
    snapshot: Manifest | None = None
    writer: str = ""


@dataclass(frozen=True)
class StoredVersion:
    """A version that was read; whether it can be used is known when it is looked at."""

    version: Version
    data: bytes | None
    name: str

    @cached_property
    def file(self) -> VersionFile:
        """Its content, refused if it is missing or damaged."""
        if self.data is None:
            raise corrupt(self.name, "it is missing, and later versions build on it")
        return unseal(self.data, VersionFile, self.name)

    @property
    def bytes(self) -> int:
        """Its size."""
        return len(self.data or b"")


@dataclass
class VersionStore:
    """The versions of one checkpoint. It remembers what has been written since the last snapshot."""

    storage: Storage
    writer: str = ""
    snapshot: Version = field(default_factory=lambda: Version(0))
    snapshot_bytes: int = 0
    changes_bytes: int = 0

    def versions(self) -> list[Version]:
        """The versions that are stored, oldest first."""
        names = (path.rsplit("/", 1)[-1].removesuffix(".json") for path in self.storage.list(FOLDER))
        return [Version(int(name)) for name in sorted(names) if name.isdigit()]

    def latest(self) -> Manifest | None:
        """The last committed manifest, or None where nothing was committed yet."""
        versions = self.versions()
        if not versions:
            return None
        snapshot, *later = self._chain(versions[-1])
        self.snapshot, self.snapshot_bytes = snapshot.version, snapshot.bytes
        self.changes_bytes = sum(each.bytes for each in later)
        return self._made_of(snapshot, later)[-1]

    def read(self, version: Version) -> Manifest:
        """A manifest, made of the last snapshot before it and the changes since, and checked."""
        snapshot, *later = self._chain(version)
        return self._made_of(snapshot, later)[-1]

    def recent(self, count: int) -> tuple[Version, list[Manifest]]:
        """The last so many manifests, oldest first, as far as they can be read; and the first version they need."""
        *earlier, last = self.versions()[-count:]
        for first in earlier:
            try:
                return self._since(first, last)
            except CheckpointCorruptError:  # only what the last one is made of has to be whole
                continue
        return self._since(last, last)

    def _since(self, first: Version, last: Version) -> tuple[Version, list[Manifest]]:
        snapshot, *later = self._chain(last, until=first)
        return snapshot.version, [each for each in self._made_of(snapshot, later) if each.version >= first]

    def files(self, versions: Sequence[Version]) -> list[StoredVersion]:
        """Versions as they are stored."""
        if len(versions) <= 1:
            return [self._file(version) for version in versions]
        with ThreadPoolExecutor(min(READ_THREADS, len(versions))) as pool:
            return list(pool.map(self._file, versions))

    def _chain(self, version: Version, until: Version | None = None) -> list[StoredVersion]:
        """A snapshot and the versions that follow it up to one; the snapshot is not younger than ``until``."""
        chain: list[StoredVersion] = []
        oldest = version if until is None else until
        for last in range(version, -1, -READ_THREADS):
            for each in reversed(self.files([Version(n) for n in range(max(0, last - READ_THREADS + 1), last + 1)])):
                chain.insert(0, each)
                if each.file.snapshot is not None and each.version <= oldest:
                    return chain
        raise corrupt(f"{self.storage.url}/{path_of(version)}", "there is no snapshot that it could be made of")

    def _made_of(self, snapshot: StoredVersion, later: Sequence[StoredVersion]) -> list[Manifest]:
        if snapshot.file.snapshot is None:
            raise ValueError(snapshot.version)
        made = [snapshot.file.snapshot]
        for each in later:
            made.append(apply_all(made[-1], each.file.changes))
        check(made[-1], f"{self.storage.url}/{path_of(made[-1].version)}")
        return made

    def _file(self, version: Version) -> StoredVersion:
        name = f"{self.storage.url}/{path_of(version)}"
        try:
            data = self.storage.read(path_of(version))
        except FileNotFoundError:
            data = None
        return StoredVersion(version, data, name)

    def begin(self, manifest: Manifest) -> None:
        """Commit the first version of all."""
        check(manifest)
        self._commit(VersionFile(manifest.version, snapshot=manifest, writer=self.writer))

    def commit(self, before: Manifest, changes: Sequence[Change]) -> Manifest:
        """Make the next version of some changes, or raise without having done so; gives the manifest after them."""
        after = apply_all(before, changes)
        if after.version != before.version + 1:
            raise ValueError(f"changes lead from version {before.version} to {after.version}")
        check(after)
        snapshot = after if self._is_due(after.version) else None
        self._commit(VersionFile(after.version, tuple(changes), snapshot, self.writer))
        return after

    def _is_due(self, version: int) -> bool:
        """Whether a version should hold a snapshot."""
        age = version - self.snapshot
        return age >= SNAPSHOT_MOST or (age >= SNAPSHOT_LEAST and self.changes_bytes >= self.snapshot_bytes)

    def _commit(self, file: VersionFile) -> None:
        data, path = seal(file), path_of(file.version)
        try:
            landed = self.storage.create_new(path, data)
        except StorageError:
            if not self._is_ours(path, data):
                raise
            landed = True
        if not landed and not self._is_ours(path, data):
            raise CheckpointInUseError(
                f"version {file.version} of {self.storage.url} was committed by another driver",
                why="two drivers run the same query on one checkpoint, and this one lost; what it has given to the "
                "sink for this epoch, the other gives too",
                how="stop one of them",
            )
        if file.snapshot is not None:
            self.snapshot, self.snapshot_bytes, self.changes_bytes = file.version, len(data), 0
        else:
            self.changes_bytes += len(data)

    def _is_ours(self, path: str, data: bytes) -> bool:
        try:
            return self.storage.read(path) == data
        except FileNotFoundError:
            return False


def path_of(version: int) -> str:
    """Where a version is stored, in the order of versions.

    >>> path_of(12)
    'manifest/000000000012.json'
    """
    return f"{FOLDER}/{version:012d}.json"
