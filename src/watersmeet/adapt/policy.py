"""What a policy is asked, and what it answers.

A policy looks at a `View` and *suggests* changes, each with the groups it touches. It decides nothing: the coordinator
of the driver orders all suggestions, so that no group is changed by two of them at once. Some policies are *components*
that run only if an event calls them (`watersmeet.adapt.registry`).

There are moments at which the coordinator asks:

| moment | when | what can be suggested |
|---|---|---|
| start | a run begins | other sites |
| tasks | a step is about to be planned | merges, for its tasks to do |
| step | a step's rows are counted, its version is about to be committed | sites, moves, spills, generations to unite |
| between | an epoch was committed, and the next is not there yet | cleanup that cannot wait |
| idle | input pauses | cleanup |
| drain | input pauses, or the user waits for all that has come | cleanup of parked groups |
| asked | the user asks for all missing results | cleanup |
| end | all input was consumed | cleanup, bottom-up |
| final | rows are due that come out alone, and no input is there | a step without rows |
| over | nothing is missing any more | closed groups to be live again |
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from watersmeet.adapt.moving.load import EpochLoad, Executors
from watersmeet.adapt.statistics import Statistics
from watersmeet.model.ids import InputName, OperatorId, RunId, SiteId
from watersmeet.state.changes import Change
from watersmeet.state.groups import GroupSet
from watersmeet.state.looks import Look
from watersmeet.state.manifest import LIVE, Manifest

GENERATIONS_MAX = 64
"""A cleanup of the older half then joins 32 generations at once; fewer would read the same rows more often."""

REWRITE_AT: Mapping[str, float] = {"invalidation": 0.5, "purge": 0.25}
"""By component that drops rows: the part of a run's rows above which it is written anew without them.

A row that goes then costs three that are written again. What has ended goes with whole runs in the end; keys come no
more in any order, so nothing else frees what they hold."""

Moment = Literal["start", "tasks", "step", "between", "idle", "drain", "asked", "end", "final", "over"]


@dataclass(frozen=True)
class MemoryOptions:
    """What the user allows: bytes of live state per site (None: any number), and how to keep to it.

    With more than ``generations_max`` closed generations of an operator, cleanup does not wait until input pauses. The
    limit is a ``share`` of the budget, all of it unless the registry says otherwise.
    """

    budget_bytes: int | None = None
    strategy: str = "adaptive"
    fraction: float = 0.3
    seed: int = 0
    inactive_epochs: int | None = None
    generations_max: int = GENERATIONS_MAX
    share: float = 1.0

    @property
    def limit_bytes(self) -> int | None:
        """The bytes of live state above which a site spills."""
        return None if self.budget_bytes is None else int(self.budget_bytes * self.share)

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget."""
        return self.budget_bytes is not None


@dataclass(frozen=True)
class View:
    """What is known when a decision is made.

    ``operators`` narrows cleanup down to some of the plan's, ``closed_by`` to generations closed up to a version.
    ``rewrite_at`` is what the registry says of rows that are to be dropped (`REWRITE_AT`); absent is never.
    ``load`` is what the step at hand asked of the sites, if it is an epoch; ``executors`` are those it was done by.
    ``to_fetch`` is how many bytes sites have yet to fetch of groups that were announced to them, by level and site, of
    those that took part in the step. ``busy`` are groups that are being cleaned, or of which something was taken at
    this moment: nothing more will be. ``held`` are those that another policy alone places, as the groups of a ring
    whose length has a goal. Moves are ``under_way`` if they were announced before this moment: only what cannot wait
    for them is suggested.
    """

    moment: Moment
    manifest: Manifest
    statistics: Mapping[OperatorId, Statistics] = field(default_factory=dict)
    operators: tuple[OperatorId, ...] = ()
    closed_by: int | None = None
    rewrite_at: Mapping[str, float] = field(default_factory=lambda: REWRITE_AT)
    load: EpochLoad | None = None
    executors: Executors | None = None
    to_fetch: Mapping[tuple[int, SiteId], int] = field(default_factory=dict)
    busy: Mapping[OperatorId, GroupSet] = field(default_factory=dict)
    held: Mapping[OperatorId, GroupSet] = field(default_factory=dict)
    under_way: bool = False


@dataclass(frozen=True)
class Merge:
    """Runs of an input to be merged into one by a site's task, as far as they hold some groups of a generation.

    Of one run, with a ``look``: it is written anew only if enough of its rows can go. Slices of a ring are merged that
    are ``since`` the same version.
    """

    site: SiteId
    operator: OperatorId
    input: InputName
    runs: tuple[RunId, ...]
    groups: GroupSet
    generation: int = LIVE
    reason: str = ""
    look: Look | None = None
    since: int = 0


@dataclass(frozen=True)
class Suggestion:
    """A change, or a merge that will become one, and the groups it touches."""

    what: Change | Merge
    touches: Mapping[OperatorId, GroupSet] = field(default_factory=dict)


class Policy(Protocol):
    """Suggests changes of one kind."""

    @property
    def moments(self) -> frozenset[Moment]:
        """When it wants to be asked."""

    def suggest(self, view: View) -> Iterable[Suggestion]:
        """What it would change, best first."""
