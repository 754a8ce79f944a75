"""The manifest: a query's whole state at one version, as a frozen value.

It names the immutable runs and says, per operator, which site each partition group lives on and which groups of which
run count, in which generation and tier. Everything that happens to state is a new manifest (`changes`).

Invariants: every slice names a run of ``runs``; every run is named by a slice; a group of an input is covered at most
once by the slices of one run.
"""

from typing import Literal

import msgspec

from watersmeet.model.ids import BatchId, InputName, OperatorId, RunId, SiteId, Version
from watersmeet.state.groups import Ranges, groups_at, members

FORMAT = 1
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
    generation: int = 0
    tier: Tier = "memory"


class OperatorState(msgspec.Struct, frozen=True):
    """One operator's state: the site of each group, the slices of its runs, the results each group has produced."""

    routing: tuple[SiteId, ...]
    slices: tuple[Slice, ...] = ()
    output: tuple[int, ...] = ()


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
    format: int = FORMAT

    def live(self, operator: OperatorId, site: SiteId) -> list[tuple[RunFile, Slice]]:
        """The runs and slices an operator probes at a site."""
        state = self.operators[operator]
        local = groups_at(state.routing, site)
        slices = (part for part in state.slices if part.tier == "memory" and members(part.groups) & local)
        return [(self.runs[part.run], part) for part in slices]

    @property
    def bytes(self) -> int:
        """The size of all runs."""
        return sum(run.bytes for run in self.runs.values())

    @property
    def rows(self) -> int:
        """The number of rows of all runs."""
        return sum(run.rows for run in self.runs.values())
