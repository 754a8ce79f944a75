"""Creating an object exclusively on a file system that fsspec opens: which way, and what it is worth.

fsspec's own ``pipe_file(mode="create")`` looks first and writes then, so two writers can both win, and some file
systems take the argument and ignore it. Hence only what is known to be exclusive is trusted:

| file system | way | what holds |
|---|---|---|
| s3, gcs, abfs (s3fs, gcsfs, adlfs of 2025 or later) | a conditional put | one winner, whole content (``WHOLE``) |
| file | temporary file, hard link | one winner, whole content (``WHOLE``) |
| memory | put under a lock of this process | one winner, whole content (``WHOLE``); there are no other processes |
| hdfs, webhdfs, sftp, smb, ftp | temporary file, look, rename | ``CHECKED``, whole content |
| any other | a twin, look, then its own ``mv``, or ``open("xb")``, or a plain put where that mode is unknown | \
``CHECKED``; what was never finished is told by its twin (``twins``) |

``CHECKED``: of two drivers that commit in the same instant both may believe to have won, so only one at a time may run
a query. The engine's lock does not reach over hosts: who starts the queries must see to that.

Whatever the file system, a writer that dies at any moment leaves no object, or a whole one.
"""

import errno
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any

from fsspec import AbstractFileSystem

from watersmeet.storage.twins import clear_unfinished, twin_name

_RENAMING = frozenset({"file", "local", "hdfs", "arrow_hdfs", "webhdfs", "sftp", "ssh", "smb", "ftp"})
_CONDITIONAL = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
_TAKEN = frozenset({"PreconditionFailed", "412", "BlobAlreadyExists", "conditionNotMet"})
_memory_lock = threading.Lock()


class Exclusion(Enum):
    """What ``create_new`` promises on a file system."""

    WHOLE = "one winner, whole content"
    CHECKED = "one winner unless two writers come in the same instant"


def exclusion(fs: AbstractFileSystem) -> Exclusion:
    """Tell what holds for a file system.

    >>> import fsspec
    >>> exclusion(fsspec.filesystem("memory"))
    <Exclusion.WHOLE: 'one winner, whole content'>
    """
    known = "memory" in protocols(fs) or _links(fs) or _puts_conditionally(fs)
    return Exclusion.WHOLE if known else Exclusion.CHECKED


def leaves_twins(fs: AbstractFileSystem) -> bool:
    """Whether a writer that dies may leave a part of an object, which is then told by its twin."""
    return not renames(fs) and exclusion(fs) is Exclusion.CHECKED


def put_new(fs: AbstractFileSystem, path: str, data: bytes) -> bool:
    """Create the object in the best way the file system has; False if there is one."""
    try:
        if "memory" in protocols(fs):
            with _memory_lock:
                fs.pipe_file(path, data, mode="create")
        elif _links(fs):
            _link(fs, path, twin_name(path), data)
        elif _puts_conditionally(fs):
            fs.pipe_file(path, data, mode="create")
        else:
            _put_checked(fs, path, twin_name(path), data)
    except FileExistsError:
        return False
    except Exception as error:
        if any(map(_says_taken, _causes(error))):
            return False
        raise
    return True


def _link(fs: AbstractFileSystem, path: str, temporary: str, data: bytes) -> None:
    fs.pipe_file(temporary, data)
    try:
        fs.link(temporary, path)
    finally:
        fs.rm_file(temporary)


def _put_checked(fs: AbstractFileSystem, path: str, temporary: str, data: bytes) -> None:
    if leaves_twins(fs):  # before there is a twin of ours, which could be mistaken for that of what is there
        clear_unfinished(fs, path)
    with _discarding(fs, temporary, on=BaseException):
        fs.pipe_file(temporary, data)
        fs.invalidate_cache()
        if fs.exists(path):
            raise FileExistsError(path)
        if renames(fs):
            _rename(fs, temporary, path)
            return
    with _discarding(fs, temporary, on=FileExistsError):  # after any other failure the twin tells what is torn
        _write_beside(fs, temporary, path, data)


def _rename(fs: AbstractFileSystem, temporary: str, path: str) -> None:
    fs.mv(temporary, path)
    fs.invalidate_cache()
    if fs.exists(temporary):  # webhdfs says no in its answer, which fsspec does not look at
        raise (FileExistsError if fs.exists(path) else OSError)(f"{temporary} was not renamed")


def _write_beside(fs: AbstractFileSystem, twin: str, path: str, data: bytes) -> None:
    """Give a twin's bytes their name: with the file system's own ``mv``; fsspec's would copy, and not everywhere."""
    if type(fs).mv is not AbstractFileSystem.mv:
        fs.mv(twin, path)
        return
    try:
        with fs.open(path, "xb") as file:
            file.write(data)
    except (ValueError, NotImplementedError):  # the mode is unknown there
        fs.pipe_file(path, data)
    with suppress(Exception):  # the object is whole, whatever becomes of its twin
        fs.rm_file(twin)


@contextmanager
def _discarding(fs: AbstractFileSystem, temporary: str, on: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except on:
        with suppress(Exception):  # the first failure is the one to tell
            fs.rm_file(temporary)
        raise


def _links(fs: AbstractFileSystem) -> bool:
    return "file" in protocols(fs) and hasattr(fs, "link")


def _puts_conditionally(fs: AbstractFileSystem) -> bool:
    """Whether the file system and its version support conditional puts; older ones ignore ``mode``, and overwrite."""
    put = type(fs)._pipe_file if hasattr(fs, "_pipe_file") else type(fs).pipe_file  # noqa: SLF001 - the async one
    return bool(_CONDITIONAL & protocols(fs)) and "mode" in inspect.signature(put).parameters


def renames(fs: AbstractFileSystem) -> bool:
    """Whether ``mv`` is known to rename: a file has its new name all at once."""
    return bool(_RENAMING & protocols(fs))


def protocols(fs: AbstractFileSystem) -> frozenset[str]:
    """All names of a file system."""
    return frozenset([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _says_taken(error: BaseException) -> bool:
    """Whether a service refused the condition, in the words of botocore or of Azure or Google, or a server the name."""
    if isinstance(error, OSError) and error.errno == errno.EEXIST:
        return True
    response: Any = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return bool({str(code), str(getattr(error, "code", None)), str(getattr(error, "error_code", None))} & _TAKEN)
