"""What a site task is told: everything it needs to be a pure function of its rows. Travels to the workers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from watersmeet.model.ids import BatchId, EpochId, InputName, OperatorId, SiteId
from watersmeet.operators.costs import Cost
from watersmeet.operators.promises.stores import Store
from watersmeet.operators.ring.schemes import PSP, Scheme
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.site.admission import AdmissionRule
from watersmeet.site.crash import CrashPlan
from watersmeet.site.deciding import Decision
from watersmeet.site.expiry import End
from watersmeet.site.fetching import Coming
from watersmeet.site.layout import Layout
from watersmeet.site.partners import Partners
from watersmeet.site.promise_spec import PromiseMerge, PunctuatedStream, PurgeRule
from watersmeet.site.promises import PromiseReader
from watersmeet.site.result_files import ResultFormat
from watersmeet.site.travel import Rows, Travel
from watersmeet.state.groups import GroupSet
from watersmeet.state.looks import Look
from watersmeet.state.manifest import LIVE, RunFile, Slice, Split
from watersmeet.storage.base import Storage

ROUND_LIMIT_BYTES = 256 << 20
NO_GROUPS = GroupSet()

Pair = tuple[RunFile, Slice]
Function = tuple[Callable[..., Any], tuple[str, ...]]
"""A function of the user's, and the columns it reads."""


@dataclass(frozen=True)
class MergeOrder:
    """Runs of an input to merge into one, as far as they hold some groups of a generation.

    Rows that have come to their end by a ``limit`` go, or by the keys that were promised (``purge``), but for those of
    groups that were ``spilled``. With a ``look``, nothing is written where too few would go.
    """

    source: InputSpec
    runs: tuple[Pair, ...]
    groups: GroupSet
    generation: int = LIVE
    reason: str = ""
    limit: int | None = None
    spilled: GroupSet = NO_GROUPS
    purge: PurgeRule | None = None
    look: Look | None = None
    since: int = 0

    def end(self, groups: int, reader: PromiseReader | None = None, partners: Partners | None = None) -> End:
        """Which rows go."""
        return End(self.source, groups, self.limit, self.spilled, self.purge, reader, partners)

    @property
    def bytes(self) -> int:
        """The size of the files."""
        return sum(run.bytes for run, _ in self.runs)


@dataclass(frozen=True)
class CleaningOrder:
    """Groups of an operator to clean, in this order, with all their slices; ``sizes`` are the bytes of the groups.

    ``cleaned`` are those of all sites. Of a ring, the slices are those of all groups, as rows meet all of them.
    """

    operator: OperatorId
    groups: tuple[int, ...]
    sizes: tuple[int, ...]
    slices: tuple[Pair, ...]
    gather_bytes: int
    cleaned: GroupSet = NO_GROUPS


@dataclass(frozen=True)
class SiteSlice:
    """The part of the manifest that concerns one site at one level; of groups that were ``spilled`` no row goes.

    Of operators whose rows may come out alone, ``settled`` is all that lies in groups that miss nothing, and ``whole``
    are these groups, as far as the site has them. Of operators whose rows meet those of their own group alone, ``own``
    are all groups that come here. What it is going to need of groups that were announced to it is ``coming``.
    """

    live: Mapping[OperatorId, tuple[Pair, ...]]
    merges: tuple[MergeOrder, ...] = ()
    cleaning: CleaningOrder | None = None
    spilled: Mapping[OperatorId, GroupSet] = field(default_factory=dict)
    settled: Mapping[OperatorId, tuple[Pair, ...]] = field(default_factory=dict)
    whole: Mapping[OperatorId, GroupSet] = field(default_factory=dict)
    own: Mapping[OperatorId, GroupSet] = field(default_factory=dict)
    coming: tuple[Coming, ...] = ()


