"""Copies of remote objects on this machine, so that they can be memory-mapped.

A copy is downloaded once per host, or left by the host's own writer; all workers of a host share it. It appears whole
(temporary name, size checked, rename), and stands for its object for ever, since objects never change: a storage
whose names are used anew for other content must ``forget`` them first.

Of an object that has much else, a host may keep *parts* instead: small files with names of their own, made of ranges
of its bytes. They are copies like any other, and go when their object would, or when a larger part makes them useless
(``state.held``).

What is kept, so that the disk does not fill up although any process may die:

1. Only what is going to be mapped is kept by its writer (``base.is_mapped``): runs, nothing else.
2. Who works with a checkpoint next on this host drops the copies of what is not live any more, whoever made them
   (``names``, ``drop``; see ``state.runs.forget_runs``).
3. A checkpoint's copies are in a folder with a mark, touched whenever they are used. A sweep removes the folders of
   checkpoints that are gone, or that nobody has used on this host for ``UNUSED_S``; a process that adds copies sweeps
   now and then, as on most hosts there is no driver.

The limit, for each checkpoint in use: what is live of the operators that run on this host, plus what one epoch writes
or cleans up here, because that is dropped when the next one begins. What was live here and moved to another host is
kept until it is not live any more; so is what a driver reads to check or measure it.
"""

import hashlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from watersmeet.model.errors import StorageError
from watersmeet.storage.base import Data, Part, Paths
from watersmeet.storage.failures import reported
from watersmeet.storage.local import LocalStorage

UNUSED_S = 7 * 24 * 3600.0
"""A checkpoint is given up after a week: a query that is stopped over a long weekend finds its copies again."""

SWEEP_INTERVAL_S = 3600.0
"""How often a process that adds copies looks for what is left behind, and how old an unfinished copy then is."""

MARK = ".checkpoint"
_swept_at: dict[str, float] = {}


@dataclass(frozen=True)
class Copies:
    """The copies of one storage's objects, below a folder of their own.

    ``cache`` None is this host's folder for temporary files: asked for where it is used, as hosts may differ.
    """

    url: str
    cache: str | None = None

    def local(self, path: str, size_of: Callable[[str], int | None], download: Callable[[str], None]) -> Path:
        """Give the copy; without one make it: ``download`` fills the file it is given, which must get that size.

        Another process may drop it at any moment: then the file is not there, and is to be asked for again.
        """
        files = self._files
        copy = Path(files.root, path)
        if files.size(path) is not None:
            return copy
        if (size := size_of(path)) is None:
            raise FileNotFoundError(f"{self.url}/{path}")
        with reported("copy", f"{self.url}/{path}"):
            self._prepare(files)
            with files.fresh(path) as temporary:
                download(str(temporary))
                _check(self.url, path, temporary.stat().st_size, size)
                files.flush(temporary)
                temporary.replace(copy)
        return copy

    def part(self, path: str, choose: Callable[[], Part | None]) -> Path | None:
        """Give the copy of a part, unless there is a copy of the whole: one that is here, or is made of its data.

        None if there is neither. A part that cannot be kept is none: the whole is downloaded when it is needed.
        """
        files = self._files
        if files.size(path) is not None or (part := choose()) is None:
            return None
        if part.data is not None and not self.put(part.name, part.data):
            return None
        if files.size(part.name) is None:
            raise FileNotFoundError(f"the copy of {self.url}/{part.name}")
        return Path(files.root, part.name)

    def put(self, path: str, data: Data) -> bool:
        """Keep what was just written, and tell whether it was kept; if not, it is downloaded when it is needed."""
        try:
            files = self._files
            self._prepare(files)
            files.create(path, data)
        except StorageError:
            self.drop([path])
            return False
        return True

    def names(self, folder: str) -> Paths:
        """Name the objects below a folder that have a copy here; who asks is using them."""
        files = self._files
        with suppress(FileNotFoundError):
            os.utime(_mark(files))
        return files.list(folder)

    def drop(self, paths: Iterable[str]) -> None:
        """Remove copies; mapped ones stay readable until they are unmapped."""
        self._files.delete(paths)

    def sweep(self, older_than_s: float, is_gone: Callable[[str], bool] = lambda _: False) -> None:
        """Remove unfinished copies of workers that died, and all copies of checkpoints that nobody uses."""
        files = self._files
        _swept_at[files.root] = time.monotonic()
        files.sweep(older_than_s)
        limit = time.time() - UNUSED_S
        for url, mark in _marked(Path(files.root).parent):
            with suppress(OSError):
                if url != self.url and (mark.stat().st_mtime <= limit or is_gone(url)):
                    shutil.rmtree(mark.parent, ignore_errors=True)

    def _prepare(self, files: LocalStorage) -> None:
        """Mark the folder as ours and in use, and now and then make room beside it."""
        mark = _mark(files)
        with reported("mark", str(mark)):
            try:
                os.utime(mark)
            except FileNotFoundError:
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.write_text(self.url)
        if time.monotonic() - _swept_at.get(files.root, -math.inf) > SWEEP_INTERVAL_S:
            self.sweep(SWEEP_INTERVAL_S)

    @property
    def _files(self) -> LocalStorage:
        below = self.cache or _private(Path(tempfile.gettempdir(), f"watersmeet-{os.getuid()}"))
        return LocalStorage(str(Path(below, _folder(self.url))))


def _folder(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def _mark(files: LocalStorage) -> Path:
    return Path(files.root, MARK)


def _marked(below: Path) -> Iterator[tuple[str, Path]]:
    """The checkpoints that have copies in a place, with their marks; what else is there is none of our business."""
    for mark in below.glob(f"*/{MARK}"):
        with suppress(OSError, UnicodeDecodeError):
            url = mark.read_text()
            if mark.parent.name == _folder(url):
                yield url, mark


def _private(folder: Path) -> Path:
    """Make a folder of our own in a place where anyone may have made one of that name before."""
    with reported("make the cache", str(folder)):
        folder.mkdir(mode=0o700, exist_ok=True)
        owner = folder.stat().st_uid
    if owner != os.getuid():
        raise StorageError(
            f"the cache {folder} belongs to user {owner}",
            why="copies of state there could be changed by others",
            how="remove it, or set the option copyLocation or TMPDIR to a folder of your own",
        )
    return folder


def _check(url: str, path: str, got: int, expected: int) -> None:
    if got != expected:
        what = f"the copy of {url}/{path} has {got} bytes of {expected}"
        raise StorageError(what, why="the download was cut off", how="start the query again; it goes on where it was")
