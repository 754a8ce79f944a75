"""Which site looks at which pairs of a ring: PSP, and the two schemes that the paper compares it with (PSP, section 7).

All find every pair once. They differ in what a site holds and in how many sites work on a row:

- ``psp``: a site holds its own groups of both inputs, and every new row visits all sites.
- ``atr``, aligned tuple routing: the first input is the *master*. A site holds its own groups of the master, and all
  that its rows can meet of the other input. So all pairs of a master's row are found at one site.
- ``ctr``, coordinated tuple routing: a site holds its own groups and those of the ``copies - 1`` sites after it. A new
  row begins at its own site, and visits every ``copies``-th one: the least set of sites that hold all groups. What two
  of them hold is looked at by the earlier one.

Copies are no further files: runs are shared, and a site that holds a copy maps them, too. They are for comparison.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from watersmeet.model.ids import SiteId
from watersmeet.state.groups import GroupSet

Name = Literal["psp", "atr", "ctr"]
NAMES: tuple[Name, ...] = ("psp", "atr", "ctr")
COPIES = 2
"""Of each row in CTR, as in the first description of it."""

Owners = Mapping[SiteId, GroupSet]
"""The groups that each site stores."""


@dataclass(frozen=True)
class Visit:
    """New rows of some groups of one input, and the groups of the other input that they meet at a site."""

    probing: GroupSet
    met: GroupSet


@dataclass(frozen=True)
class Scheme:
    """How pairs are shared out among sites."""

    name: Name = "psp"
    copies: int = COPIES

    def visits(self, owners: Owners, site: SiteId, probing: int) -> Iterator[Visit]:
        """What new rows of an input meet at a site.

        >>> owners = {SiteId(n): GroupSet.of([n]) for n in range(3)}
        >>> list(Scheme("psp").visits(owners, SiteId(1), 0))
        [Visit(probing=GroupSet.of([0, 1, 2]), met=GroupSet.of([1]))]
        >>> list(Scheme("atr").visits(owners, SiteId(1), 0))
        [Visit(probing=GroupSet.of([1]), met=GroupSet.of([0, 1, 2]))]
        >>> [(list(each.probing), list(each.met)) for each in Scheme("ctr").visits(owners, SiteId(1), 0)]
        [([1], [1, 2]), ([2], [1])]
        """
        everything = GroupSet.union(owners.values())
        if site not in owners:
            return
        if self.name == "atr" and probing == 0:
            yield Visit(owners[site], everything)
        elif self.name == "ctr":
            yield from self._routes(owners, site)
        else:
            yield Visit(everything, owners[site])

    def _routes(self, owners: Owners, site: SiteId) -> Iterator[Visit]:
        ring = sorted(owners)
        here, count = ring.index(site), len(ring)
        for distance in range(0, count, max(1, self.copies)):
            met = range(here, here + min(self.copies, count - distance))
            yield Visit(owners[ring[here - distance]], GroupSet.union(owners[ring[each % count]] for each in met))

    def held(self, owners: Owners, site: SiteId, number: int) -> GroupSet:
        """The groups of an input that a site has to hold.

        >>> owners = {SiteId(n): GroupSet.of([n]) for n in range(3)}
        >>> [list(Scheme(name).held(owners, SiteId(2), 1)) for name in NAMES]
        [[2], [0, 1, 2], [0, 2]]
        """
        return GroupSet.union(visit.met for visit in self.visits(owners, site, 1 - number))


PSP = Scheme()
