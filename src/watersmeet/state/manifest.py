"""The manifest: a query's whole state at one version, as a frozen value.

It holds the plan, names the immutable runs and says, per operator, which site each partition group lives on and which
rows of which run count, in which generation and tier. Everything that happens to state is a new manifest (`changes`).

A *generation* of a group is what its inputs held together at run time: all its results among themselves have been
produced. The live one (tier ``memory``) is the one that grows; spilling closes it (tier ``disk``), and later rows begin
a new one. Results across generations are missing until the group is cleaned, which makes its generations one.

What must hold of every manifest is in `watersmeet.state.invariants`.
"""

from typing import Literal

import msgspec

from watersmeet.model.ids import BatchId, InputName, OperatorId, RunId, SiteId, Version
from watersmeet.model.plan import Plan
from watersmeet.state.ages import NEVER, Age, Aged, closed_first, waiting
from watersmeet.state.groups import GroupSet, Mask, groups_at
from watersmeet.state.vectors import Vector

FORMAT = 2
LIVE = 0
"""The generation of what is live; closed ones have the number of the version that closed them."""

UNDECIDED = -(1 << 63)
"""Before all times: nothing is decided."""

Tier = Literal["memory", "disk"]
NO_GROUPS = GroupSet()


class Bounds(msgspec.Struct, frozen=True):
    """The least and the greatest value of a column in a run; None where it has none."""

    least: int | float | str | None
    most: int | float | str | None


class RunFile(msgspec.Struct, frozen=True):
    """An immutable Arrow file: the rows of some groups of one input, sorted by hash.

    ``group_rows`` and ``group_bytes`` are those of each of its groups, in order, so that nobody has to look into the
    file to know what it holds. ``bounds`` are those of the columns the plan declares. Of a ring, ``group_ends``
    tell when the last row of each group ends (`watersmeet.state.ends`).
    """

    id: RunId
    path: str
    operator: OperatorId
    input: InputName
    groups: GroupSet
    rows: int
    bytes: int
    checksum: int
    group_rows: Vector = Vector()
    group_bytes: Vector = Vector()
    bounds: dict[str, Bounds] = {}
    group_ends: Vector = Vector()

    def among(self, groups: GroupSet) -> Mask:
        """Which of the run's groups are some of them, in order."""
        count = self.groups.bits.bit_length()
        return groups.mask(count)[self.groups.mask(count)]

    def rows_in(self, groups: GroupSet) -> int:
        """The number of rows of some groups."""
        return self.rows if groups == self.groups else int(self.group_rows.array[self.among(groups)].sum())


class RowSet(msgspec.Struct, frozen=True):
    """Which rows of a run count: those of some groups.

    Whatever else may narrow them down (a range of times or of hashes, rows that were deleted) is a field here.
    """

    groups: GroupSet

    def __bool__(self) -> bool:
        return bool(self.groups)


class Slice(msgspec.Struct, frozen=True):
    """The rows of a run that count, their generation, and whether they take part at run time (``memory``).

    Of a ring, ``since`` is the version after which they came: what had been closed by then, they have not met.
    """

    run: RunId
    rows: RowSet
    generation: int = LIVE
    tier: Tier = "memory"
    since: int = 0

    @property
    def groups(self) -> GroupSet:
        """The groups of the rows."""
        return self.rows.groups

    @property
    def age(self) -> Age:
        """When the rows came to a ring, and when they were closed."""
        return Age(NEVER if self.generation == LIVE else self.generation, self.since)


class Split(msgspec.Struct, frozen=True):
    """A group that several sites share: the rows of an input are dealt out to them, those of all others go to each.

    The first site is the group's own (`watersmeet.state.splits`).
    """

    group: int
    input: InputName
    sites: tuple[SiteId, ...]


class Announced(msgspec.Struct, frozen=True):
    """Groups of an operator that another site is going to take over; it fetches their rows.

    They were announced in the version ``since``, after ``batch`` was the last one.
    """

    operator: OperatorId
    groups: GroupSet
    before: SiteId
    after: SiteId
    since: int
    policy: str = ""
    bytes: int = 0
    reason: str = ""
    batch: int = -1


