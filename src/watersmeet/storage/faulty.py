"""A storage that fails on purpose, the same way for the same seed.

Whether a call fails is a pure function of the seed, the operation, the path and how often that operation was tried on
that path. Threads, processes and the order of calls do not matter, and a retry draws anew, so it can succeed.

1. Count the try.
2. A ``Fault`` of the plan that names this try decides; otherwise two draws against ``rate`` and ``landed_rate`` do.
3. *Refused*: raise before anything is done. *Landed*: do it, then raise: the commit is there and was reported failed.
4. Bytes written count against ``full_after_bytes``; a write that would exceed it raises ``StorageFullError``, undone.

Counts live in the object, or, with a ``ledger`` folder, in files that all processes of the host share: give one when
the storage travels to Spark's workers, where every task unpickles it afresh.
"""

import fcntl
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from watersmeet.model.errors import StorageError, StorageFullError
from watersmeet.storage.base import ChoosePart, Data, Paths, Sizes, Storage

Operation: TypeAlias = Literal["create", "create_new", "read", "size", "list", "delete", "local"]
OPERATIONS: frozenset[Operation] = frozenset({"create", "create_new", "read", "size", "list", "delete", "local"})
_Result = TypeVar("_Result")
_counting = threading.Lock()  # of the module, as a lock cannot be pickled


@dataclass(frozen=True)
class Fault:
    """One failure to come: the ``nth`` try (from 0) of an operation on paths like ``path``.

    ``landed`` does what is asked before it fails.
    """

    operation: Operation
    path: str = "*"
    nth: int = 0
    landed: bool = False


@dataclass(frozen=True)
class FaultyStorage:
    """Another storage, with failures.

    >>> from watersmeet.storage.remote import FsspecStorage
    >>> inner = FsspecStorage("memory://doctest/faulty", cache="unused")
    >>> storage = FaultyStorage(inner, plan=(Fault("create_new", "manifest/*", landed=True),))
    >>> storage.create_new("manifest/1", b"x")
    Traceback (most recent call last):
    watersmeet.model.errors.StorageError: [StorageError] create_new of manifest/1 failed after it was done: \
try 0 was made to fail. To fix it, try again.
    >>> storage.create_new("manifest/1", b"x")
    False
    >>> inner.delete(["manifest/1"])
    """

    inner: Storage
    seed: int = 0
    rate: float = 0.0
    landed_rate: float = 0.0
    operations: frozenset[Operation] = OPERATIONS
    plan: tuple[Fault, ...] = ()
    full_after_bytes: int | None = None
    ledger: str | None = None
    _counts: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)

    @property
    def url(self) -> str:
        """Where the inner storage is."""
        return self.inner.url

    @property
    def is_remote(self) -> bool:
        """As the inner storage."""
        return self.inner.is_remote

    def create(self, path: str, data: Data) -> None:
        """Create, or fail, or both."""
        self._try("create", path, lambda: self._write(self.inner.create, path, data))

    def create_new(self, path: str, data: Data) -> bool:
        """Create unless it exists, or fail, or both."""
        return self._try("create_new", path, lambda: self._write(self.inner.create_new, path, data))

    def read(self, path: str) -> bytes:
        """Read or fail."""
        return self._try("read", path, lambda: self.inner.read(path))

    def size(self, path: str) -> int | None:
        """Ask for the size or fail."""
        return self._try("size", path, lambda: self.inner.size(path))

    def list(self, folder: str) -> Paths:
        """List or fail."""
        return self._try("list", folder, lambda: self.inner.list(folder))

    def sizes(self, folder: str) -> Sizes:
        """List or fail."""
        return self._try("list", folder, lambda: self.inner.sizes(folder))

    def delete(self, paths: Iterable[str]) -> None:
        """Delete, or fail, or both; all paths together are one try."""
        doomed = list(paths)
        self._try("delete", " ".join(doomed), lambda: self.inner.delete(doomed))

    def local(self, path: str) -> Path:
        """Give the local file or fail."""
        return self._try("local", path, lambda: self.inner.local(path))

    def part(self, path: str, choose: ChoosePart) -> Path | None:
        """Give the part or fail, as of the whole file."""
        return self._try("local", path, lambda: self.inner.part(path, choose))

    def copied(self, folder: str) -> Paths:
        """Never fails."""
        return self.inner.copied(folder)

    def forget(self, paths: Iterable[str]) -> None:
        """Never fails."""
        self.inner.forget(paths)

    def sweep(self, older_than_s: float) -> None:
        """Never fails."""
        self.inner.sweep(older_than_s)

    def _try(self, operation: Operation, path: str, do: Callable[[], _Result]) -> _Result:
        verdict, nth = self._verdict(operation, path)
        if verdict == "refused":
            raise _failure(operation, path, "before", nth)
        result = do()
        if verdict == "landed":
            raise _failure(operation, path, "after", nth)
        return result

    def _verdict(self, operation: Operation, path: str) -> tuple[str, int]:
        nth = self._count(f"{operation} {path}", 1) - 1
        for number, fault in enumerate(self.plan):
            meant = fault.operation == operation and fnmatchcase(path, fault.path)
            if meant and self._count(f"plan {number}", 1) - 1 == fault.nth:
                return ("landed" if fault.landed else "refused"), nth
        if operation not in self.operations:
            return "none", nth
        drawn = _draw(f"{self.seed} {operation} {path} {nth}")
        return _outcome(drawn, self.rate, self.landed_rate), nth

    def _write(self, put: Callable[[str, Data], _Result], path: str, data: Data) -> _Result:
        """Count the bytes, or refuse them when there is no room left; what is refused takes no room."""
        limit, asked = self.full_after_bytes, memoryview(data).nbytes
        if limit is not None and (used := self._count("bytes", asked)) > limit:
            self._count("bytes", -asked)
            why = f"{asked} bytes more than the {limit} there were made to be, {used - asked} are taken"
            raise StorageFullError(f"could not write {path}", why=why, how="raise full_after_bytes")
        return put(path, data)

    def _count(self, key: str, step: int) -> int:
        if self.ledger is None:
            with _counting:
                self._counts[key] += step
                return self._counts[key]
        return _count_in_file(Path(self.ledger, hashlib.sha256(key.encode()).hexdigest()), step)


def _outcome(drawn: float, rate: float, landed_rate: float) -> str:
    """Where a draw falls: [0, rate) refused, [rate, rate + landed_rate) landed, the rest none.

    >>> _outcome(0.1, 0.2, 0.3), _outcome(0.4, 0.2, 0.3), _outcome(0.5, 0.2, 0.3)
    ('refused', 'landed', 'none')
    """
    if drawn < rate:
        return "refused"
    return "landed" if drawn < rate + landed_rate else "none"


def _draw(text: str) -> float:
    """Draw a number in [0, 1) that depends on the text alone.

    >>> _draw("7 read x 0") == _draw("7 read x 0") != _draw("7 read x 1")
    True
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


def _failure(operation: Operation, path: str, when: str, nth: int) -> StorageError:
    what = f"{operation} of {path} failed {when} it was done"
    return StorageError(what, why=f"try {nth} was made to fail", how="try again")


def _count_in_file(file: Path, step: int) -> int:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="ascii") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)
        shared.seek(0)
        count = int(shared.read() or 0) + step
        shared.truncate(0)
        shared.write(str(count))
    return count
