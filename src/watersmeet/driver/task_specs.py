"""From a manifest to the specifications of a step's site tasks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from watersmeet.adapt.cleaning.choice import deal
from watersmeet.adapt.policy import Merge
from watersmeet.driver.costs import TestCosts
from watersmeet.driver.row_ends import Expiry
from watersmeet.driver.topology import Topology
from watersmeet.model.ids import BatchId, EpochId, InputName, OperatorId, SiteId
from watersmeet.model.plan import Stream
from watersmeet.operators.promises.stores import stores_of
from watersmeet.operators.ring.schemes import PSP, Scheme
from watersmeet.operators.spec import OperatorSpec
from watersmeet.site.admission import LATE, PUNCTUATED, AdmissionRule
from watersmeet.site.crash import CrashPlan
from watersmeet.site.fetching import Coming
from watersmeet.site.result_files import ResultFormat
from watersmeet.site.spec import ROUND_LIMIT_BYTES, CleaningOrder, Function, LevelSpec, MergeOrder, Pair, SiteSlice
from watersmeet.state.groups import GroupSet, groups_at
from watersmeet.state.manifest import Cleaning, Manifest
from watersmeet.state.parts import Wanted
from watersmeet.state.promises import lateness_limit
from watersmeet.state.sizes import total_bytes
from watersmeet.storage.base import Storage


@dataclass(frozen=True)
class TaskSpecs:
    """Builds task specifications from the settings of a run."""

    storage: Storage
    driver: str
    files: ResultFormat | None = None
    crash: CrashPlan | None = None
    forget_pairs: bool = False
    slow: Mapping[int, float] = field(default_factory=dict)
    slow_epochs: range | None = None
    is_limited: bool = False
    round_bytes: int = ROUND_LIMIT_BYTES
    rejected_path: str | None = None
    tells_promises_apart: bool = False
    functions: Mapping[str, Function] = field(default_factory=dict)
    ring_scheme: Scheme = PSP

    def levels(
        self, manifest: Manifest, topology: Topology, merges: Sequence[Merge], costs: TestCosts | None = None
    ) -> list[LevelSpec]:
        """The levels of the step that reads this manifest: of an epoch, or of the cleanup that it has begun.

        ``costs`` are what is known of the operators' tests.
        """
        expiry = Expiry.of(manifest, topology, tells_apart=self.tells_promises_apart)
        levels = [self._level(level, manifest, topology, merges, expiry) for level in range(topology.depth)]
        levels = [replace(each, costs=dict(costs or {})) for each in levels]
        return levels if manifest.cleaning is None else self._cleaning(levels, manifest, manifest.cleaning)

    def _cleaning(self, levels: list[LevelSpec], manifest: Manifest, step: Cleaning) -> list[LevelSpec]:
        """The levels of a step of cleanup: the operator's own, whose sites share the groups, and those above."""
        lowest, *above = levels[manifest.plan.operator(step.operator).level :]
        sizes = dict(enumerate(total_bytes(manifest, step.operator).tolist()))
        shares = deal(step, sizes, manifest.sites)
        sites = {
            site: replace(part, cleaning=cleaning_order(manifest, step, shares[site], sizes))
            for site, part in lowest.sites.items()
        }
        if step.at_end and not any(_joins_at_once(operator) for spec in above[:1] for operator in spec.operators):
            above = [replace(spec, only_stores=True, files=None) for spec in above[:1]]
        return [replace(lowest, sites=sites), *above]

    def _level(
        self, level: int, manifest: Manifest, topology: Topology, merges: Sequence[Merge], expiry: Expiry
    ) -> LevelSpec:
        operators = topology.operators(level)
        sites = map(SiteId, range(manifest.sites))
        return LevelSpec(
            driver=self.driver,
            epoch=EpochId(manifest.version),
            batch=BatchId(manifest.batch + 1),
            level=level,
            groups=manifest.groups,
            storage=self.storage,
            incoming=topology.incoming(level),
            inputs=topology.specs,
            operators=operators,
            outgoing=topology.travel(level, manifest),
            sites={site: self._site(manifest, operators, site, merges, expiry) for site in sites},
            site_keys=tuple(range(manifest.sites)),
            files=self.files if level == topology.depth - 1 else None,
            crash=self.crash,
            forget_pairs=self.forget_pairs,
            slow=self.slow if self.slow_epochs is None or manifest.batch + 1 in self.slow_epochs else {},
            is_limited=self.is_limited,
            round_bytes=self.round_bytes,
            packed=topology.packs(level),
            admissions=_admissions(manifest, topology) if level == 0 else {},
            limits=expiry.by_tag(topology),
            decisions=expiry.decisions(manifest, topology),
            rejected_path=self.rejected_path if level == 0 else None,
            query=manifest.query_id,
            stores=expiry.keys.stores,
            punctuated=expiry.keys.punctuated() if level == 0 else {},
            purges=expiry.purges,
            promise_merges=expiry.keys.merges() if level == 0 else {},
            owners=_owners(manifest),
            functions=self.functions,
            splits={name: state.splits for name, state in manifest.operators.items() if state.splits},
            ring_scheme=self.ring_scheme,
        )

    def _site(
        self,
        manifest: Manifest,
        operators: Sequence[OperatorSpec],
        site: SiteId,
        merges: Sequence[Merge],
        expiry: Expiry,
    ) -> SiteSlice:
        """What one site needs to know; of rings, also the copies that it holds of what others store."""
        here = _site_slice(manifest, operators, site, merges, expiry)
        rings = [operator for operator in operators if operator.kind == "ring" and self.ring_scheme.name != "psp"]
        copied = {ring.id: tuple(self._held(manifest, ring, site)) for ring in rings}
        return replace(here, live={**here.live, **copied})

    def _held(self, manifest: Manifest, ring: OperatorSpec, site: SiteId) -> Iterator[Pair]:
        owners = owners_of(manifest, ring.id)
        held = {source.name: self.ring_scheme.held(owners, site, n) for n, source in enumerate(ring.inputs)}
        for part in manifest.operators[ring.id].slices:
            run = manifest.runs[part.run]
            if part.tier == "memory" and part.groups.meets(held[run.input]):
                yield run, part