class OperatorState(msgspec.Struct, frozen=True):
    """One operator's state: the site of each group, the slices of its runs, and what each group has yielded.

    ``output`` counts the query's results that came through a group, ``inter`` the bytes of intermediate results it
    caused further up. ``statistics`` are the counts of a strategy (`watersmeet.adapt.statistics`), as of some version.
    Of an input whose rows come out alone if they have no match, ``decided`` tells for each group up to which value of
    their last column that is known (`watersmeet.state.promises`), and ``decided_keys`` up to which version punctuations
    were made that it is known for. Of streams below, ``passed`` tells which promises hold for what is given to this
    operator (`watersmeet.state.passing`). Groups too hot for one site are in the ``splits``. Those that are
    ``parked``, and were not cleaned since, are told by the last batch before that.
    """

    routing: tuple[SiteId, ...]
    slices: tuple[Slice, ...] = ()
    output: Vector = Vector()
    inter: Vector = Vector()
    statistics: dict[str, Vector] = {}
    decided: dict[InputName, Vector] = {}
    decided_keys: dict[InputName, Vector] = {}
    passed: dict[str, tuple[tuple[int, int], ...]] = {}
    splits: tuple[Split, ...] = ()
    parked: dict[int, GroupSet] = {}


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
    reason: str = ""


class ResultFiles(msgspec.Struct, frozen=True):
    """Files of results that a version brings: hidden ones until it is committed, and the names they get then.

    They are below ``path``; ``names`` are pairs. What a driver that was killed has not published, the next one does.
    """

    version: Version
    path: str
    names: tuple[tuple[str, str], ...]


