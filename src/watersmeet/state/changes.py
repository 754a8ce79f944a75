"""A change is a value; `watersmeet.state.applying` makes one manifest of another by it.

A version is its list of changes (`watersmeet.state.versions`). Those that adapt the query carry their reason and the
numbers they were decided on, so that what happened can be told from them alone (`watersmeet.state.events`).
"""

import msgspec

from watersmeet.model.ids import BatchId, InputName, OperatorId, RunId, SiteId
from watersmeet.model.plan import Plan
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import (
    LIVE,
    Cleaning,
    RunFile,
)
from watersmeet.state.vectors import Vector


class AddRun(msgspec.Struct, frozen=True, tag=True):
    """Rows that arrived are part of the state: of what is live, or as a closed generation."""

    run: RunFile
    closed: bool = False


class MergeRuns(msgspec.Struct, frozen=True, tag=True):
    """Some groups of one generation of several runs now lie in one run; what else the old runs hold stays with them.

    So many rows were ``dropped``, as nothing can come for them any more; if it ``is_purge``, it was done for that.
    Of a ring, only slices that are ``since`` the same version are merged.
    """

    merged: tuple[RunId, ...]
    groups: GroupSet
    run: RunFile
    generation: int = LIVE
    reason: str = ""
    dropped: int = 0
    is_purge: bool = False
    since: int = 0


class CountOutput(msgspec.Struct, frozen=True, tag=True):
    """So many more results came through the groups of an operator, and so many bytes of intermediate ones."""

    operator: OperatorId
    output: Vector
    inter: Vector


class KeepStatistics(msgspec.Struct, frozen=True, tag=True):
    """A strategy's counts, for whoever goes on from this version."""

    operator: OperatorId
    statistics: dict[str, Vector]


class SpillGroups(msgspec.Struct, frozen=True, tag=True):
    """The live generation of some groups of a site is closed: it takes no part in probing until they are cleaned.

    A version closes a group once, after the rows of its step have come. Groups are *parked* if it is done for the sake
    of time: ``epoch_ms`` is then how long an epoch keeps the site busy with all of them, and how long without. It is
    *forced* if the site was not short of memory, and makes room for better groups.
    """

    site: SiteId
    groups: dict[OperatorId, GroupSet]
    strategy: str = ""
    live_bytes: int = 0
    spilled_bytes: int = 0
    reason: str = ""
    epoch_ms: tuple[int, int] | None = None
    is_forced: bool = False


class BeginCleaning(msgspec.Struct, frozen=True, tag=True):
    """The next step cleans some groups; the version is complete, and no batch is part of it."""

    cleaning: Cleaning


class FinishCleaning(msgspec.Struct, frozen=True, tag=True):
    """A step of cleaning is done: all generations of its groups are one, live again or closed. A version is complete.

    ``missing`` is how many groups of the operator had results missing before. A step that ended below the root had none
    for the sink: it ``is_inner``.
    """

    live: GroupSet
    closed: GroupSet
    read_bytes: int = 0
    results: int = 0
    missing: int = 0
    is_inner: bool = False


class UniteGenerations(msgspec.Struct, frozen=True, tag=True):
    """Groups that are closed and complete, each in a generation of its own, are of one generation."""

    operator: OperatorId
    groups: GroupSet
    reason: str = ""


class ReviveGroups(msgspec.Struct, frozen=True, tag=True):
    """Groups that are closed and complete are live again."""

    operator: OperatorId
    groups: GroupSet
    reason: str = ""


class Reroute(msgspec.Struct, frozen=True, tag=True):
    """The groups of operators live on other sites; no file is touched."""

    routing: dict[OperatorId, tuple[SiteId, ...]]
    sites: int
    reason: str = ""
    sites_before: int = 0


class ChangeExecutors(msgspec.Struct, frozen=True, tag=True):
    """Executors have ``joined`` or were ``lost``; there were so many before, and are after.

    If it ``spreads``, the sites are spread over all of them anew from the next step on; no file is touched.
    """

    before: int
    after: int
    joined: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    spreads: bool = False
    reason: str = ""


class _Moving(msgspec.Struct, frozen=True):
    """Groups of an operator, the sites they are and will be on, and the policy that wants it."""

    operator: OperatorId
    groups: GroupSet
    before: SiteId
    after: SiteId
    policy: str = ""
    bytes: int = 0
    reason: str = ""


class MoveGroups(_Moving, frozen=True, tag=True):
    """Some groups of an operator live on another site from the next step on; no file is touched."""


class AnnounceMove(_Moving, frozen=True, tag=True):
    """Some groups of an operator are going to live on another site, which fetches their rows from the next step on."""


