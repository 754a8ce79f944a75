"""The default: groups move where that has paid, and will (feature F7; Flux 8 leaves the tuning of thresholds open).

Moves are weighed, not triggered by fixed thresholds:

- **Memory.** Where a site would have to spill although the sites together have room, productive groups move instead:
  a spill puts results off and has to be cleaned up, a move touches no file. Where there is none, it is left to spills.
- **Load.** The time of an epoch by its distribution is modelled from what sites and groups did lately (`levelling`),
  and so is that of a levelled one. The difference is the *gain* of an epoch. Of many sites one is slowest by chance,
  and to level chance gains nothing. So every other epoch is set aside: a distribution is found by the one half, and its
  gain is what it would have gained in the other (cross-validation). What the first half promised beyond that is
  chance, and so is what sites usually deviate from each other, less the longer they were watched. Groups move if the
  gain is clearly more than chance, and a noticeable part of the epoch; and if what it gains in as many epochs as were
  watched is more than the move costs. (What has held so far holds about as long again: Lindy's law.) What a byte costs
  to move is learnt: by how much longer the epochs after moves took than they should.

Whether it came true is watched, too. Time per tuple after a move is compared with that before. If less than half of
the expected gain came, the load does not stay as it is for long enough, or does not follow the groups: *thrashing*.
Then twice as many epochs are watched before the next decision, and half as many after moves that paid. Costs paid and
gains seen are summed up, and if moves have cost more than they gained, more gain is asked of the next.

Where one process does the work of all sites, moves cannot pay, and nothing is done at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.levelling import Machines, Work, level_out, rates
from watersmeet.adapt.moving.load import EpochLoad
from watersmeet.adapt.moving.memory import productive
from watersmeet.adapt.moving.pieces import Ints, Pieces, room_bytes
from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.adapt.statistics import Floats

AGEING = 0.7
"""What is left of a count after an epoch: half of it after two."""

WATCHED_LEAST, WATCHED_MOST = 3, 256
"""How many epochs are watched before a decision."""

NOTICEABLE = 0.03
"""A gain of less than this part of an epoch is not worth an event."""

SURE, FIRST_SCATTER, SCATTER_KEPT = 2.0, 0.1, 20
"""So many times what is chance is none. At first sites are taken to scatter by a tenth; then by that of some epochs."""

FIRST_COST_MS, FIRST_COST_MS_PER_BYTE = 20.0, 1e-6
"""What a move is expected to cost at first: a new routing table, and state that is opened at a gigabyte a second."""


PRICE_MOST = 8.0
"""After moves that did not pay, so many times the cost is asked for at most."""


@dataclass(frozen=True)
class Half:
    """What every other epoch told: tuples an epoch by piece; busy times and tuples by level and site. All age."""

    sums: Floats
    busy_ms: Floats
    done: Floats
    weight: float = 0.0

    @property
    def tuples(self) -> Floats:
        """The mean of an epoch."""
        mean: Floats = self.sums / max(self.weight, 1e-9)
        return mean

    def suits(self, tuples: Floats, done: Floats) -> bool:
        """Whether another epoch is of the same sites and groups."""
        return len(self.sums) == len(tuples) and self.done.shape == done.shape

    def after(self, tuples: Floats, busy_ms: Floats, done: Floats) -> "Half":
        """An epoch later."""
        sums, weight = AGEING * self.sums + tuples, AGEING * self.weight + 1.0
        return Half(sums, AGEING * self.busy_ms + busy_ms, AGEING * self.done + done, weight)

    def scatter(self, busy_ms: Floats, done: Floats) -> float:
        """How far sites are off what they should take of an epoch's time, on average, if all are slow at times."""
        expected = np.divide(self.busy_ms * done, self.done, out=np.zeros(done.shape), where=self.done > 0)
        scale = busy_ms.sum() / max(float(expected.sum()), 1e-9)
        return float(np.abs(busy_ms - scale * expected).sum() / max(float(busy_ms.sum()), 1e-9))

    def work(self, pieces: Pieces, mine: Ints, level: int, site: Ints) -> Work:
        """The work of a level's pieces if they are at some sites."""
        rate = rates(self.busy_ms[level], self.done[level])
        tuples, fixed = pieces.told_apart(self.tuples, mine)
        return Work(tuples, site[mine], pieces.live_bytes[mine], rate, fixed)

    def takes(self, pieces: Pieces, mine: Ints, level: int, site: Ints, machines: Machines) -> float:
        """How long a level takes if its pieces are at some sites."""
        return float(machines.times(self.work(pieces, mine, level, site).by_site).max())