class Manifest(msgspec.Struct, frozen=True):
    """A version of a query's state. ``batch`` is the last of Spark's batches that is part of it.

    ``plan`` is carried out; ``original`` is the one the query gave as it was written, where another took its place.
    ``latest`` is the latest event time of the rows of each stream that were accepted; if the input ``has_ended``, no
    further rows are. ``rejected`` are files of rows that were not. Of punctuations, ``promises`` are the runs of each
    store, ``promised_until`` are times before which a stream promises no rows, and ``ended`` the streams that have
    ended, with the version since when they have; ``promised`` is the last version that brought any for a stream. The
    ``marks`` of a stream are versions that brought some, with its latest time then; those up to the version that is
    ``forgotten`` do not count any more. ``placement`` is how often the sites were spread over the executors anew,
    ``announced`` are groups that are going to move. So many ``forced_bytes`` were spilled where memory was not short.
    So many versions were ``asides``: they begin a cleanup or change how the query goes on, or their step had no results
    for the sink.
    """

    query_id: str
    plan: Plan
    groups: int
    sites: int
    operators: dict[OperatorId, OperatorState]
    runs: dict[RunId, RunFile] = {}
    batch: BatchId = BatchId(-1)
    version: Version = Version(0)
    cleaning: Cleaning | None = None
    results: ResultFiles | None = None
    original: Plan | None = None
    latest: dict[str, int] = {}
    has_ended: bool = False
    rejected: ResultFiles | None = None
    promises: dict[InputName, tuple[RunFile, ...]] = {}
    promised_until: dict[str, int] = {}
    ended: dict[str, int] = {}
    promised: dict[str, int] = {}
    marks: dict[str, tuple[tuple[int, int], ...]] = {}
    forgotten: dict[str, int] = {}
    placement: int = 0
    announced: tuple[Announced, ...] = ()
    forced_bytes: int = 0
    asides: int = 0

    @property
    def steps(self) -> int:
        """How many steps the sink was told of; it knows the next one by this number, again if it is repeated."""
        return self.version - self.asides

    @property
    def written(self) -> Plan:
        """The plan that the query gave as it was written: a checkpoint is recognised by it."""
        return self.original or self.plan

    def live(self, operator: OperatorId, site: SiteId) -> list[tuple[RunFile, Slice]]:
        """The live runs and slices of an operator, as far as they hold groups of a site's own."""
        return self._at(operator, groups_at(self.operators[operator].routing, site), "memory")

    def probed(self, operator: OperatorId, site: SiteId) -> list[tuple[RunFile, Slice]]:
        """The runs and slices an operator probes at a site: also those of groups that it shares with others."""
        return self._at(operator, self.groups_probed(operator, site), "memory")

    def groups_probed(self, operator: OperatorId, site: SiteId) -> GroupSet:
        """The groups whose rows come to a site: its own, and those that it shares with others."""
        state = self.operators[operator]
        return groups_at(state.routing, site) | GroupSet.of(each.group for each in state.splits if site in each.sites)

    def closed(self, operator: OperatorId, site: SiteId) -> list[tuple[RunFile, Slice]]:
        """The runs and slices of an operator's closed generations, as far as a site has their groups."""
        return self._at(operator, groups_at(self.operators[operator].routing, site), "disk")

    def _at(self, operator: OperatorId, local: GroupSet, tier: Tier) -> list[tuple[RunFile, Slice]]:
        state = self.operators[operator]
        slices = (part for part in state.slices if part.tier == tier and part.groups.meets(local))
        return [(self.runs[part.run], part) for part in slices]

    def spilled(self, operator: OperatorId) -> GroupSet:
        """The groups of an operator that have results missing: those with more than one generation.

        Of a ring, it is those which were closed before rows of any group came (`watersmeet.state.ages`).
        """
        if self.is_ring(operator):
            return closed_first(self._aged(operator))
        seen, again = GroupSet(), GroupSet()
        for groups in self._by_generation(operator).values():
            seen, again = seen | groups, again | (seen & groups)
        return again

    def parked(self, operator: OperatorId, until: int | None = None) -> GroupSet:
        """The groups of an operator that were parked up to a batch, or to the last, and not cleaned since.

        Those for which nothing came have no results missing.
        """
        found = self.operators[operator].parked.items()
        return GroupSet.union(groups for batch, groups in found if until is None or batch <= until)

    def needed(self, operator: OperatorId) -> GroupSet:
        """The groups whose rows have a part in missing results: of a ring, also those of rows that came later."""
        return waiting(self._aged(operator)) if self.is_ring(operator) else self.spilled(operator)

    def is_ring(self, operator: OperatorId) -> bool:
        """Whether rows of an operator meet those of all groups."""
        return any(each.id == operator and each.kind == "ring" for each in self.plan.operators)

    def _aged(self, operator: OperatorId) -> list[Aged]:
        first = self.plan.operator(operator).inputs[0].name
        found: tuple[Aged, Aged] = {}, {}
        for part in self.operators[operator].slices:
            ages = found[0 if self.runs[part.run].input == first else 1]
            ages[part.age] = ages.get(part.age, GroupSet()) | part.groups
        return list(found)

    def generations(self, operator: OperatorId) -> dict[int, GroupSet]:
        """The closed generations of an operator and the groups that have them, oldest first."""
        found = self._by_generation(operator)
        return {generation: found[generation] for generation in sorted(found) if generation != LIVE}

    def live_groups(self, operator: OperatorId) -> GroupSet:
        """The groups of an operator that have anything live."""
        return self._by_generation(operator).get(LIVE, GroupSet())

    def _by_generation(self, operator: OperatorId) -> dict[int, GroupSet]:
        found: dict[int, list[GroupSet]] = {}
        for part in self.operators[operator].slices:
            found.setdefault(part.generation, []).append(part.groups)
        return {generation: GroupSet.union(sets) for generation, sets in found.items()}

    @property
    def promise_runs(self) -> list[RunFile]:
        """The runs of all stores of promises."""
        return [run for store in self.promises.values() for run in store]

    @property
    def bytes(self) -> int:
        """The size of all runs."""
        return sum(run.bytes for run in self.runs.values())

    @property
    def rows(self) -> int:
        """The number of rows that count; files may hold others, of groups that were written anew elsewhere."""
        return sum(map(self.rows_of, self.operators))

    def rows_of(self, operator: OperatorId) -> int:
        """The number of rows that count of an operator."""
        return sum(self.runs[part.run].rows_in(part.groups) for part in self.operators[operator].slices)
