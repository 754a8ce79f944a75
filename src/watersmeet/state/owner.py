"""Who owns a checkpoint, on any storage: the driver that took it last.

1. A driver that opens a checkpoint creates the next numbered object, exclusively: ``owners/<number>.json`` with its id,
   host and process. Whatever storage answers, it reads the object back: it has the number if the object is its own.
2. It lists the numbers again. If there is a higher one, others were quicker, and it begins anew: so no number is ever
   had twice, although old ones are deleted.
3. It deletes all but the last two.
4. Before it gives anything to the sink, and before it commits, it checks that no higher number is there and its own
   still is: one listing of a folder that has two objects in it.

A driver that was taken over from learns so at its next check, and not before: what is under way at both is fenced off
by the commit (`versions`). The highest number is never deleted, so whoever has a lower one never passes a check again.

Where storage cannot create exclusively, two drivers that start in the same instant may have the same number; see
`watersmeet.storage.exclusive`.
"""

import logging
import os
import socket
import uuid
from dataclasses import dataclass
from typing import Self

import msgspec

from watersmeet.model.errors import CheckpointInUseError, StorageError
from watersmeet.storage.base import Storage

FOLDER = "owners"
KEPT = 2
TRIES_MAX = 100
"""Each try that fails is another driver's success: as many drivers do not start at once."""

_LOG = logging.getLogger("watersmeet")


class Owner(msgspec.Struct, frozen=True):
    """A driver; ``take`` tells apart two times that it took the checkpoint."""

    driver: str
    host: str
    process: int
    take: str

    @classmethod
    def here(cls, driver: str) -> Self:
        """This process."""
        return cls(driver, socket.gethostname(), os.getpid(), uuid.uuid4().hex)

    def __str__(self) -> str:
        return f"driver {self.driver} (process {self.process} on {self.host})"


@dataclass(frozen=True)
class Ownership:
    """A checkpoint taken by this driver, until another takes it.

    >>> from watersmeet.storage.remote import FsspecStorage
    >>> storage = FsspecStorage("memory://doctest/owned")
    >>> first = take(storage, "a1")
    >>> first.check()
    >>> second = take(storage, "b2")
    >>> first.check()
    Traceback (most recent call last):
    watersmeet.model.errors.CheckpointInUseError: [CheckpointInUseError] memory://doctest/owned was taken over from \
this driver: driver b2 (process ... on ...) opened it later, so this one stopped before it gave more rows to the \
sink. To fix it, make sure that only one driver runs this query; to continue with this one, stop the other and start \
this one again.
    >>> second.check()
    """

    storage: Storage
    number: int

    def check(self) -> None:
        """Raise if this driver is not the owner any more."""
        numbers = _numbers(self.storage)
        if numbers and numbers[-1] > self.number:
            raise self._lost(f"{_named(self.storage, numbers[-1])} opened it later")
        if self.number not in numbers:
            raise self._lost(f"its mark {path_of(self.number)} was removed, so other drivers cannot see it")

    def _lost(self, why: str) -> CheckpointInUseError:
        return CheckpointInUseError(
            f"{self.storage.url} was taken over from this driver",
            why=f"{why}, so this one stopped before it gave more rows to the sink",
            how="make sure that only one driver runs this query; to continue with this one, stop the other and start "
            "this one again",
        )


def take(storage: Storage, driver: str) -> Ownership:
    """Own a checkpoint from now on; whoever owned it until now learns so at its next check."""
    mark = msgspec.json.encode(Owner.here(driver))
    for _ in range(TRIES_MAX):
        number = max(_numbers(storage), default=0) + 1
        if _lands(storage, path_of(number), mark) and (numbers := _numbers(storage))[-1:] == [number]:
            _tidy(storage, numbers[:-KEPT])
            return Ownership(storage, number)
    raise CheckpointInUseError(
        f"{storage.url} could not be taken in {TRIES_MAX} tries",
        why="each time another driver was quicker",
        how="make sure that only one driver runs this query",
    )


def path_of(number: int) -> str:
    """Where an owner is named, in the order of owners.

    >>> path_of(7)
    'owners/000000000007.json'
    """
    return f"{FOLDER}/{number:012d}.json"


def _numbers(storage: Storage) -> list[int]:
    names = (path.rsplit("/", 1)[-1].removesuffix(".json") for path in storage.list(FOLDER))
    return sorted(int(name) for name in names if name.isdigit())


def _lands(storage: Storage, path: str, mark: bytes) -> bool:
    """Create an object, and look whose it is; a failure is one only if nobody's is there."""
    try:
        storage.create_new(path, mark)
    except StorageError:
        found = _read(storage, path)
        if found is None:
            raise
        return found == mark
    return _read(storage, path) == mark


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except FileNotFoundError:
        return None


def _tidy(storage: Storage, old: list[int]) -> None:
    """Delete the marks of former owners; those that stay do no harm."""
    try:
        storage.delete(map(path_of, old))
    except StorageError as error:
        _LOG.warning("marks of former owners of %s stay for now: %s", storage.url, error)


def _named(storage: Storage, number: int) -> str:
    """Say who has a number, as far as that can be read."""
    try:
        return str(msgspec.json.decode(storage.read(path_of(number)), type=Owner))
    except (FileNotFoundError, StorageError, msgspec.DecodeError):
        return "another driver"
