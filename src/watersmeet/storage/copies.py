"""Copies of remote objects on this machine, so that they can be memory-mapped.

A copy is downloaded once per host, or left by the host's own writer; all workers of a host share it. It appears whole
(temporary name, size checked, rename), and stands for its object for ever, since objects never change: a storage
whose names are used anew for other content must ``forget`` them first.

There is no limit and no eviction: what is kept is what is live, because the garbage collector calls ``forget`` for
every run that no retained manifest names, and so does who looks into a spilled one. The disk must hold the live state
that this host's sites read; a driver that opens a checkpoint has a copy of every run while it checks them.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from watersmeet.model.errors import StorageError
from watersmeet.storage.base import Data
from watersmeet.storage.failures import reported
from watersmeet.storage.local import LocalStorage


@dataclass(frozen=True)
class Copies:
    """The copies of one storage's objects, below a folder of their own.

    ``cache`` None is this host's folder for temporary files: asked for where it is used, as hosts may differ.
    """

    url: str
    cache: str | None = None

    def local(self, path: str, size_of: Callable[[str], int | None], download: Callable[[str], None]) -> Path:
        """Give the copy; without one make it: ``download`` fills the file it is given, which must get that size."""
        if self._files.size(path) is not None:
            return self._files.local(path)
        if (size := size_of(path)) is None:
            raise FileNotFoundError(f"{self.url}/{path}")
        with reported("copy", f"{self.url}/{path}"), self._files.fresh(path) as temporary:
            download(str(temporary))
            _check(self.url, path, temporary.stat().st_size, size)
            self._files.flush(temporary)
            temporary.replace(Path(self._files.root, path))
        return self._files.local(path)

    def put(self, path: str, data: Data) -> None:
        """Keep what was just written; a copy that cannot be kept is downloaded when it is needed."""
        try:
            self._files.create(path, data)
        except StorageError:
            self.drop([path])

    def drop(self, paths: Iterable[str]) -> None:
        """Remove copies; mapped ones stay readable until they are unmapped."""
        self._files.delete(paths)

    def sweep(self, older_than_s: float) -> None:
        """Remove the temporary files of workers that died."""
        self._files.sweep(older_than_s)

    @property
    def _files(self) -> LocalStorage:
        below = self.cache or _private(Path(tempfile.gettempdir(), f"watersmeet-{os.getuid()}"))
        return LocalStorage(str(Path(below, hashlib.sha256(self.url.encode()).hexdigest()[:16])))


def _private(folder: Path) -> Path:
    """Make a folder of our own in a place where anyone may have made one of that name before."""
    with reported("make the cache", str(folder)):
        folder.mkdir(mode=0o700, exist_ok=True)
        owner = folder.stat().st_uid
    if owner != os.getuid():
        raise StorageError(
            f"the cache {folder} belongs to user {owner}",
            why="copies of state there could be changed by others",
            how="remove it or set TMPDIR to a folder of your own",
        )
    return folder


def _check(url: str, path: str, got: int, expected: int) -> None:
    if got != expected:
        what = f"the copy of {url}/{path} has {got} bytes of {expected}"
        raise StorageError(what, why="the download was cut off", how="start the query again; it goes on where it was")
