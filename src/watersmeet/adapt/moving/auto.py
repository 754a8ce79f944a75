"""The default: groups move where that has paid, and will (Flux 8 leaves the tuning of thresholds open).

Moves are weighed, not triggered by fixed thresholds:

- **Memory.** Where a site would have to spill although the sites together have room, groups move instead (`relief`).
- **Load.** The time of an epoch by its distribution is modelled from what sites and groups did lately (`levelling`),
  and so is that of a levelled one. The difference is the *gain* of an epoch. Of many sites one is slowest by chance,
  and to level chance gains nothing. So a distribution is found by one half of the epochs, and its gain is what it would
  have gained in the other (`watching`). What the first half promised beyond that is chance, and so is what sites
  usually deviate from each other, less the longer they were watched. Groups move if the gain is clearly more than
  chance, and a noticeable part of the epoch; and if what it gains in as many epochs as were watched is more than the
  move costs. (What has held so far holds about as long again: Lindy's law.)
- **When.** If counts tell that the load has another pattern (`pattern`), all that was known of it is forgotten, and one
  epoch is enough for a decision: what it was before does not come into it. What is chance then is told by counts, too,
  which scatter less than clocks. A run begins so as well. Otherwise it takes `WATCHED_LEAST` epochs.

Whether moves came true is judged, too (`judging`): those that got less than they cost make it more patient. The epoch
in which sites open what has moved tells what that costs, and nothing else: it is not a usual one.

Groups that are parked or being cleaned stay where they are, and parked ones are taken to ask for what they did before.
Where one process does the work of all sites, moves cannot pay, and nothing is done at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.judging import Ledger, Trial, told
from watersmeet.adapt.moving.levelling import level_out
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.pattern import Pattern
from watersmeet.adapt.moving.pieces import Flags, Ints, Pieces, room_bytes
from watersmeet.adapt.moving.relief import relieved
from watersmeet.adapt.moving.taken import Suggested
from watersmeet.adapt.moving.watching import Epoch, Watched
from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.state.changes import ChangePatience, MoveGroups
from watersmeet.state.groups import GroupSet

WATCHED_LEAST = 3
"""How many epochs are watched before a decision on a load whose pattern has not changed."""

NOTICEABLE = 0.03
"""A gain of less than this part of an epoch is not worth an event."""

SURE = 2.0
"""A difference this many times the expected noise is significant."""


@dataclass
class AutoPolicy:
    """Suggests moves whose gain exceeds their cost.

    Moves that avoid a spill are also suggested while announced moves are pending (``under_way``).
    """

    options: MemoryOptions = field(default_factory=MemoryOptions)
    name: str = "auto"
    moments: frozenset[Moment] = frozenset({"step"})
    under_way: bool = True
    ledger: Ledger = field(default_factory=Ledger)
    trial: Trial | None = None
    _told: str = ""
    _epochs: int = 0
    _watched: Watched | None = None
    _pattern: Pattern = field(default_factory=Pattern)
    _is_new: bool = True
    _suggested: Suggested = field(default_factory=Suggested)

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Moves for memory's sake, if a spill is due; else for load's, if they pay."""
        load = view.load
        if load is None or view.manifest.sites == 1:
            return
        if not load.is_shared:
            self._watched = None
            return
        pieces = Pieces.of(view)
        movable = ~_busy(view, pieces)
        found = list(relieved(view, pieces, self.options, movable, self.name))
        if view.under_way:
            yield from found
            return
        self._epochs += 1
        if self._epochs > 1:  # the first epoch of a run warms everything up
            epoch = Epoch.of(view, pieces, load)
            watched = self._watch(view, epoch)
            yield from self._settled(watched)
            if not found and self.trial is None and watched.epochs >= self._wanted:
                found = self._suggested.remember(self._levelled(watched, epoch, load, movable))
        yield from found

    @property
    def _wanted(self) -> int:
        """How many epochs are watched before a decision."""
        return self.ledger.patience * (1 if self._is_new else WATCHED_LEAST)

    def _watch(self, view: View, epoch: Epoch) -> Watched:
        """Learn from an epoch: of its load, and of the moves before it."""
        if self._watched is None or not self._watched.suits(epoch):
            self._watched, self._pattern, self._is_new = Watched.nothing(epoch), Pattern(), True
            self._suggested, self.trial = Suggested(), None
        watched = self._watched
        if self._begin_trial(view, epoch, watched):  # it opens what has moved, and is not a usual one
            return watched
        self.ledger.rest()
        if self._pattern.changes(watched.known, epoch, watched.ms_per_tuple):
            watched.forget_counts()
            self._is_new = True
        watched.see(epoch)
        if self.trial is not None:
            self.trial.see(epoch, watched.ms_per_tuple)
        return watched

    def _begin_trial(self, view: View, epoch: Epoch, watched: Watched) -> bool:
        """What was suggested is judged if it was done; whether that is so."""
        done = [each for each in self._suggested.done(view.manifest) if isinstance(each, MoveGroups)]
        if done:
            moved, before = zip(*(epoch.pieces.moved_by(each) for each in done), strict=True)
            chosen, places = np.concatenate(moved), np.concatenate(before)
            self.trial = Trial(chosen, places, _fetched_bytes(epoch, chosen, places, epoch.pieces.site))
            self._is_new, watched.epochs = False, 0
            self.ledger.pay(self.trial, epoch, watched.ms_per_tuple)
            self.trial.see(epoch, watched.ms_per_tuple)
        return bool(done)

    def _settled(self, watched: Watched) -> Iterator[Suggestion]:
        """Settle whether the last moves have paid, when the next could be decided on; a change of patience is told."""
        trial = self.trial
        if trial is None or watched.epochs < self._wanted:
            return
        before = self.ledger.patience
        self.ledger.settle(trial)
        self.trial, self._told = None, "" if trial.has_paid else f" and not fewer, as {told(trial)}"
        if self.ledger.patience != before:
            epochs = before * WATCHED_LEAST, self.ledger.patience * WATCHED_LEAST
            yield Suggestion(ChangePatience(self.name, *epochs, told(trial)))

    def _levelled(self, watched: Watched, epoch: Epoch, load: EpochLoad, movable: Flags) -> Iterator[Suggestion]:
        pieces, machines, halves = epoch.pieces, epoch.machines, watched.for_decision()
        room = room_bytes(self.options, pieces.by_site(pieces.live_bytes), load.memory_bytes)
        site, spans, stuck = pieces.site.copy(), np.zeros((2, 2)), ~movable | epoch.parked
        for level, mine in enumerate(epoch.levels):
            work = halves[0].work(pieces, mine, level, pieces.site, stuck)
            site[mine] = level_out(work, machines, room)
            for number, half in enumerate(halves):
                works = [half.work(pieces, mine, level, each, stuck) for each in (pieces.site, site)]
                spans[number] += [float(machines.times(each.by_site).max()) for each in works]
            moved = work.live_bytes * (site[mine] != work.site)
            room = np.maximum(room - np.bincount(site[mine], moved, len(room)), 0)
        chosen = np.flatnonzero(site != pieces.site)
        (before_ms, after_ms), promised = spans[1].tolist(), 1 - spans[0, 1] / max(spans[0, 0], 1e-9)
        chance_ms = max(promised * before_ms - (before_ms - after_ms), self._scatter(watched) * before_ms)
        gain_ms, size = before_ms - after_ms, _fetched_bytes(epoch, chosen, pieces.site[chosen], site)
        is_seen = gain_ms > max(SURE * chance_ms, NOTICEABLE * load.duration_ms)
        if len(chosen) and is_seen and gain_ms * watched.epochs > self.ledger.cost_ms(size):
            count = watched.epochs
            reason = (
                f"the slowest sites take {before_ms:.0f} ms of an epoch, levelled {after_ms:.0f} ms; "
                f"watched for {count} epoch{'s' if count > 1 else ''}{self._told}"
            )
            yield from pieces.moves(chosen, site[chosen], self.name, reason)
        elif watched.epochs >= WATCHED_LEAST:
            self._is_new = False

    def _scatter(self, watched: Watched) -> float:
        """What is chance of an epoch: of a pattern that counts have told, only as much as they scatter."""
        usual = self._pattern.usual if self._is_new else None
        return watched.usual_scatter if usual is None else min(usual, watched.usual_scatter)


def _fetched_bytes(epoch: Epoch, chosen: Ints, before: Ints, site: Ints) -> float:
    """What other executors have to open of some pieces; one that had them has opened them already."""
    apart = epoch.machines.are_apart(before, site[chosen])
    return float(epoch.pieces.live_bytes[chosen[apart]].sum())


def _busy(view: View, pieces: Pieces) -> Flags:
    """Which pieces are being changed by others, or were announced to go."""
    found = {name: view.busy.get(name, GroupSet()) for name in pieces.operators}
    for each in view.manifest.announced:
        found[each.operator] |= each.groups
    return np.concatenate([found[name].mask(pieces.groups) for name in pieces.operators])
