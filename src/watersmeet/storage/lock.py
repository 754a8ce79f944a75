"""Who owns a checkpoint on this machine: an exclusive advisory lock on a local file.

The kernel holds the lock for an open file, so it ends with its process however that ends, and a second ``acquire``
conflicts in the same process too. The file stays: were it removed, two owners could hold locks on two files of one
name. It says who took it last, for the message to whoever comes second.

The lock fences a second driver early and cheaply where both see the same file system with working locks. Where they
do not, ``create_new`` of the manifest still lets only one of them commit.
"""

import fcntl
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from watersmeet.storage.failures import reported

_HOLDER_BYTES = 200


@dataclass
class Lock:
    """A lock that is held until ``release``, the end of a ``with`` or the end of the process.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Lock.acquire(folder.name + "/lock") as lock:
    ...     Lock.acquire(folder.name + "/lock") is None
    True
    >>> folder.cleanup()
    """

    path: Path
    _descriptor: int | None

    @classmethod
    def acquire(cls, path: str | Path) -> Self | None:
        """Take the lock, or None at once if another holds it."""
        with reported("lock", str(path)):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.truncate(descriptor, 0)
                os.write(descriptor, _signature())
            except OSError as error:
                os.close(descriptor)
                if isinstance(error, BlockingIOError):
                    return None
                raise
            return cls(Path(path), descriptor)

    @staticmethod
    def holder(path: str | Path) -> str:
        """Say who took the lock last, as ``process 4711 on host``."""
        with reported("read", str(path)):
            return Path(path).read_bytes()[:_HOLDER_BYTES].decode(errors="replace") or "unknown"

    def release(self) -> None:
        """Let others take it; a second call does nothing."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # forked children share the open file: closing is not enough
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def _signature() -> bytes:
    return f"process {os.getpid()} on {socket.gethostname()}".encode()[:_HOLDER_BYTES]
