"""What an epoch asked of the sites: the statistics that the Flux-Cons instances of its paper send (Flux 5.1, 5.3).

A site is *busy* while its tasks make results or write state, and idle while they wait for rows or for the other sites.
Its utilisation is ``U = 1 - idle / duration``. What a group was given to do is the number of *tuples processed*: rows
that came, and results that were made of them, for a join's work follows both.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import InputName, OperatorId


@dataclass(frozen=True)
class EpochLoad:
    """One epoch; ``busy_ms`` is by level and site, ``tuples`` and ``results`` of an operator are by group.

    ``executors`` names for every site who did its work, ``workers`` how many processes of each did. The ``results`` of
    a group are those of the query that came through it; ``rows`` are those of the tuples that came, ``[input, group]``.
    ``memory_bytes`` is what each site may hold, where they differ. ``came`` is how many new rows each input was given.

    >>> load = EpochLoad(200.0, np.array([[150.0, 50.0]]), {}, ("a", "b"), {"a": 1, "b": 1})
    >>> load.utilisation.tolist(), load.is_shared
    ([0.75, 0.25], True)
    """

    duration_ms: float
    busy_ms: Floats
    tuples: Mapping[OperatorId, Floats]
    executors: Sequence[str]
    workers: Mapping[str, int]
    results: Mapping[OperatorId, Floats] = field(default_factory=dict)
    rows: Mapping[OperatorId, Floats] = field(default_factory=dict)
    memory_bytes: Floats | None = None
    came: Mapping[tuple[OperatorId, InputName], int] = field(default_factory=dict)

    @property
    def utilisation(self) -> Floats:
        """U of every site."""
        idle_ms = np.maximum(self.duration_ms - self.busy_ms.sum(axis=0), 0.0)
        used: Floats = 1.0 - idle_ms / max(self.duration_ms, 1e-9)
        return used

    @property
    def is_shared(self) -> bool:
        """Whether several processes did the work; one that does that of all sites gains nothing by moves."""
        return sum(self.workers.values()) > 1


@dataclass(frozen=True)
class Executors:
    """Who works for a query after a step: the ``names`` of all executors, and who did the work of each site, last.

    Both are names, but not of one kind: only their numbers can be compared. ``slots`` are tasks that can run at once,
    ``processes`` are how many worked for the sites of an executor; one, where that is not told.

    >>> Executors(("a", "b", "c"), 3, ("x", "x", "y")).is_uneven
    True
    >>> Executors(("a", "b", "c"), 3, ("x", "y")).is_uneven
    False
    >>> Executors(("a", "b"), 2, ("x", "x", "x", "y")).is_uneven
    True
    >>> Executors(("a", "b"), 2, ("x", "x", "x", "y"), {"x": 2, "y": 1}).is_uneven
    True
    >>> Executors(("a", "b"), 4, ("x", "x", "x", "y"), {"x": 3, "y": 1}).is_uneven
    False
    """

    names: tuple[str, ...]
    slots: int
    of_sites: tuple[str, ...] = ()
    processes: Mapping[str, int] = field(default_factory=dict)

    @property
    def idle(self) -> int:
        """How many executors have no site."""
        return max(len(self.names) - len(set(self.of_sites)), 0)

    @property
    def sites(self) -> tuple[int, int]:
        """How many sites a process has, at the executor with least and at that with most."""
        at_once = max(
            self.slots // max(len(self.names), 1), 1
        )  # a process may be replaced by another, and both be seen
        places = Counter(self.of_sites).items()
        held = [ceil(count / min(max(self.processes.get(name, 1), 1), at_once)) for name, count in places]
        return (0 if self.idle else min(held, default=0)), max(held, default=0)

    @property
    def is_uneven(self) -> bool:
        """Whether sites could be dealt out better: one executor has two more for each of its processes than another."""
        least, most = self.sites
        return most - least > 1