class SplitGroup(msgspec.Struct, frozen=True, tag=True):
    """A group of an operator is shared by several sites from the next step on, or by one again; no file is touched.

    The rows of ``input`` are dealt out to the sites ``after``, of which the first is the group's own. ``tuples`` is
    what an epoch asks of the group.
    """

    operator: OperatorId
    group: int
    input: InputName
    before: tuple[SiteId, ...]
    after: tuple[SiteId, ...]
    policy: str = ""
    bytes: int = 0
    tuples: int = 0
    reason: str = ""


class ReplacePlan(msgspec.Struct, frozen=True, tag=True):
    """The query goes on with another plan. Operators of the same id keep their state; new ones begin with none.

    If ``is_written``, it is the query itself that was written anew; else the manifest remembers what was written.
    """

    plan: Plan
    routing: dict[OperatorId, tuple[SiteId, ...]]
    reason: str = ""
    operators_before: tuple[OperatorId, ...] = ()
    is_written: bool = False


class SeeTimes(msgspec.Struct, frozen=True, tag=True):
    """Rows of some streams were accepted; these are the latest times of each."""

    latest: dict[str, int]


class DecideRows(msgspec.Struct, frozen=True, tag=True):
    """Of some groups, all rows of an input up to a limit have come out, or never will.

    The same holds of those whose keys were promised up to a version.
    """

    operator: OperatorId
    input: InputName
    groups: GroupSet
    limit: int
    promised: int | None = None


class AddPromises(msgspec.Struct, frozen=True, tag=True):
    """Values of a stream will not come any more: a run of one of its stores."""

    stream: str
    run: RunFile


class MergePromises(msgspec.Struct, frozen=True, tag=True):
    """Runs of a store are one."""

    merged: tuple[RunId, ...]
    run: RunFile


class EndStreams(msgspec.Struct, frozen=True, tag=True):
    """Streams have ended, or no row of theirs comes that is before a time."""

    streams: tuple[str, ...] = ()
    until: dict[str, int] = {}


class PassPromises(msgspec.Struct, frozen=True, tag=True):
    """No result comes to an operator any more with what a stream below has promised up to a version."""

    operator: OperatorId
    stream: str
    upto: int


class ForgetPromises(msgspec.Struct, frozen=True, tag=True):
    """What a stream has promised up to a version is not kept any more; rows that come after that count as new."""

    stream: str
    before: int
    upto: int
    reason: str = ""


class EndInput(msgspec.Struct, frozen=True, tag=True):
    """All streams have ended: no row comes any more."""

    reason: str = ""


class DropRows(msgspec.Struct, frozen=True, tag=True):
    """What some runs of an operator hold of some groups can take part in no result any more, and leaves the state."""

    operator: OperatorId
    runs: tuple[RunId, ...]
    groups: GroupSet
    rows: int = 0
    bytes: int = 0
    reason: str = ""


class ChangeRegistry(msgspec.Struct, frozen=True, tag=True):
    """Other components run at other events from now on: event, condition and component of each entry.

    It is told and not kept: a run begins with the registry that its options say.
    """

    before: tuple[tuple[str, str, str], ...]
    after: tuple[tuple[str, str, str], ...]
    reason: str


class ChangePatience(msgspec.Struct, frozen=True, tag=True):
    """A policy watches for more epochs before it decides again, as its decisions do not pay; or for fewer, as they do.

    It is told and not kept: a run begins with the patience that policies have at first.
    """

    policy: str
    before: int
    after: int
    reason: str


class WriteResults(msgspec.Struct, frozen=True, tag=True):
    """The tasks have written files of results, to be published once this version is committed."""

    path: str
    names: tuple[tuple[str, str], ...]


class WriteRejected(msgspec.Struct, frozen=True, tag=True):
    """The tasks have written files of rejected rows, to be published once this version is committed."""

    path: str
    names: tuple[tuple[str, str], ...]


class FinishBatch(msgspec.Struct, frozen=True, tag=True):
    """A batch of Spark's is part of the state: the next version is complete."""

    batch: BatchId


class FinishAdaptation(msgspec.Struct, frozen=True, tag=True):
    """A version that only adapts is complete."""


Change = (
    AddRun
    | MergeRuns
    | CountOutput
    | KeepStatistics
    | SpillGroups
    | BeginCleaning
    | FinishCleaning
    | UniteGenerations
    | ReviveGroups
    | Reroute
    | ChangeExecutors
    | AnnounceMove
    | MoveGroups
    | SplitGroup
    | ReplacePlan
    | SeeTimes
    | DecideRows
    | AddPromises
    | MergePromises
    | EndStreams
    | PassPromises
    | ForgetPromises
    | EndInput
    | DropRows
    | ChangeRegistry
    | ChangePatience
    | WriteResults
    | WriteRejected
    | FinishBatch
    | FinishAdaptation
)
