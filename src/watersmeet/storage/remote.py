"""Objects on any file system that fsspec can open: S3, Azure, Google Cloud Storage, HDFS, ...

| operation | how |
|---|---|
| ``create`` | object stores put whole objects; file systems get a temporary file, renamed |
| ``create_new`` | see ``exclusive``: the table says what holds for which file system |
| ``local`` | a copy on this host, downloaded once, or left here by ``create`` of what is mapped; see ``copies`` |

Credentials are found where fsspec looks: the provider's own environment and files, fsspec's configuration, or
``options``. A file system is opened where it is used and never travels; fsspec keeps one per process. Listings that a
library keeps are dropped before every question, as other processes write too.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from glob import has_magic
from pathlib import Path
from typing import Any

import fsspec
from fsspec import AbstractFileSystem

from watersmeet.storage.base import (
    ChoosePart,
    Data,
    Paths,
    Pieces,
    Ranges,
    Sizes,
    check_folder,
    check_path,
    is_hidden,
    is_mapped,
    is_temporary,
)
from watersmeet.storage.copies import Copies
from watersmeet.storage.exclusive import Exclusion, exclusion, leaves_twins, put_new, renames
from watersmeet.storage.failures import reported
from watersmeet.storage.twins import finished_size, read_finished, to_sweep, twin_name, unfinished

SCHEMES: Mapping[str, str] = {
    "s3a": "s3",
    "s3n": "s3",
    "wasb": "abfs",
    "wasbs": "abfs",
    "abfss": "abfs",
    "gcs": "gs",
}
"""Spark's names of file systems, and fsspec's, where they differ."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FsspecStorage:
    """Objects are the files below ``url``; copies of them are kept below ``cache`` on each host.

    >>> storage = FsspecStorage("memory://doctest/checkpoint", cache="unused")
    >>> storage.create_new("manifest/1", b"first"), storage.create_new("manifest/1", b"second")
    (True, False)
    >>> storage.read("manifest/1"), storage.list("")
    (b'first', ['manifest/1'])
    >>> storage.delete(["manifest/1"])
    """

    url: str
    cache: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    @property
    def is_remote(self) -> bool:
        """Copies are mapped."""
        return True

    def create(self, path: str, data: Data) -> None:
        """Put the object, and keep a copy of it on this host if it is going to be mapped."""
        with reported("write", self._named(path)):
            if renames(self._fs):
                self._put_renamed(path, bytes(data))
            else:
                self._fs.pipe_file(self._full(path), bytes(data))
        if is_mapped(path):
            self._copies.put(path, data)
        else:
            self._copies.drop([path])  # of what was there before

    def create_new(self, path: str, data: Data) -> bool:
        """Put the object unless there is one, as far as the file system can tell."""
        with reported("write", self._named(path)):
            _warn_once(self.url, exclusion(self._fs))
            self._make_folder(self._full(path))
            return put_new(self._fs, self._full(path), bytes(data))

    def read(self, path: str) -> bytes:
        """Fetch the whole object; nothing is kept."""
        with reported("read", self._named(path), passing=(FileNotFoundError,)):
            if leaves_twins(self._fs):
                return read_finished(self._fs, self._full(path))
            return bytes(self._fs.cat_file(self._full(path)))

    def size(self, path: str) -> int | None:
        """Ask for the object's size."""
        with reported("look at", self._named(path)), suppress(FileNotFoundError, NotADirectoryError):
            if leaves_twins(self._fs):
                return finished_size(self._fs, self._full(path))
            info = self._fresh_fs.info(self._full(path))
            return int(info["size"]) if info["type"] == "file" else None
        return None

    def list(self, folder: str) -> Paths:
        """Find all files below a folder."""
        below = check_folder(folder)
        with reported("list", f"{self.url}/{below}"), suppress(FileNotFoundError):
            top = f"{self._root}/{below}".rstrip("/")
            found = [str(file) for file in self._fresh_fs.find(top)]
            torn = self._unfinished(found)
            files = (file.removeprefix(self._root).lstrip("/") for file in found if file not in torn)
            return sorted(file for file in files if not is_hidden(file))
        return []

    def sizes(self, folder: str) -> Sizes:
        """Find all files below a folder, with what the listing tells of them."""
        below = check_folder(folder)
        with reported("list", f"{self.url}/{below}"), suppress(FileNotFoundError):
            found = self._fresh_fs.find(f"{self._root}/{below}".rstrip("/"), detail=True)
            torn = self._unfinished([str(file) for file in found])
            whole = {str(file): info for file, info in found.items() if str(file) not in torn}
            named = {file.removeprefix(self._root).lstrip("/"): info for file, info in whole.items()}
            return {path: int(info["size"]) for path, info in sorted(named.items()) if not is_hidden(path)}
        return {}

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects, all in one request where the service can, and their copies here."""
        doomed = list(paths)
        self.forget(doomed)
        with reported("delete", f"{len(doomed)} objects of {self.url}"):
            files = [self._full(path) for path in doomed]
            try:
                if files and not any(map(has_magic, files)):  # a name would be taken for a pattern
                    self._fs.rm(files)
                    return
            except FileNotFoundError:
                pass
            self._delete_each(files)

    def local(self, path: str) -> Path:
        """Give this host's copy, downloaded if there is none."""
        return self._copies.local(path, self.size, lambda file: self._fs.get_file(self._full(path), file))

    def part(self, path: str, choose: ChoosePart) -> Path | None:
        """Give this host's copy of a part, made of what is fetched if there is none."""
        return self._copies.part(path, lambda: choose(lambda ranges: self._read_ranges(path, ranges)))

    def copied(self, folder: str) -> Paths:
        """Look into this host's folder of copies."""
        with reported("list the copies of", self.url):
            return self._copies.names(check_folder(folder))

    def forget(self, paths: Iterable[str]) -> None:
        """Remove this host's copies."""
        self._copies.drop(paths)

    def sweep(self, older_than_s: float) -> None:
        """Remove what was never finished, copies of no use, and temporary files, which Spark writes in any case."""
        self._copies.sweep(older_than_s, self._is_gone)
        limit = datetime.now(UTC) - timedelta(seconds=older_than_s)
        with reported("sweep", self.url):
            files = [str(file) for file in self._fresh_fs.find(self._root)]
            left = [file for file in files if is_temporary(file)]
            if older_than_s > 0:  # 0 is all of them, whatever the clock of another machine says
                left = [file for file in left if self._untouched_since(limit, file)]
            self._delete_each(to_sweep(self._unfinished(files), left))

    @property
    def exclusion(self) -> Exclusion:
        """What ``create_new`` promises here."""
        return exclusion(self._fs)

    def _read_ranges(self, path: str, ranges: Ranges) -> Pieces:
        """All in as few requests as the service can take."""
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        with reported("read", self._named(path), passing=(FileNotFoundError,)):
            found = self._fs.cat_ranges([self._full(path)] * len(ranges), starts, ends, on_error="raise")
        return [bytes(each) for each in found]

    def _put_renamed(self, path: str, data: bytes) -> None:
        target, temporary = self._full(path), twin_name(self._full(path))
        self._make_folder(target)
        try:
            self._fs.pipe_file(temporary, data)
            self._fs.mv(temporary, target)
        except BaseException:
            with suppress(Exception):  # the first failure is the one to tell
                self._fs.rm_file(temporary)
            raise

    def _make_folder(self, target: str) -> None:
        """Object stores have no folders, and would take the request as one for a bucket."""
        if renames(self._fs):
            self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)

    def _is_gone(self, url: str) -> bool:
        """Whether there is nothing at another place of the same file system; what cannot be told is not gone."""
        if url.partition(":")[0] != self.url.partition(":")[0]:
            return False
        try:
            fs, root = _open(url, self.options)
            fs.invalidate_cache()
            fs.info(root)
        except FileNotFoundError:
            return True
        except Exception:  # noqa: BLE001 - of any library; the copies then wait for their time
            return False
        return False

    def _unfinished(self, files: Paths) -> dict[str, Paths]:
        return unfinished(self._fs, files) if leaves_twins(self._fs) else {}

    def _untouched_since(self, limit: datetime, file: str) -> bool:
        with suppress(FileNotFoundError, NotImplementedError):  # its writer has just finished, or nobody tells its age
            return bool(self._fs.modified(file) <= limit)
        return False

    def _delete_each(self, files: Iterable[str]) -> None:
        for file in files:
            with suppress(FileNotFoundError):
                self._fs.rm_file(file)

    def _named(self, path: str) -> str:
        return f"{self.url}/{check_path(path)}"

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"

    @property
    def _fs(self) -> AbstractFileSystem:
        return _open(self.url, self.options)[0]

    @property
    def _fresh_fs(self) -> AbstractFileSystem:
        self._fs.invalidate_cache()
        return self._fs

    @property
    def _root(self) -> str:
        return _open(self.url, self.options)[1].rstrip("/")

    @property
    def _copies(self) -> Copies:
        return Copies(self.url, self.cache)


def fsspec_url(url: str) -> str:
    """Name the file system as fsspec does.

    >>> fsspec_url("s3a://bucket/checkpoint"), fsspec_url("hdfs://host/checkpoint")
    ('s3://bucket/checkpoint', 'hdfs://host/checkpoint')
    """
    scheme, colon, rest = url.partition(":")
    return f"{SCHEMES.get(scheme, scheme)}{colon}{rest}"


def _open(url: str, options: Mapping[str, Any]) -> tuple[AbstractFileSystem, str]:
    fs, root = fsspec.core.url_to_fs(fsspec_url(url), **options)
    return fs, root


@cache
def _warn_once(url: str, promise: Exclusion) -> None:
    if promise is Exclusion.CHECKED:
        _log.warning("%s has no exclusive create: run only one driver at a time on this checkpoint", url)
