"""What a site is going to need is fetched ahead, in the background, while tasks come and go.

What it needs at once and does not have is fetched several runs at a time. For what comes later, a process has a few
threads, which outlive the task that began it. What fails is fetched when it is opened.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Lock, Thread

from watersmeet.state.held import left_to_fetch, open_part
from watersmeet.state.manifest import RunFile
from watersmeet.state.parts import Wanted, is_worth_it, part_bytes, part_path
from watersmeet.state.runs import is_open
from watersmeet.storage.base import Storage

Coming = tuple[RunFile, Wanted]

THREADS = 4
"""So many runs are fetched at a time: mostly, they wait for answers."""

_log = logging.getLogger(__name__)
_waiting: SimpleQueue[tuple[Storage, Coming]] = SimpleQueue()
_asked: set[tuple[str, str]] = set()
_starting = Lock()
_threads: list[Thread] = []


def fetch_ahead(storage: Storage, coming: Sequence[Coming]) -> None:
    """Begin to fetch what is coming, if this host does not have it, and this process is not at it already."""
    for each in missing(storage, coming):
        with _starting:
            if (storage.url, _path(each)) in _asked:
                continue
            _asked.add((storage.url, _path(each)))
            if len(_threads) < THREADS:
                _threads.append(Thread(target=_work, name="watersmeet-fetch", daemon=True))
                _threads[-1].start()
        _waiting.put((storage, each))


def fetch_together(storage: Storage, needed: Sequence[Coming]) -> None:
    """Fetch what a task is about to open and this host does not have, several at a time; what it has is left alone."""
    unopened = [each for each in needed if not is_open(storage, *each)] if storage.is_remote else []
    todo = missing(storage, unopened) if len(unopened) > 1 else []
    if len(todo) > 1:
        with ThreadPoolExecutor(min(THREADS, len(todo)), thread_name_prefix="watersmeet-fetch") as pool:
            list(pool.map(lambda each: _try(storage, each), todo))


def missing(storage: Storage, coming: Sequence[Coming]) -> list[Coming]:
    """Of what is coming, that of which this host does not have all."""
    return [each for each, left in zip(coming, left_to_fetch(storage, coming), strict=True) if left]


def missing_bytes(storage: Storage, coming: Sequence[Coming]) -> int:
    """How much is left to fetch."""
    left = zip(coming, left_to_fetch(storage, coming), strict=True)
    return sum(part_bytes(run, wanted.only(groups)) for (run, wanted), groups in left)


def fetch(storage: Storage, coming: Coming) -> None:
    """Download it to this host."""
    run, wanted = coming
    if open_part(storage, run, wanted) is None:
        storage.local(run.path)


def _path(coming: Coming) -> str:
    return part_path(*coming) if is_worth_it(*coming) else coming[0].path


def _work() -> None:
    while True:
        storage, coming = _waiting.get()
        _try(storage, coming)
        with _starting:
            _asked.discard((storage.url, _path(coming)))


def _try(storage: Storage, coming: Coming) -> None:
    try:
        fetch(storage, coming)
    except Exception as error:  # noqa: BLE001 -- it is fetched when it is opened, and what is wrong is told then
        _log.info("%s was not fetched ahead: %s", coming[0].path, error)
