"""The orders of stored rows by their values, kept from step to step: a run never changes, so neither do its orders.

A process keeps at most ``KEPT_BYTES`` of them, the last used ones, and none of a run that it has let go of.
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from watersmeet.operators.ranges import Index
from watersmeet.state.groups import Hashes

KEPT_BYTES = 64 << 20


@dataclass(frozen=True)
class _Kept:
    run: "weakref.ref[Hashes]"
    order: Index


_kept: OrderedDict[tuple[int, str], _Kept] = OrderedDict()
_changing = Lock()
"""Several site tasks may be threads of one process."""


def order_of(run: Hashes, name: str, make: Callable[[], Index]) -> Index:
    """The order of a run's rows by a value; the run is known by the array of its hashes, which is there as long as it.

    >>> import numpy as np
    >>> hashes = np.array([1, 2], dtype=np.uint64)
    >>> order_of(hashes, "x", lambda: np.array([1, 0])).tolist(), order_of(hashes, "x", lambda: np.array([])).tolist()
    ([1, 0], [1, 0])
    """
    key = (id(run), name)
    with _changing:
        known = _kept.get(key)
        if known is not None and known.run() is run:
            _kept.move_to_end(key)
            return known.order
    order = make()
    with _changing:
        _kept[key] = _Kept(weakref.ref(run), order)
        _kept.move_to_end(key)
        _tidy()
    return order


def _tidy() -> None:
    for key in [key for key, each in _kept.items() if each.run() is None]:
        del _kept[key]
    total = sum(each.order.nbytes for each in _kept.values())
    while total > KEPT_BYTES:
        total -= _kept.popitem(last=False)[1].order.nbytes