def _joins_at_once(operator: OperatorSpec) -> bool:
    """Whether rows of an operator must not be closed before they have met what is live.

    Which rows of a group were decided is known of its oldest generation (`watersmeet.site.deciding`), and what rows of
    a ring have met from when they came and were closed (`watersmeet.state.ages`).
    """
    return operator.aggregate is not None or bool(operator.preserved) or operator.kind == "ring"


def _site_slice(
    manifest: Manifest, operators: Sequence[OperatorSpec], site: SiteId, merges: Sequence[Merge], expiry: Expiry
) -> SiteSlice:
    """What one site needs to know of the manifest for some operators."""
    live = {operator.id: tuple(manifest.probed(operator.id, site)) for operator in operators}
    inputs = {(source.operator, source.name): source for operator in operators for source in operator.inputs}
    rules = {pair: expiry.purges.get(source.tag) for pair, source in inputs.items()}
    orders = [
        MergeOrder(
            inputs[m.operator, m.input],
            _pairs(manifest, m),
            m.groups,
            m.generation,
            m.reason,
            expiry.limits.get((m.operator, m.input)),
            _spared(manifest, m, expiry),
            rules[m.operator, m.input],
            m.look,
            m.since,
        )
        for m in merges
        if m.site == site and (m.operator, m.input) in inputs and (m.look is None or rules[m.operator, m.input])
    ]
    asked = {name for name, _ in expiry.ends if name in live}
    asked |= {operator.id for operator in operators if operator.preserved and manifest.promised}
    asked |= {m.operator for m in merges if m.operator in live and _gives_once(manifest, m)}
    whole = {name: groups_at(manifest.operators[name].routing, site) - manifest.spilled(name) for name in asked}
    settled = {
        name: tuple(
            (manifest.runs[part.run], part) for part in manifest.operators[name].slices if part.groups & whole[name]
        )
        for name in asked
    }
    own = {operator.id: manifest.groups_probed(operator.id, site) for operator in operators if operator.kind != "ring"}
    coming = tuple(pair for name, groups in own.items() for pair in _coming(manifest, name, site, groups))
    return SiteSlice(live, tuple(orders), None, expiry.spilled, settled, whole, own, coming)