@dataclass(frozen=True)
class LevelSpec:
    """One level of the plan in one step, for all sites.

    ``inputs`` are those of all levels, by tag; rows arrive in the slots of ``incoming``, or in parcels if ``packed``. A
    level that ``only_stores`` closes what it is given as a generation of its own, and joins nothing. Arriving rows are
    taken up in rounds of ``round_bytes``. With a ``files`` format, results are written here and not handed on.

    In messages a site is told by its *key* (``site_keys``): any number the runner likes. ``admissions`` are asked of
    streams' rows. Rows of an input that have come to their end (`watersmeet.state.promises`) by its ``limits``, or
    by the keys that others promised (``purges``), are joined and not kept. ``stores`` are the promises there are,
    ``punctuated`` the streams that bring more, by the tag of their messages. ``owners`` tell, of
    operators whose rows go everywhere, which groups each site stores; ``splits``, which groups several sites share;
    ``ring_scheme``, which pairs a ring looks at.
    ``batch`` is the number of the batch that is joined, or would be next. ``functions`` are the user's, by name. What
    the tests of operators were found to cost is in ``costs``.
    """

    driver: str
    epoch: EpochId
    batch: BatchId
    level: int
    groups: int
    storage: Storage
    incoming: Layout
    inputs: Mapping[int, InputSpec]
    operators: tuple[OperatorSpec, ...]
    outgoing: Travel
    sites: Mapping[SiteId, SiteSlice]
    site_keys: tuple[int, ...]
    files: ResultFormat | None = None
    crash: CrashPlan | None = None
    forget_pairs: bool = False
    slow: Mapping[int, float] = field(default_factory=dict)
    only_stores: bool = False
    is_limited: bool = False
    round_bytes: int = ROUND_LIMIT_BYTES
    packed: bool = False
    admissions: Mapping[int, AdmissionRule] = field(default_factory=dict)
    limits: Mapping[int, int] = field(default_factory=dict)
    decisions: Mapping[int, Decision] = field(default_factory=dict)
    rejected_path: str | None = None
    query: str = ""
    stores: Mapping[InputName, tuple[Store, tuple[RunFile, ...]]] = field(default_factory=dict)
    punctuated: Mapping[int, PunctuatedStream] = field(default_factory=dict)
    purges: Mapping[int, PurgeRule] = field(default_factory=dict)
    promise_merges: Mapping[SiteId, tuple[PromiseMerge, ...]] = field(default_factory=dict)
    owners: Mapping[OperatorId, Mapping[SiteId, GroupSet]] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    ring_scheme: Scheme = PSP
    splits: Mapping[OperatorId, tuple[Split, ...]] = field(default_factory=dict)
    costs: Mapping[OperatorId, tuple[Cost, ...]] = field(default_factory=dict)

    def stored_elsewhere(self, source: InputSpec, site: SiteId) -> GroupSet:
        """The groups of which rows of an input come to a site to be joined, and are stored at another."""
        if source.go_everywhere:
            return GroupSet.all(self.groups) - self.owners[source.operator].get(site, NO_GROUPS)
        splits = self.splits.get(source.operator, ())
        return GroupSet.of(each.group for each in splits if each.input != source.name and site in each.sites[1:])

    def readers(self, source: InputSpec, run: RunFile) -> list[SiteId]:
        """All sites that join the rows of a run which one of them has stored, if they are several."""
        if source.go_everywhere:
            return list(self.owners[source.operator])
        splits = [each for each in self.splits.get(source.operator, ()) if each.group in run.groups]
        return sorted({site for each in splits if each.input != source.name for site in each.sites})

    def parts(self, source: InputSpec, site: SiteId) -> list[tuple[int, int, int]]:
        """The groups of which a site has a part of an input's stored rows: each with its number, and of how many."""
        splits = [each for each in self.splits.get(source.operator, ()) if each.input == source.name]
        return [(each.group, each.sites.index(site), len(each.sites)) for each in splits if site in each.sites]

    def is_above(self, tag: int) -> bool:
        """Whether an input is one of a higher level."""
        return self.inputs[tag].level > self.level

    @cached_property
    def live_paths(self) -> frozenset[str]:
        """The files that are probed at any site of this level, and those of promises."""
        promises = {run.path for _, runs in self.stores.values() for run in runs}
        return (
            frozenset(run.path for each in self.sites.values() for pairs in each.live.values() for run, _ in pairs)
            | promises
        )

    @property
    def is_root(self) -> bool:
        """Whether this level's output is the query's."""
        return isinstance(self.outgoing, Rows)

    @property
    def sites_by_key(self) -> dict[int, SiteId]:
        """The site of each key."""
        return {key: SiteId(site) for site, key in enumerate(self.site_keys)}

    def tag(self, operator: OperatorId, name: InputName) -> int:
        """The number of an input."""
        return next(tag for tag, each in self.inputs.items() if (each.operator, each.name) == (operator, name))
