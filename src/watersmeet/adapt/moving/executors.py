"""Executors that come and go while the query runs; the papers are given their machines.

A site stays on its executor as long as there is one. When it is lost, Spark runs its sites on those that are left; when
one joins, it has no site at first. Spark deals out tasks to whoever is free, so one that starts slowly gets fewer. So
there is one rule: *if an executor has two sites more than another, for each of its processes, the sites are spread over
all of them anew.* State are files that all executors read: nothing else moves. Spark may deal sites out unevenly again,
so that is done a few times at most for the same executors. What is left uneven beyond that is a matter of loads
(`auto`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.adapt.moving.load import Executors
from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.state.changes import ChangeExecutors

TRIES_MOST = 3
"""How often sites are spread over the same executors."""


@dataclass
class ExecutorPolicy:
    """Tells of executors that come and go, and has the sites spread over all of them."""

    moments: frozenset[Moment] = frozenset({"step"})
    _known: tuple[str, ...] | None = None
    _tries: int = 0

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A change, if there are others than before, or some have nothing to do."""
        seen = view.executors
        if seen is None:
            return
        before = seen.names if self._known is None else self._known
        joined = tuple(name for name in seen.names if name not in before)
        lost = tuple(name for name in before if name not in seen.names)
        self._known, self._tries = seen.names, 0 if joined or lost else self._tries
        spreads = seen.is_uneven and self._tries < TRIES_MOST
        self._tries += spreads
        if joined or lost or spreads:
            reason = "; ".join(_reasons(seen, len(joined), len(lost), spreads=spreads))
            yield Suggestion(ChangeExecutors(len(before), len(seen.names), joined, lost, spreads, reason))


def _reasons(seen: Executors, joined: int, lost: int, *, spreads: bool) -> Iterator[str]:
    """Why, in words.

    >>> list(_reasons(Executors(("a", "b"), 2, ("x", "x")), 1, 0, spreads=True))
    ['1 executor has joined', 'sites are spread anew, as 1 of 2 executors has none of 2 sites, and another several']
    >>> list(_reasons(Executors(("a", "b"), 2, ("x", "x", "y", "x")), 0, 0, spreads=True))
    ['sites are spread anew, as one of 2 executors has 3 for each of its processes, and another 1']
    """
    if joined:
        yield f"{joined} executor{'s have' if joined > 1 else ' has'} joined"
    if lost:
        yield f"{lost} executor{'s were' if lost > 1 else ' was'} lost, and Spark runs what it had on those left"
    if spreads and not seen.idle:
        least, most = seen.sites
        has = f"one of {len(seen.names)} executors has {most} for each of its processes, and another {least}"
        yield f"sites are spread anew, as {has}"
    elif spreads:
        idle, sites = f"{seen.idle} of {len(seen.names)} executors", len(seen.of_sites)
        has = "has" if seen.idle == 1 else "have"
        yield f"sites are spread anew, as {idle} {has} none of {sites} sites, and another several"