@dataclass
class Trial:
    """Moves that were made: milliseconds a tuple took before them, and should take now; their bytes."""

    before: float
    expected: float
    bytes: float
    seen: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Which part of the expected gain has come."""
        return (self.before - float(np.mean(self.seen))) / max(self.before - self.expected, 1e-12)


@dataclass
class AutoPolicy:
    """Suggests moves that pay."""

    options: MemoryOptions = field(default_factory=MemoryOptions)
    name: str = "auto"
    moments: frozenset[Moment] = frozenset({"step"})
    wanted: int = WATCHED_LEAST
    paid_ms: float = 0.0
    gained_ms: float = 0.0
    cost_ms_per_byte: float = FIRST_COST_MS_PER_BYTE
    trial: Trial | None = None
    told: str = ""
    _epochs: int = 0
    _watched: int = 0
    _halves: list[Half] = field(default_factory=list)
    _scatter: list[float] = field(default_factory=list)
    _has_moved: bool = False

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Moves for memory's sake, if a spill is due; else for load's, if they pay."""
        load = view.load
        if load is None or view.manifest.sites == 1 or not load.is_shared:
            self._watched = 0
            return
        self._epochs += 1
        pieces = Pieces.of(view)
        found = list(self._instead_of_spills(pieces))
        is_usual = not any(state.parked for state in view.manifest.operators.values())
        if self._epochs > 1 and is_usual:  # the first epoch of a run warms everything up
            self._watch(view, pieces, load)
            if not found and self._watched >= self.wanted and (self.trial is None or self._is_judged()):
                found = list(self._levelled(view, pieces, load))
        yield from found

    def _instead_of_spills(self, pieces: Pieces) -> Iterator[Suggestion]:
        """Bring sites that exceed the budget down to the mean, if all can be."""
        budget = self.options.limit_bytes
        live = pieces.by_site(pieces.live_bytes)
        mean = float(live.mean())
        if budget is None or live.max() <= budget or mean > budget * (1 - self.options.fraction / 2):
            return
        site, chosen = pieces.site.copy(), np.zeros(0, np.int64)
        unspilled = (pieces.closed_bytes == 0) & pieces.is_whole
        for _ in range(2 * pieces.sites):
            most, least = int(live.argmax()), int(live.argmin())
            amount = min(live[most] - mean, mean - live[least])
            some = productive(pieces, most, amount, unspilled & (site == pieces.site))
            if live[most] <= budget or not len(some):
                break
            moved = pieces.live_bytes[some].sum()
            live[most], live[least], site[some] = live[most] - moved, live[least] + moved, least
            chosen = np.concatenate([chosen, some])
        if len(chosen) and live.max() <= budget:
            reason = (
                f"a site exceeds memoryBudget {budget}, and the mean of all holds {mean:.0f} bytes: no spill needed"
            )
            yield from pieces.moves(chosen, site[chosen], self.name, reason)

    def _watch(self, view: View, pieces: Pieces, load: EpochLoad) -> None:
        """Learn from an epoch: tuples of groups, rates of sites, and how long a tuple took at the slowest."""
        tuples, done = pieces.by_piece(load.tuples), _by_level_and_site(view, pieces, load)
        if not self._halves or not self._halves[0].suits(tuples, done):
            self._halves = [Half(np.zeros(len(tuples)), np.zeros(done.shape), np.zeros(done.shape)) for _ in range(2)]
            self._watched, self._scatter, self.trial, self._has_moved = 0, [], None, False
        total, pace = float(tuples.sum()), pace_of(load)
        if self._has_moved:  # the epoch that opens what has moved tells what that costs, and is not a usual one
            self._has_moved = False
            self._pay(pace, total)
            return
        if self._halves[1].weight:
            self._scatter = [*self._scatter, self._halves[1].scatter(load.busy_ms, done)][-SCATTER_KEPT:]
        self._halves = [self._halves[1], self._halves[0].after(tuples, load.busy_ms, done)]
        self._watched += 1
        if pace is not None:
            self._judge(pace, total)

    def _pay(self, pace: float | None, tuples: float) -> None:
        """Learn what moves cost: how much longer the epoch after them took than it should."""
        if self.trial is None or pace is None:
            return
        extra_ms = max(pace - self.trial.expected, 0.0) * tuples
        self.paid_ms = AGEING * self.paid_ms + extra_ms
        self.cost_ms_per_byte += (extra_ms / max(self.trial.bytes, 1.0) - self.cost_ms_per_byte) * (1 - AGEING)

    def _judge(self, pace: float, tuples: float) -> None:
        """Compare an epoch's time per tuple with what it was before the last moves."""
        if self.trial is not None:
            self.trial.seen.append(pace)
            self.gained_ms = AGEING * self.gained_ms + (self.trial.before - pace) * tuples

    def _is_judged(self) -> bool:
        """Settle whether the last moves have paid; afterwards the next may come, at once or after a longer while."""
        trial = self.trial
        if trial is None or not trial.seen:
            return trial is None
        self.trial, share = None, trial.share
        if share >= 1 / 2:
            self.wanted, self.told = max(WATCHED_LEAST, self.wanted // 2), ""
            return self._watched >= self.wanted
        self.wanted = min(2 * self.wanted, WATCHED_MOST)
        came = f"{max(share, 0.0):.0%} of what was expected"
        self.told = f" and not fewer, as the moves before brought {came}"
        return False

    def _levelled(self, view: View, pieces: Pieces, load: EpochLoad) -> Iterator[Suggestion]:
        machines, (one, other) = Machines.of(load.executors, load.workers), self._halves
        room = room_bytes(self.options, pieces.by_site(pieces.live_bytes))
        site, spans = pieces.site.copy(), np.zeros((2, 2))
        for level, mine in enumerate(_levels(view, pieces)):
            work = one.work(pieces, mine, level, pieces.site)
            site[mine] = level_out(work, machines, room)
            for number, half in enumerate((one, other)):
                spans[number] += [half.takes(pieces, mine, level, each, machines) for each in (pieces.site, site)]
            room = np.maximum(room - np.bincount(site[mine], work.live_bytes * (site[mine] != work.site), len(room)), 0)
        chosen = np.flatnonzero(site != pieces.site)
        moved = float(pieces.live_bytes[chosen].sum())
        (before_ms, after_ms), promised = spans[1].tolist(), 1 - spans[0, 1] / max(spans[0, 0], 1e-9)
        chance_ms = max(promised * before_ms - (before_ms - after_ms), 0.0)
        usual = float(np.mean([FIRST_SCATTER, *self._scatter])) / np.sqrt(self._watched)
        chance_ms = max(chance_ms, usual * before_ms)
        if len(chosen) and self._pays(before_ms - after_ms, chance_ms, moved, load):
            reason = (
                f"the slowest sites take {before_ms:.0f} ms of an epoch, levelled {after_ms:.0f} ms; "
                f"watched for {self._watched} epochs{self.told}"
            )
            pace = pace_of(load) or 0.0  # as it is now: sums reach further back, and the load may have changed
            self.trial = Trial(pace, pace * after_ms / before_ms, moved)
            self._watched, self._has_moved = 0, True
            yield from pieces.moves(chosen, site[chosen], self.name, reason)

    def _pays(self, gain_ms: float, chance_ms: float, moved: float, load: EpochLoad) -> bool:
        price = min(max(1.0, self.paid_ms / max(self.gained_ms, 1e-9)), PRICE_MOST) if self.paid_ms else 1.0
        cost_ms = price * (FIRST_COST_MS + self.cost_ms_per_byte * moved)
        is_seen = gain_ms > max(SURE * chance_ms, NOTICEABLE * load.duration_ms)
        return is_seen and gain_ms * self._watched > cost_ms


def slowest(load: EpochLoad) -> float:
    """How long an epoch took in all at the slowest executor of each level."""
    machines = Machines.of(load.executors, load.workers)
    return float(sum(machines.times(each).max() for each in load.busy_ms))


def pace_of(load: EpochLoad) -> float | None:
    """How long a tuple took, if there were any."""
    total = sum(float(tuples.sum()) for tuples in load.tuples.values())
    return slowest(load) / total if total else None


def _levels(view: View, pieces: Pieces) -> list[Ints]:
    """The pieces of each level."""
    level = [operator.level for operator in view.manifest.plan.operators]
    of_piece = np.repeat(level, pieces.groups)
    return [np.flatnonzero(of_piece == each) for each in range(max(level) + 1)]


def _by_level_and_site(view: View, pieces: Pieces, load: EpochLoad) -> Floats:
    tuples, levels = pieces.by_piece(load.tuples), _levels(view, pieces)
    parts = [(mine, *pieces.told_apart(tuples, mine)) for mine in levels]
    return np.array([np.bincount(pieces.site[mine], own, pieces.sites) + fixed for mine, own, fixed in parts])
