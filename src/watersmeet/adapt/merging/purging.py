"""When to look for rows that can go because of punctuations, and to write their runs anew without them.

Which rows a punctuation lets go is not known until they are looked at. A task looks up the keys that are new since the
last look, and tells how many rows of a slice can go by now; once they are more than a part of it, it writes the slice
anew (`watersmeet.site.purging`). What that costs follows what is promised and what goes, so it is done in every step
after one that brought promises, or that decided rows because of some. Any merge drops such rows as well.

All rows of a slice are looked at

- if nothing is known of it: it was there before this run of the query, or groups of it have been cleaned since;
- where new keys cannot be told one by one, as ranges are wide or name a part of the key only.

That costs what is held. So it waits after each time, twice as long if little was found, up to `WAIT_MOST` versions; but
not while there is little, and not when memory is short: purging comes before spilling. What was spilled is looked at
once it misses nothing any more, and waits in the same way, as it has to be read from disk; of an outer join or an
aggregate, in steps of cleanup.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from watersmeet.adapt.policy import Merge
from watersmeet.model.ids import OperatorId, RunId, SiteId
from watersmeet.model.plan import Operator
from watersmeet.state.changes import AddRun, Change, MergeRuns
from watersmeet.state.groups import GroupSet, groups_at
from watersmeet.state.inputs import streams_of
from watersmeet.state.looks import Look, Looked
from watersmeet.state.manifest import LIVE, UNDECIDED, Manifest, RunFile, Slice
from watersmeet.state.sizes import live_bytes_by_site

SMALL_BYTES = 64 << 10
WAIT_MOST = 16
LITTLE, MUCH = 0.125, 0.25
"""Parts of the rows: if less was found, it is waited longer until all are looked at again; if more, not as long."""

SHORT = 0.8
"""Memory is short when this part of the budget is used."""

Key = tuple[SiteId, RunId, int]
News = tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    """What is known of a slice: of its ``groups``, ``gone`` rows can go by keys promised up to a version (``told``).

    The ``news`` are what was promised and decided by then. All rows were last looked at in a ``version``, and are again
    once so many versions have passed (``wait``). So many rows of its operator had been ``dropped`` by then. The part
    ``least`` of its rows was too few to write it anew.
    """

    groups: GroupSet
    told: int
    news: News
    version: int
    gone: int = 0
    wait: int = 1
    dropped: int = 0
    least: float = 0.0


@dataclass
class Purging:
    """Suggests looks, and learns from what tasks tell of them.

    Asked to be thorough, it looks at everything in the next step, and remembers the version this step began with.
    """

    budget_bytes: int | None = None
    thorough_at: int | None = None
    _is_thorough: bool = False
    _seen: dict[Key, Seen] = field(default_factory=dict)
    _asked: dict[Key, Seen] = field(default_factory=dict)
    _dropped: dict[OperatorId, int] = field(default_factory=dict)

    def looks(self, manifest: Manifest, merges: Collection[Merge], least: float) -> Iterator[Merge]:
        """The slices to look at in the next step; those that are merged are not, nor where less than a part can go."""
        self._asked = {}
        if not manifest.promised:
            return
        if self._is_thorough:
            self._is_thorough, self.thorough_at = False, manifest.version
        merged = {(each.site, run, each.generation) for each in merges for run in each.runs}
        hurried = self._hurried_sites(manifest)
        for operator in (each for each in manifest.plan.operators if _is_concerned(manifest, each)):
            for site in map(SiteId, range(manifest.sites)):
                for key, run, groups in _slices(manifest, operator, site):
                    if key not in merged:
                        yield from self._look(manifest, operator, key, run, groups, least, is_hurried=site in hurried)

    def be_thorough(self) -> None:
        """Look at everything in the next step."""
        self._is_thorough = True

    def learn(self, manifest: Manifest, site: SiteId, changes: Iterable[Change], looked: Iterable[Looked]) -> None:
        """Take in what a task did that has read a manifest; it has kept no rows that could go by then."""
        for each in looked:
            asked = self._asked.get((site, each.run, each.generation))
            if asked is not None:
                self._seen[site, each.run, each.generation] = _after(manifest, asked, each)
        for change in changes:
            if isinstance(change, MergeRuns):
                self.count_dropped(change.run.operator, change.dropped)
                waits = [seen.wait for run in change.merged if (seen := self._seen.get((site, run, change.generation)))]
                self._know(manifest, site, change, change.generation, max(waits, default=1))
            elif isinstance(change, AddRun) and not change.closed:
                self._know(manifest, site, change, LIVE, 1)

    def count_dropped(self, operator: OperatorId, rows: int) -> None:
        """So many rows of an operator have left the state."""
        self._dropped[operator] = self._dropped.get(operator, 0) + rows

    def forget_others(self, manifest: Manifest) -> None:
        """Of runs that are no part of the state any more, nothing needs to be known."""
        self._seen = {key: seen for key, seen in self._seen.items() if key[1] in manifest.runs}

    def _know(self, manifest: Manifest, site: SiteId, change: AddRun | MergeRuns, generation: int, wait: int) -> None:
        """Nothing is left in a new run that could go, but of groups with generations that its rows have not met."""
        run, operator = change.run, manifest.plan.operator(change.run.operator)
        is_new = isinstance(change, AddRun)
        unmet = GroupSet.union(manifest.generations(operator.id).values()) if is_new else manifest.spilled(operator.id)
        groups = run.groups - unmet
        if groups and operator.kind != "ring":
            told, news = _told(manifest, operator, groups), _news(manifest, operator)
            dropped = self._dropped.get(operator.id, 0) if operator.kind == "outer" else 0
            seen = Seen(groups, told, news, manifest.version, wait=wait, dropped=dropped)
            self._seen[site, run.id, generation] = seen

    def _look(
        self,
        manifest: Manifest,
        operator: Operator,
        key: Key,
        run: RunFile,
        groups: GroupSet,
        least: float,
        *,
        is_hurried: bool,
    ) -> Iterator[Merge]:
        seen, is_thorough = self._seen.get(key), self.thorough_at == manifest.version
        is_rested = seen is None or manifest.version - seen.version >= seen.wait
        scans = is_thorough or is_hurried or is_rested
        if seen is not None and not scans:  # of other groups nothing is known yet
            groups &= seen.groups
        # In an outer join, some wait for rows that may have gone.
        dropped = self._dropped.get(operator.id, 0) if operator.kind == "outer" else 0
        is_known = seen is not None and not is_thorough and not groups - seen.groups
        is_known = is_known and not (scans and seen is not None and seen.dropped != dropped)
        news = _news(manifest, operator)
        is_new = seen is None or not is_known or seen.news != news or (least < seen.least and seen.gone > 0)
        if not groups or not is_new or (key[2] != LIVE and not scans):
            return
        told, gone = (seen.told, seen.gone) if seen is not None and is_known else (None, 0)
        look = Look(0.0 if is_thorough else least, told, gone, scans)
        version, wait = (manifest.version, 1) if seen is None else (seen.version, seen.wait)
        dropped = seen.dropped if seen is not None and is_known else dropped
        told_now = _told(manifest, operator, groups)
        self._asked[key] = Seen(groups, told_now, news, version, wait=wait, dropped=dropped, least=look.at)
        reason = f"punctuations may let rows of {run.input} go"
        yield Merge(key[0], operator.id, run.input, (run.id,), groups, key[2], reason, look)

    def _hurried_sites(self, manifest: Manifest) -> set[int]:
        """The sites where all rows may be looked at any time: there are few, or memory is short."""
        sizes = live_bytes_by_site(manifest)
        budget = float("inf") if self.budget_bytes is None else self.budget_bytes
        return {site for site, size in enumerate(sizes) if size <= SMALL_BYTES or size > SHORT * budget}


def _after(manifest: Manifest, asked: Seen, looked: Looked) -> Seen:
    """What is known of a slice that was looked at."""
    if not looked.scanned and looked.generation == LIVE:
        return replace(asked, gone=looked.gone)
    little, much = looked.gone < LITTLE * looked.rows, looked.gone >= MUCH * looked.rows
    wait = min(WAIT_MOST, 2 * asked.wait) if little else max(1, asked.wait // 2) if much else asked.wait
    return replace(asked, gone=looked.gone, version=manifest.version, wait=wait)


def _slices(manifest: Manifest, operator: Operator, site: SiteId) -> Iterator[tuple[Key, RunFile, GroupSet]]:
    """What a site has of an operator, as far as no results of its groups are missing."""
    whole = groups_at(manifest.operators[operator.id].routing, site) - manifest.spilled(operator.id)
    pairs: Sequence[tuple[RunFile, Slice]] = manifest.live(operator.id, site)
    if _may_purge_closed(manifest, operator):
        pairs = [*pairs, *manifest.closed(operator.id, site)]
    for run, part in pairs:
        if groups := part.groups & whole:
            yield (site, run.id, part.generation), run, groups


def _may_purge_closed(manifest: Manifest, operator: Operator) -> bool:
    """Whether what was spilled of an operator may go in the next step.

    Which rows were decided is known of the oldest generation of a group. It must not go as others come, which would be
    taken for it: so it goes in a step of cleanup, in which none come to the operator that is cleaned, nor below.
    """
    step = manifest.cleaning
    if not operator.preserved:
        return step is None
    return step is not None and operator.level <= manifest.plan.operator(step.operator).level


def _news(manifest: Manifest, operator: Operator) -> News:
    """What rows of an operator can go by: it is something else once more can."""
    state = manifest.operators[operator.id]
    streams = _streams(manifest, operator)
    promised = max((manifest.promised.get(stream, 0) for stream in streams), default=0)
    decided = max((int(each.array.max()) for each in state.decided_keys.values()), default=0)
    passed = max((marks[-1][1] for marks in state.passed.values()), default=0)
    is_mixed = len(operator.inputs) > 2  # noqa: PLR2004 -- one other input by the key, one by the time
    times = [manifest.latest.get(stream, 0) for stream in sorted(streams)] if is_mixed else []
    return promised, decided, passed, *times


def _told(manifest: Manifest, operator: Operator, groups: GroupSet) -> int:
    """Up to which version all that was promised counts; rows that have to be decided first go by what they are."""
    known = [manifest.operators[operator.id].decided_keys.get(operator.inputs[n].name) for n in operator.preserved]
    mask = groups.mask(manifest.groups)
    return min([manifest.version, *(UNDECIDED if each is None else int(each.array[mask].min()) for each in known)])


def _is_concerned(manifest: Manifest, operator: Operator) -> bool:
    """Whether rows of an operator may go because of what its streams have promised of keys; a ring has none."""
    return operator.kind != "ring" and not _streams(manifest, operator).isdisjoint(manifest.promised)


def _streams(manifest: Manifest, operator: Operator) -> frozenset[str]:
    return frozenset().union(*(streams_of(manifest, source) for source in operator.inputs))
