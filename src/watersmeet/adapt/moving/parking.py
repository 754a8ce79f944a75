"""Work that a site has no time for is parked: the transient skew buffer (Flux 4).

An epoch is as slow as its slowest site. What lasts is levelled by moves. A burst of a few epochs is over before moves
pay, and meanwhile all sites wait for one. In the paper, producers then hold tuples back for that one. Here they are
stored, as all rows are, and what is put off is to join them with what their groups hold: *parking is spilling for time
instead of memory*. The generations of the groups that cost most are closed (`watersmeet.state.changes.SpillGroups`), so
new rows meet only each other. The results across are missing, hold promises back, and are produced by cleanup, spread
over all sites, when the site has time again (`watersmeet.adapt.cleaning.draining`).

1. A site is overloaded if it is *slow*, and holds up the epoch (`put_off`).
2. It is a burst only if the site was not slow before, for some epochs; what has been so for `LASTS` epochs is none, and
   so is what was so from the start.
3. It has to be more than chance. What sites take and are given, each compared with the mean of the others, scatters;
   a burst is `UNUSUAL` times what is usual, and `SURE` times the scatter beyond that. Clocks are noisy, counts are not:
   if a site is given so many tuples, one epoch is enough; if only the clock says so, it has to be so twice in a row.
4. The groups with most results that can be put off go first, until the site is expected to be near the others. That is
   done once a burst.
5. It has to be worth it: most of what the site is behind can be put off, and what that gains, for as long again as the
   site was slow, is more than it costs to read the groups in cleanup.
6. Parked groups are *held* while the site would still be slow with them: what they cost goes with the rows that come
   for them, and with the site's pace. If less than half of what was expected came, the site was slow for other reasons.
   Then nothing is held, and twice as many epochs without a burst are asked for until the next, which is told.

Nothing is parked of an aggregate, or below one that tells of every change: its values would come later than its epoch.
Nor of a ring, which is spread over all sites, nor of groups that sites share, or that were moved in the same step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.cleaning.draining import Draining
from watersmeet.adapt.moving.pieces import Flags, Ints
from watersmeet.adapt.moving.put_off import SiteTimes
from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.state.changes import ChangePatience, SpillGroups
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest
from watersmeet.state.sizes import live_bytes_by_site

OVER = 1.5
"""Times what ordinary sites take: when the burst of a site is over."""

UNUSUAL, SURE, FIRST_SCATTER = 1.5, 4.0, 0.1
"""So many times what is usual, and so much beyond the scatter, is no chance; at first sites are taken to scatter."""

CALM_LEAST, CALM_MOST, LASTS = 3, 64, 8
"""How many epochs a site was not slow before a burst; after how many slow ones it is none."""

AGEING = 0.9
"""What is left of what is usual after an epoch."""


@dataclass
class Usual:
    """What is usual of every site, compared with the mean of the others, and by how much that scatters."""

    values: Floats = field(default_factory=lambda: np.zeros(0))
    scatter: float = FIRST_SCATTER

    def learn(self, amounts: Floats) -> None:
        """An epoch in which nothing was unusual."""
        now, known = compared(amounts), len(self.values) > 0
        self.scatter = AGEING * self.scatter + (1 - AGEING) * float(np.abs(now - self.values).mean() if known else 0.0)
        self.values = AGEING * self.values + (1 - AGEING) * now if known else now

    def exceeded(self, amounts: Floats) -> Flags:
        """Where more is seen than chance would explain.

        >>> usual = Usual()
        >>> usual.learn(np.array([10.0, 10.0, 10.0]))
        >>> usual.exceeded(np.array([15.0, 30.0, 10.0])).tolist()
        [False, True, False]
        """
        if not len(self.values):
            return np.zeros(len(amounts), np.bool_)
        return compared(amounts) > UNUSUAL * self.values + SURE * self.scatter


def compared(amounts: Floats) -> Floats:
    """Each amount by the mean of the others.

    >>> compared(np.array([3.0, 1.0, 1.0])).tolist()
    [3.0, 0.5, 0.5]
    """
    others = (amounts.sum() - amounts) / max(len(amounts) - 1, 1)
    times: Floats = amounts / np.maximum(others, 1e-9)
    return times


@dataclass
class Hold:
    """The parked groups of a site, until they are drained: what they would cost an epoch in which so many rows came.

    ``saved`` is by what ordinary sites took, as all of them may be slow at times; and ``first`` is what the site took
    so, and for how many tuples, in the first epoch without them. Once they are not held any more, they are drained.
    """

    groups: dict[OperatorId, GroupSet]
    batch: int
    before_ms: float
    saved_ms: float
    saved: float
    saved_tuples: float
    rows: float
    first: tuple[float, float] | None = None
    is_held: bool = True

    def is_parked(self, manifest: Manifest) -> bool:
        """Whether they were parked as suggested, and not all are drained."""
        return any(manifest.parked(name) & groups for name, groups in self.groups.items())

    def has_helped(self, site_ms: float) -> bool:
        """Whether at least half of what was expected came."""
        return self.before_ms - site_ms >= self.saved_ms / 2

    def put_off(self, took: float, tuples: float, rows: float) -> tuple[float, float]:
        """What an epoch was spared, by what ordinary sites took, and in tuples: it goes with rows and with the pace."""
        self.first = self.first or (took, tuples)
        pace = (took / max(self.first[0], 1e-9)) / max(tuples / max(self.first[1], 1.0), 1e-9)
        part = rows / max(self.rows, 1.0)
        return self.saved * min(pace, 1.0) * part, self.saved_tuples * part


@dataclass
class ParkPolicy:
    """Suggests groups to be parked, and tells which of them are held."""

    options: MemoryOptions = field(default_factory=MemoryOptions)
    draining: Draining = field(default_factory=Draining)
    name: str = "park"
    moments: frozenset[Moment] = frozenset({"step"})
    _routing: list[tuple[SiteId, ...]] = field(default_factory=list)
    _holds: dict[int, Hold] = field(default_factory=dict)
    _times: Usual = field(default_factory=Usual)
    _tuples: Usual = field(default_factory=Usual)
    _calm: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _slow: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _wanted: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A spill for every site that has a burst."""
        load, manifest = view.load, view.manifest
        if load is None:
            return
        routing = [state.routing for state in manifest.operators.values()]
        if manifest.sites == 1 or not load.is_shared or not load.rows or len(self._calm) != manifest.sites:
            self._begin(manifest.sites)  # the first epoch of a run warms everything up
        elif routing != self._routing:  # groups have moved just now, and what is usual is to be seen
            self._times, self._tuples, self._calm[:], self._slow[:] = Usual(), Usual(), 0, 0
        else:
            yield from self._watched(SiteTimes(manifest, load))
        self._routing = routing
        self.draining.held = self._held()

    def _begin(self, sites: int) -> None:
        self._holds, self._times, self._tuples = {}, Usual(), Usual()
        self._calm, self._slow = np.zeros(sites, np.int64), np.zeros(sites, np.int64)
        self._wanted = np.full(sites, CALM_LEAST)

    def _watched(self, epoch: SiteTimes) -> list[Suggestion]:
        """Learn from an epoch, and decide."""
        self._holds = {site: hold for site, hold in self._holds.items() if hold.is_parked(epoch.manifest)}
        is_first = {site for site, hold in self._holds.items() if hold.first is None}
        ordinary_ms = epoch.ordinary_of([site for site in range(len(self._calm)) if site not in self._holds])
        for site, hold in self._holds.items():
            took, tuples = float(epoch.site_ms[site]) / ordinary_ms, float(epoch.tuples[site])
            put_off, put_off_tuples = hold.put_off(took, tuples, epoch.rows_of(hold.groups))
            epoch.would_take(site, put_off * ordinary_ms, put_off_tuples)
        patience = [self._learnt(epoch, site, self._holds[site]) for site in sorted(is_first)]
        for site, hold in self._holds.items():
            hold.is_held = hold.is_held and not self._is_over(epoch, site, hold, is_first=site in is_first)
        slow = epoch.slow & (self._times.exceeded(epoch.whole_ms) | (self._calm == 0))
        self._slow = np.where(slow, self._slow + 1, 0)
        found = [self._parked(epoch, site) for site in np.flatnonzero(slow).tolist() if self._is_burst(epoch, site)]
        parked = np.isin(np.arange(len(slow)), list(self._holds))
        self._calm = np.where(self._slow > LASTS, 0, self._calm + ~(slow | parked))
        if not (slow | parked).any():
            self._times.learn(epoch.whole_ms)
            self._tuples.learn(epoch.whole_tuples)
        return [each for each in (*patience, *found) if each is not None]

    def _learnt(self, epoch: SiteTimes, site: int, hold: Hold) -> Suggestion | None:
        """How long a site has to be calm before its next burst, now that it is known what the last parking brought."""
        before = int(self._wanted[site])
        wanted = before // 2 if hold.has_helped(epoch.site_ms[site]) else 2 * before
        after = min(max(wanted, CALM_LEAST), CALM_MOST)
        self._wanted[site] = after
        took = (
            f"site {site} took {hold.before_ms:.0f} ms of an epoch, without parked groups {epoch.site_ms[site]:.0f} ms"
        )
        reason = f"{took}, when {hold.before_ms - hold.saved_ms:.0f} ms were expected"
        return Suggestion(ChangePatience(self.name, before, after, reason)) if after != before else None

    def _is_burst(self, epoch: SiteTimes, site: int) -> bool:
        is_counted, is_new = self._tuples.exceeded(epoch.whole_tuples)[site], site not in self._holds
        return bool(is_new and self._calm[site] >= self._wanted[site] and (is_counted or self._slow[site] > 1))

    def _parked(self, epoch: SiteTimes, site: int) -> Suggestion | None:
        chosen = epoch.chosen(site, self.options.generations_max // 2)
        epochs = max(int(self._slow[site]), CALM_LEAST)
        if chosen is None or chosen.gain_ms * epochs < chosen.cost_ms:
            return None
        before_ms, ordinary_ms = epoch.site_ms[site], epoch.ordinary_ms
        saved = chosen.saved_ms, chosen.saved_ms / max(ordinary_ms, 1e-9), chosen.tuples
        self._holds[site] = Hold(chosen.groups, epoch.manifest.batch, before_ms, *saved, chosen.rows)
        times, usual = compared(epoch.whole_tuples)[site], self._tuples.values[site]
        is_counted = self._tuples.exceeded(epoch.whole_tuples)[site]
        cause = f"with {times:.1f} times the tuples of others, usually {usual:.1f}" if is_counted else "as before"
        reason = (
            f"site {site} took {before_ms:.0f} ms of an epoch, ordinary sites {ordinary_ms:.0f} ms, {cause}: what "
            f"{sum(map(len, chosen.groups.values()))} groups hold is joined later"
        )
        live = int(live_bytes_by_site(epoch.manifest)[site])
        epoch_ms = round(before_ms), round(before_ms - chosen.saved_ms)
        change = SpillGroups(SiteId(site), chosen.groups, self.name, live, chosen.live_bytes, reason, epoch_ms)
        return Suggestion(change, change.groups)

    def _is_over(self, epoch: SiteTimes, site: int, hold: Hold, *, is_first: bool) -> bool:
        """Whether parked groups need not be held any more."""
        has_helped = not is_first or hold.has_helped(epoch.site_ms[site])
        if not has_helped or epoch.manifest.batch - hold.batch >= LASTS:
            self._calm[site] = 0
            return True
        return bool(epoch.whole_ms[site] <= OVER * epoch.ordinary_ms)

    def _held(self) -> Mapping[OperatorId, GroupSet]:
        held = [hold.groups for hold in self._holds.values() if hold.is_held]
        names = {name for groups in held for name in groups}
        return {name: GroupSet.union(groups.get(name, GroupSet()) for groups in held) for name in names}
