"""Suggests to pass promises on to the operators above, as soon as these can rely on them (`watersmeet.state.passing`).

Nothing is dropped by that. But rows without a match and groups come out by it, so it is no component that the registry
could leave out: which rows there are must not depend on the registry.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.state.passing import newly_passed


@dataclass(frozen=True)
class PassPolicy:
    """Passes promises on."""

    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """What operators are given no results for any more since the last version."""
        yield from map(Suggestion, newly_passed(view.manifest))
