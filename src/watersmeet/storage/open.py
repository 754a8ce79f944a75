"""From the location a user writes to the storage that serves it."""

import os
from collections.abc import Collection, Mapping
from typing import Any

import fsspec
from fsspec.registry import known_implementations

from watersmeet.model.errors import StorageError, nearest
from watersmeet.storage.base import Storage
from watersmeet.storage.failures import reported
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import SCHEMES, FsspecStorage, fsspec_url


def open_storage(location: str, cache: str | None = None, options: Mapping[str, Any] | None = None) -> Storage:
    """Open a path, a ``file:`` URL or the URL of any file system that fsspec knows, under Spark's names too.

    A path without a scheme is a local one, whatever Hadoop's default file system is. ``cache`` is where hosts keep
    copies of remote objects; ``options`` go to the remote file system.

    >>> open_storage("/srv/checkpoint")
    LocalStorage(root='/srv/checkpoint', durable=True)
    >>> open_storage("file:/srv/checkpoint").url
    'file:///srv/checkpoint'
    >>> open_storage("memory://checkpoint/").url
    'memory://checkpoint'
    """
    scheme = _scheme(location)
    if scheme in {"", "file"}:
        return LocalStorage(_local_path(location))
    _check_installed(location, fsspec_url(f"{scheme}:").rstrip(":"))
    return FsspecStorage(location.rstrip("/"), cache, dict(options or {}))


def full_url(location: str) -> str:
    """Make a location mean the same to Spark and to us, in every process: a bare path is a local one.

    >>> full_url("/srv/out"), full_url("s3a://bucket/out")
    ('file:///srv/out', 's3a://bucket/out')
    """
    return f"file://{os.path.abspath(location)}" if _scheme(location) == "" else location  # noqa: PTH100 -- no links


def open_files(location: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """The file system of a location, and the location in it."""
    files, root = fsspec.url_to_fs(location if _scheme(location) == "" else fsspec_url(location))
    return files, str(root).rstrip("/")


def delete_by_prefix(location: str, prefix: str, but: Collection[str] = ()) -> None:
    """Delete the files below a folder, at any depth, whose own names start with a prefix.

    >>> import pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = [pathlib.Path(folder, name).touch() for name in ("epoch-1-a", "epoch-2-a")]
    >>> delete_by_prefix(folder, "epoch-1")
    >>> [path.name for path in pathlib.Path(folder).iterdir()]
    ['epoch-2-a']
    """
    with reported("clear", location):
        files, root = open_files(location)
        for path in files.find(root):
            name = path.rsplit("/", 1)[-1]
            if name.startswith(prefix) and name not in but:
                files.rm_file(path)


def _scheme(location: str) -> str:
    """Give everything before the first colon, if it can be a scheme.

    >>> _scheme("s3a://bucket/x"), _scheme("file:/x"), _scheme("relative/a:b"), _scheme("/x")
    ('s3a', 'file', '', '')
    """
    scheme, colon, _ = location.partition(":")
    return scheme.lower() if colon and scheme.replace("+", "").replace("-", "").isalnum() else ""


def _local_path(location: str) -> str:
    """Give the path of a ``file:`` URL as Hadoop reads it: nothing is decoded.

    >>> _local_path("file:///a%20b"), _local_path("file:/a"), _local_path("a")
    ('/a%20b', '/a', 'a')
    """
    if _scheme(location) != "file":
        return location
    rest = location.partition(":")[2]
    return "/" + rest.removeprefix("//").partition("/")[2] if rest.startswith("//") else rest


def _check_installed(location: str, scheme: str) -> None:
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        package = known_implementations[scheme]["class"].partition(".")[0]
        raise StorageError(
            f"{location} cannot be opened",
            why=f"the package for {scheme}: is missing on this machine ({error})",
            how=f"run 'pip install {package}' here and on every worker",
        ) from error
    except ValueError as error:
        raise StorageError(
            f"{location} cannot be opened",
            why=f"no file system is called '{scheme}'",
            how=f"{nearest(scheme, sorted({'file', 's3', 'gs', 'abfs', 'hdfs', *SCHEMES}))}",
        ) from error
