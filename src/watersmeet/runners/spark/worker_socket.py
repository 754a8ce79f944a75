"""Answer the JVM at once.

Spark's JVM writes to a Python worker in small pieces and waits for each to be acknowledged before it sends the next
(Nagle's algorithm), while the worker's side holds acknowledgements back for 40 ms in the hope of an answer to send
them with. So every task would begin with a pause longer than all its fixed work. Linux lets the receiving side end
that; with ``spark.python.unix.domain.socket.enabled`` there is nothing to end.
"""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

_OPEN_FILES = Path("/proc/self/fd")
_QUICK: int = getattr(socket, "TCP_QUICKACK", 0)


def acknowledge_at_once() -> int:
    """Ask for immediate acknowledgements on all TCP connections of this process; gives their number.

    The kernel forgets the wish after a while, so it is renewed with every task.

    >>> with socket.create_server(("localhost", 0)) as server, socket.create_connection(server.getsockname()):
    ...     acknowledge_at_once() >= 1 or not _QUICK
    True
    """
    if not _QUICK or not _OPEN_FILES.is_dir():
        return 0
    return sum(_quicken(int(each.name)) for each in _OPEN_FILES.iterdir())


def _quicken(descriptor: int) -> bool:
    with suppress(OSError):  # not open any more, or no connection
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    connection.setsockopt(socket.IPPROTO_TCP, _QUICK, 1)
                    return True
    return False
