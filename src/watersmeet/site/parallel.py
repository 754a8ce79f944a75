"""Generators that run at the same time."""

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import chain
from typing import TypeVar

Item = TypeVar("Item")

THREADS_MAX = 32


def in_parallel(parts: Sequence[Iterator[Item]]) -> Iterator[Item]:
    """What all parts yield, as it comes; each is a thread's, and at most one item of it waits to be taken.

    >>> sorted(in_parallel([iter([1, 2]), iter([3])]))
    [1, 2, 3]
    """
    if len(parts) < 2:  # noqa: PLR2004 -- nothing to run beside it
        yield from chain(*parts)
        return
    with ThreadPoolExecutor(min(len(parts), THREADS_MAX)) as pool:
        making: dict[Future[Item | None], Iterator[Item]] = {pool.submit(next, part, None): part for part in parts}
        while making:
            done, _ = wait(making, return_when=FIRST_COMPLETED)
            for each in done:
                part, item = making.pop(each), each.result()
                if item is not None:
                    making[pool.submit(next, part, None)] = part
                    yield item
