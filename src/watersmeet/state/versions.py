"""Versions of the manifest in storage: reading the last one, committing the next one, all or nothing.

A version is one object, created exclusively: whoever creates version *n+1* first has committed it, and any other
driver on the same checkpoint is thereby fenced off. There is no rename and no pointer to update.

A commit lands, is refused (somebody else's version is there), or its outcome is unknown (the storage failed while
answering). Unknown is settled by reading: if the object is there and is ours, it landed.
"""

import zlib
from dataclasses import dataclass

import msgspec

from watersmeet.model.errors import (
    CheckpointCorruptError,
    CheckpointInUseError,
    CheckpointMismatchError,
    StorageError,
)
from watersmeet.model.ids import Version
from watersmeet.state.manifest import FORMAT, Manifest
from watersmeet.storage.base import Storage

FOLDER = "manifest"


class _Envelope(msgspec.Struct):
    checksum: int
    body: msgspec.Raw


class _Header(msgspec.Struct):
    format: int


@dataclass(frozen=True)
class VersionStore:
    """The versions of one checkpoint."""

    storage: Storage

    def versions(self) -> list[Version]:
        """The versions that are stored, oldest first."""
        names = (path.rsplit("/", 1)[-1].removesuffix(".json") for path in self.storage.list(FOLDER))
        return [Version(int(name)) for name in sorted(names) if name.isdigit()]

    def latest(self) -> Manifest | None:
        """The last committed manifest, or None where nothing was committed yet."""
        versions = self.versions()
        return self.read(versions[-1]) if versions else None

    def read(self, version: Version) -> Manifest:
        """A manifest, checked."""
        return decode(self.storage.read(path_of(version)), f"{self.storage.url}/{path_of(version)}")

    def commit(self, manifest: Manifest) -> None:
        """Make a manifest the next version, or raise without having done so."""
        data = encode(manifest)
        path = path_of(manifest.version)
        try:
            landed = self.storage.create_new(path, data)
        except StorageError:
            if not self._is_ours(path, data):
                raise
            landed = True
        if not landed and not self._is_ours(path, data):
            raise CheckpointInUseError(
                f"version {manifest.version} of {self.storage.url} was committed by another driver",
                why="two drivers run the same query on one checkpoint, and this one lost",
                how="stop one of them; the results of the other are complete",
            )

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


def encode(manifest: Manifest) -> bytes:
    """A manifest as JSON in a checksummed envelope."""
    body = msgspec.json.encode(manifest)
    return msgspec.json.encode(_Envelope(zlib.crc32(body), msgspec.Raw(body)))


def decode(data: bytes, name: str) -> Manifest:
    """The manifest of an envelope, refusing what is damaged or of a newer format."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        body = bytes(envelope.body)
        if zlib.crc32(body) != envelope.checksum:
            raise _corrupt(name, "its checksum does not match its content")
        found = msgspec.json.decode(body, type=_Header).format
        if found > FORMAT:
            raise CheckpointMismatchError(
                f"{name} has format {found}",
                why=f"this version of Watersmeet reads formats up to {FORMAT}",
                how="use the version that wrote it, or a newer one",
            )
        return msgspec.json.decode(body, type=Manifest)
    except msgspec.DecodeError as error:
        raise _corrupt(name, f"it cannot be read ({error})") from error


def _corrupt(name: str, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{name} is damaged", why=why, how="restore the file from a copy, or start with a new checkpointLocation"
    )