def _spared(manifest: Manifest, merge: Merge, expiry: Expiry) -> GroupSet:
    """The groups of which a merge drops no rows: those that miss results.

    Rows of preserved inputs and of rings stay for as long as there are closed ones of their group: the oldest tell what
    was decided, and what was met.
    """
    operator = manifest.plan.operator(merge.operator)
    if merge.look is None and (operator.preserved or operator.kind == "ring"):
        return expiry.spilled.get(merge.operator, GroupSet())
    return manifest.spilled(merge.operator)


def _gives_once(manifest: Manifest, merge: Merge) -> bool:
    """Whether the rows that are merged come out at most once, so that those with a match may go."""
    operator = manifest.plan.operator(merge.operator)
    return operator.how in ("semi", "anti") and operator.inputs[0].name == merge.input


def _coming(manifest: Manifest, operator: OperatorId, site: SiteId, own: GroupSet) -> Iterator[Coming]:
    """What a site is going to probe when it has taken over the groups that were announced to it."""
    told = [each.groups for each in manifest.announced if (each.operator, each.after) == (operator, site)]
    groups = GroupSet.union(told)
    for part in manifest.operators[operator].slices if told else ():
        if part.tier == "memory" and part.groups.meets(groups):
            yield manifest.runs[part.run], Wanted(part.groups & (own | groups), manifest.groups)


def _owners(manifest: Manifest) -> dict[OperatorId, dict[SiteId, GroupSet]]:
    """Which groups of each ring are stored where."""
    return {each.id: owners_of(manifest, each.id) for each in manifest.plan.operators if each.kind == "ring"}


def owners_of(manifest: Manifest, ring: OperatorId) -> dict[SiteId, GroupSet]:
    """Which groups of a ring are stored where; sites without any take no part in it."""
    table = manifest.operators[ring].routing
    return {site: groups_at(table, site) for site in sorted(set(table))}


def _admissions(manifest: Manifest, topology: Topology) -> dict[int, AdmissionRule]:
    """The checks of arriving rows: of rows with times, and, once the input has ended, of all."""
    tags = {source.name: tag for tag, source in topology.stream_tags().items()}
    asked = [each for each in manifest.plan.streams if each.is_checked or manifest.has_ended]
    return {tags[InputName(each.name)]: _admission(manifest, each) for each in asked}


def _admission(manifest: Manifest, stream: Stream) -> AdmissionRule:
    stores = stores_of(manifest.plan, stream)
    ended = PUNCTUATED if stream.name in manifest.ended else LATE if manifest.has_ended else None
    return AdmissionRule(
        stream.name,
        None if stream.time is None else stream.time.name,
        lateness_limit(manifest, stream.name),
        ended,
        manifest.promised_until.get(stream.name),
        tuple(each.name for each in stores if not each.is_unique and manifest.promises.get(each.name)),
        next((each for each in stores if each.is_unique), None),
    )


def _pairs(manifest: Manifest, merge: Merge) -> tuple[Pair, ...]:
    found = {
        part.run: (manifest.runs[part.run], part)
        for part in manifest.operators[merge.operator].slices
        if part.run in merge.runs and (part.generation, part.since) == (merge.generation, merge.since)
    }
    return tuple(found[run] for run in merge.runs)


def cleaning_order(
    manifest: Manifest, cleaning: Cleaning, groups: tuple[int, ...], sizes: Mapping[int, float]
) -> CleaningOrder:
    """A site's part of a step: its groups, and every slice that holds any of them."""
    wanted = GroupSet.all(manifest.groups) if groups and manifest.is_ring(cleaning.operator) else GroupSet.of(groups)
    slices = (part for part in manifest.operators[cleaning.operator].slices if part.groups & wanted)
    found = tuple((manifest.runs[part.run], part) for part in slices)
    weights = tuple(int(sizes.get(group, 0)) for group in groups)
    cleaned = GroupSet.of(cleaning.groups)
    return CleaningOrder(cleaning.operator, groups, weights, found, cleaning.gather_bytes, cleaned)
