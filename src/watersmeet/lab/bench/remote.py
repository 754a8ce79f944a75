"""A stand-in for remote storage: a local folder that answers like an object store, late and one stream at a time.

Every request takes `REQUEST_S`, and bytes come and go with `BYTES_PER_S`. Our storage reaches it as it reaches any
other service, through fsspec. Spark's workers import this module, and thereby know the protocol, when they unpack a
`StandInStorage`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from watersmeet.storage.remote import FsspecStorage

PROTOCOL = "standin"
REQUEST_S = 0.02
BYTES_PER_S = 100e6


class StandIn(DirFileSystem):  # type: ignore[misc]  # fsspec ships no types
    """The objects of a folder."""

    protocol = PROTOCOL

    def __init__(self, folder: str, **rest: object) -> None:
        super().__init__(path=folder, fs=LocalFileSystem(auto_mkdir=True), **rest)

    def pipe_file(self, path: str, value: bytes, **rest: object) -> None:
        """Upload."""
        _pass_time(len(value))
        super().pipe_file(path, value, **rest)

    def cat_file(self, path: str, **rest: object) -> bytes:
        """Download into memory."""
        data = bytes(super().cat_file(path, **rest))
        _pass_time(len(data))
        return data

    def cat_ranges(self, paths: list[str], starts: list[int], ends: list[int], **rest: object) -> list[bytes]:
        """Download ranges, all at the same time."""
        data = [bytes(each) for each in super().cat_ranges(paths, starts, ends, **rest)]
        _pass_time(sum(map(len, data)))
        return data

    def get_file(self, rpath: str, lpath: str, **rest: object) -> None:
        """Download into a file."""
        super().get_file(rpath, lpath, **rest)
        _pass_time(Path(lpath).stat().st_size)


def _delayed(name: str) -> Callable[..., Any]:
    def ask(self: StandIn, *arguments: object, **rest: object) -> object:
        _pass_time()
        return getattr(super(StandIn, self), name)(*arguments, **rest)

    return ask


def _pass_time(size_bytes: int = 0) -> None:
    time.sleep(REQUEST_S + size_bytes / BYTES_PER_S)


for request in ("exists", "find", "info", "modified", "open", "rm", "rm_file"):
    setattr(StandIn, request, _delayed(request))
fsspec.register_implementation(PROTOCOL, StandIn, clobber=True)


@dataclass(frozen=True)
class StandInStorage(FsspecStorage):
    """Storage on the stand-in."""


def stand_in(checkpoint: Path, cache: Path) -> StandInStorage:
    """The storage of a checkpoint's state, whose hosts keep their copies in a folder; its URL is always the same.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> storage = stand_in(folder / "checkpoint", folder / "copies")
    >>> storage.create("runs/1", b"rows"), storage.list(""), storage.local("runs/1").read_bytes()
    (None, ['runs/1'], b'rows')
    >>> (folder / "checkpoint/state/runs/1").read_bytes()
    b'rows'
    """
    return StandInStorage(f"{PROTOCOL}://state", str(cache), {"folder": str(checkpoint)})
