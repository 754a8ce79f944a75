"""The manifest: a query's whole state at one version, as a frozen value.

It names the immutable runs and says, per operator, which site each partition group lives on and which groups of which
run count, in which generation and tier. Everything that happens to state is a new manifest (`changes`).

A *generation* of a group is what its inputs held together at run time: all its results among themselves have been
produced. The live one (tier ``memory``) is the one that grows; spilling closes it (tier ``disk``), and later rows begin
a new one. Results across generations are missing until the group is cleaned, which makes its generations one.

Invariants: every slice names a run of ``runs``; every run is named by a slice; a group of an input is covered at most
once by the slices of one run.
"""

from typing import Literal

import msgspec

from watersmeet.model.ids import BatchId, InputName, OperatorId, RunId, SiteId, Version
from watersmeet.state.groups import Ranges, groups_at, members

FORMAT = 1
LIVE = 0
"""The generation of what is live; closed ones have the number of the version that closed them."""

Tier = Literal["memory", "disk"]


class RunFile(msgspec.Struct, frozen=True):
    """An immutable Arrow file: the rows of some groups of one input, sorted by hash."""

    id: RunId
    path: str
    operator: OperatorId
    input: InputName
    groups: Ranges
    rows: int
    bytes: int
    checksum: int


class Slice(msgspec.Struct, frozen=True):
    """The groups of a run that count, their generation, and whether they take part at run time (``memory``)."""

    run: RunId
    groups: Ranges
    generation: int = LIVE
    tier: Tier = "memory"


class OperatorState(msgspec.Struct, frozen=True):
    """One operator's state: the site of each group, the slices of its runs, and what each group has yielded.

    ``output`` counts the query's results that came through a group, ``inter`` the bytes of intermediate results it
    caused further up. ``statistics`` are the counts of a strategy (`watersmeet.adapt.statistics`), as of some version.
    """

    routing: tuple[SiteId, ...]
    slices: tuple[Slice, ...] = ()
    output: tuple[int, ...] = ()
    inter: tuple[int, ...] = ()
    statistics: dict[str, tuple[float, ...]] = {}


class Cleaning(msgspec.Struct, frozen=True):
    """What the next step cleans: groups of one operator.

    It is part of the manifest so that the step is the same when it is repeated after a crash. At most ``gather_bytes``
    of rows are brought together at a time. At the end of all input, the operator above only stores what it is given,
    as a generation of its own, for its own cleanup comes next.
    """

    operator: OperatorId
    groups: tuple[int, ...]
    gather_bytes: int
    at_end: bool = False


class Manifest(msgspec.Struct, frozen=True):
    """A version of a query's state. ``batch`` is the last of Spark's batches that is part of it."""

    query_id: str
    plan: dict[str, object]
    groups: int
    sites: int
    operators: dict[OperatorId, OperatorState]
    runs: dict[RunId, RunFile] = {}
    batch: BatchId = BatchId(-1)
    version: Version = Version(0)
    cleaning: Cleaning | None = None
    format: int = FORMAT

    def live(self, operator: OperatorId, site: SiteId) -> list[tuple[RunFile, Slice]]:
        """The runs and slices an operator probes at a site."""
        return self._at(operator, site, "memory")

    def closed(self, operator: OperatorId, site: SiteId) -> list[tuple[RunFile, Slice]]:
        """The runs and slices of an operator's closed generations, as far as a site has their groups."""
        return self._at(operator, site, "disk")

    def _at(self, operator: OperatorId, site: SiteId, tier: Tier) -> list[tuple[RunFile, Slice]]:
        state = self.operators[operator]
        local = groups_at(state.routing, site)
        slices = (part for part in state.slices if part.tier == tier and members(part.groups) & local)
        return [(self.runs[part.run], part) for part in slices]

    def spilled(self, operator: OperatorId) -> frozenset[int]:
        """The groups of an operator that have results missing: those with more than one generation."""
        generations: dict[int, set[int]] = {}
        for part in self.operators[operator].slices:
            for group in members(part.groups):
                generations.setdefault(group, set()).add(part.generation)
        return frozenset(group for group, kinds in generations.items() if len(kinds) > 1)

    @property
    def bytes(self) -> int:
        """The size of all runs."""
        return sum(run.bytes for run in self.runs.values())

    @property
    def rows(self) -> int:
        """The number of rows of all runs."""
        return sum(run.rows for run in self.runs.values())
