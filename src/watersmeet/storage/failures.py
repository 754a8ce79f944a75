"""From what an operating system or a file system's library raises to the errors of ours.

No room is a condition of its own, because the query can stop cleanly and go on once there is some. ``EFBIG`` counts as
no room: a limit on the size of files (``ulimit -f``) is met in the same way as a full disk.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from watersmeet.model.errors import StorageError, StorageFullError, WatersmeetError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def reported(doing: str, where: str, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn any failure inside into a ``StorageError`` that names the object; ``passing`` ones stay as they are.

    >>> with reported("write", "/ck/runs/x.arrow"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    watersmeet.model.errors.StorageFullError: [StorageFullError] could not write /ck/runs/x.arrow: No space left on \
device. To fix it, free some space there or move the checkpoint to a larger disk, then start the query again.
    """
    kept: tuple[type[Exception], ...] = (WatersmeetError, *passing)
    try:
        yield
    except kept:
        raise
    except Exception as error:
        raise _translated(error, f"could not {doing} {where}") from error


def _translated(error: Exception, what: str) -> StorageError:
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        remedy = "free some space there or move the checkpoint to a larger disk, then start the query again"
        return StorageFullError(what, why=_reason(error), how=remedy)
    remedy = "check that the place exists, that it can be reached and that this user may write there"
    return StorageError(what, why=_reason(error), how=remedy)


def _reason(error: Exception) -> str:
    r"""Give one line without a full stop, fit for the middle of a message.

    >>> _reason(PermissionError(errno.EACCES, "Permission denied"))
    'Permission denied'
    >>> _reason(RuntimeError("first line.\nsecond"))
    'RuntimeError, first line'
    """
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    lines = str(error).strip().splitlines()
    return ", ".join([type(error).__name__, *lines[:1]]).rstrip(".")
