"""A cluster that matches images by PSP, ATR or CTR, simulated: queues at its nodes, and what they hold (PSP, 8).

Tuples of all streams arrive by chance at a rate, and stay for a window. A tuple meets the first of the other streams,
what passes the second, and so on: how many pass is drawn. The work is that of the shipped cost model (`adapt.ring`):
`pair_s` for each pair, and `send_s` for every tuple or intermediate result that a node receives and hands on. Each node
works on what comes one after the other; the time a tuple takes is that until the last node has done its part, and its
way, `hop_s` from node to node, in every round.

- ``psp``: all nodes do an equal part of the pairs, and receive everything.
- ``atr``: the first stream is cut into segments of time, dealt out to the nodes in turn; the others go to every node
  whose segment they may meet. A node does all the work of a segment, so what one tuple asks for is done by one node.
- ``ctr``: every tuple has some copies, and a new one visits as few nodes as hold everything.

The paper gives none of these times. That of a pair is chosen so that the largest load of figure 8(a) just fits on four
nodes, that of a hop so that its response time is least where the paper's is, with 14: so that number proves nothing.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from watersmeet.adapt.ring.cost import Step, Times, best_length

Floats = npt.NDArray[np.float64]

PAIR_S, SEND_S, HOP_S = 1.2e-7, 2e-6, 3e-5
"""Of an image of 10,000 pixels; a pair takes longer with more."""


@dataclass(frozen=True)
class RingWork:
    """What is asked of a ring: streams, tuples a second of each, a window, and the share of pairs that match."""

    ways: int = 3
    rate: float = 50.0
    window_s: float = 10.0
    selectivity: float = 0.1
    pixels: int = 10_000
    seconds: float = 60.0

    @property
    def times(self) -> Times:
        """What pairs and ways cost."""
        return Times(PAIR_S * self.pixels / 10_000, SEND_S, HOP_S)

    def steps(self, rate: float | None = None) -> list[Step]:
        """What a tuple meets, one after the other."""
        return [Step((rate or self.rate) * self.window_s, self.selectivity)] * (self.ways - 1)


@dataclass(frozen=True)
class RingCourse:
    """How long each tuple took, when it came, and how many tuples all nodes held on average."""

    came_s: Floats
    took_s: Floats
    held: float

    @property
    def response_s(self) -> float:
        """On average, after the windows have filled."""
        return float(self.took_s[len(self.took_s) // 4 :].mean())


def psp(work: RingWork, nodes: int, seed: int = 1) -> RingCourse:
    """A ring of some nodes."""
    rng = np.random.default_rng(seed)
    came = _arrivals(work, rng)
    pairs, passed = _asked(work, came, rng)
    own = (pairs / nodes)[:, None] * np.ones(nodes) * work.times.pair_s
    return _course(work, came, own + ((1 + passed) * work.times.send_s)[:, None], nodes, _stored(work, came))


def atr(work: RingWork, nodes: int, segment_s: float, seed: int = 1) -> RingCourse:
    """Segments dealt out to nodes in turn; their neighbours hold what may meet both."""
    rng = np.random.default_rng(seed)
    came = _arrivals(work, rng)
    pairs, passed = _asked(work, came, rng)
    del passed  # nothing is handed on
    node = (came // segment_s).astype(np.int64) % nodes
    busy = np.zeros((len(came), nodes))
    busy[np.arange(len(came)), node] = pairs * work.times.pair_s + work.times.send_s
    first, others = 1 / work.ways, 1 - 1 / work.ways
    copies = min(float(nodes), 1 + work.window_s / segment_s)
    return _course(work, came, busy, 1, _stored(work, came) * (first + others * copies))


def ctr(work: RingWork, nodes: int, copies: int, seed: int = 1) -> RingCourse:
    """Routes that begin at a node in turn, and visit as many as hold everything."""
    rng = np.random.default_rng(seed)
    came = _arrivals(work, rng)
    pairs, passed = _asked(work, came, rng)
    visited = -(-nodes // copies)
    route = (np.arange(len(came))[:, None] + copies * np.arange(visited)[None, :]) % nodes
    busy = np.zeros((len(came), nodes))
    each = pairs / visited * work.times.pair_s + (1 + passed) * work.times.send_s
    np.add.at(busy, (np.arange(len(came))[:, None], route), each[:, None])
    return _course(work, came, busy, visited, copies * _stored(work, came))


def adapted(
    work: RingWork, later: float, most: int, *, adapts: bool, looks_s: float = 5.0, seed: int = 1
) -> RingCourse:
    """A ring whose tuples come at another rate from the middle on; if it ``adapts``, it is soon as long as is best."""
    rng = np.random.default_rng(seed)
    half = work.seconds / 2
    came = np.concatenate([_arrivals(work, rng, half), half + _arrivals(replace(work, rate=later), rng, half)])
    pairs, passed = _asked(work, came, rng)
    short = best_length(work.steps(), work.times, most)
    length = np.full(len(came), short)
    if adapts:
        length[came >= half + looks_s] = best_length(work.steps(later), work.times, most)
    share = np.where(np.arange(most)[None, :] < length[:, None], 1 / length[:, None], 0.0)
    busy = pairs[:, None] * share * work.times.pair_s + (share > 0) * ((1 + passed) * work.times.send_s)[:, None]
    return _course(work, came, busy, short, _stored(work, came))


def _arrivals(work: RingWork, rng: np.random.Generator, seconds: float | None = None) -> Floats:
    length = seconds or work.seconds
    return np.sort(rng.random(rng.poisson(work.rate * work.ways * length)) * length)


def _asked(work: RingWork, came: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The pairs that each tuple has looked at, and the intermediate results that go round."""
    window = (np.arange(len(came)) - np.searchsorted(came, came - work.window_s)) / work.ways
    passed, pairs, sent = np.ones(len(came)), np.zeros(len(came)), np.zeros(len(came))
    for step in range(work.ways - 1):
        looked = passed * window
        pairs += looked
        passed = rng.poisson(looked * work.selectivity).astype(np.float64)
        sent += passed if step < work.ways - 2 else 0.0
    return pairs, sent


def _stored(work: RingWork, came: Floats) -> float:
    """How many tuples are in the windows, on average, once they have filled."""
    moments = np.linspace(min(work.window_s, came[-1]), came[-1], 50)
    counts = np.searchsorted(came, moments) - np.searchsorted(came, moments - work.window_s)
    return float(counts.mean())


def _course(work: RingWork, came: Floats, busy: Floats, hops: int, held: float) -> RingCourse:
    """Queues: a node begins with a tuple when it is there and those before it are done."""
    done = np.zeros(len(came))
    for node in range(busy.shape[1]):
        mine = np.flatnonzero(busy[:, node])
        work_s = busy[mine, node]
        there, sums = came[mine] + min(node, hops) * work.times.hop_s, np.cumsum(work_s)
        ends = sums + np.maximum.accumulate(there - (sums - work_s))
        done[mine] = np.maximum(done[mine], ends)
    rounds = (work.ways - 1) * hops * work.times.hop_s if hops > 1 else 0.0
    return RingCourse(came, done - came + rounds, held)
