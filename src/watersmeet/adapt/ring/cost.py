"""What a ring of N sites costs: the model of PSP, section 5, with measured parameters (equations 1 to 6).

| paper | here |
|---|---|
| lambda_i W_i | `Step.rows`: what a probe meets, the rows that are stored of an input |
| S_i | `Step.selectivity`: the share of pairs that pass |
| T_j, T_i, T_p, T_s, T_n | `Times`: of a pair, an insertion, a purge, sending a row, a hop |
| M | the number of steps and one |

A probe meets the inputs one after the other; what is left after each step goes on. Where the paper takes all inputs to
be alike, for its closed forms, the steps are summed up here as they are. All times are in seconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

Goal = Literal["latency", "output"]


@dataclass(frozen=True)
class Times:
    """How long things take, in seconds."""

    pair_s: float
    send_s: float
    hop_s: float = 0.0
    insert_s: float = 0.0
    purge_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """An input that a probe meets: how many rows are stored of it, and which share of pairs passes."""

    rows: float
    selectivity: float


def pairs(steps: Sequence[Step]) -> list[float]:
    """How many pairs each step of one probe looks at.

    >>> pairs([Step(100, 0.1), Step(50, 0.2)])
    [100.0, 500.0]
    """
    passed = accumulate(steps[:-1], lambda count, step: count * step.rows * step.selectivity, initial=1.0)
    return [count * step.rows for count, step in zip(passed, steps, strict=True)]


def central_work(steps: Sequence[Step], times: Times) -> float:
    """Equation 1: the work for one row at a single site.

    >>> central_work([Step(100, 0.1), Step(50, 0.2)], Times(pair_s=0.01, send_s=0, insert_s=1))
    7.0
    """
    return times.insert_s + times.purge_s + times.pair_s * sum(pairs(steps))


def ring_work(steps: Sequence[Step], times: Times, sites: int) -> float:
    """Equation 2: the work at all sites together; every probe, and what passes each step but the last, is sent to all.

    >>> ring_work([Step(100, 0.1), Step(50, 0.2)], Times(pair_s=0.01, send_s=0.1), sites=4)
    10.4
    """
    sent = sum(count / step.rows for count, step in zip(pairs(steps), steps, strict=True) if step.rows)
    return central_work(steps, times) + times.send_s * sites * sent


def service_rate(steps: Sequence[Step], times: Times, sites: int) -> float:
    """Equation 3: rows a second, if one after the other is worked on."""
    return 1 / ring_work(steps, times, sites)


def output_gain(steps: Sequence[Step], times: Times, sites: int) -> float:
    """Equation 4: how many times more results a second than at a single site without sending; sites are all busy.

    >>> few, many = (output_gain([Step(1000, 0.01)], Times(1e-6, 1e-5), sites) for sites in (2, 8))
    >>> 1 < few < 2 < many < 8
    True
    """
    return sites * central_work(steps, times) / ring_work(steps, times, sites)


def latency(steps: Sequence[Step], times: Times, sites: int) -> float:
    """Equation 5: how long results of a row take on average; sending goes on beside the work."""
    hops = (sites - 1) / 2 * times.hop_s
    rounds = (len(steps) + 1) * sites * times.hop_s
    return hops + max(ring_work(steps, times, sites) / sites, rounds)


def bandwidth(steps: Sequence[Step], times: Times, sites: int, row_bytes: float) -> float:
    """Equation 6: how many bytes a second have to pass, so that no site waits for rows."""
    return row_bytes / (times.pair_s * min(step.rows / sites for step in steps))


def best_length(steps: Sequence[Step], times: Times, most: int, goal: Goal = "latency") -> int:
    """The number of sites, up to as many as there are, that is best for a goal; of equals the least.

    >>> costly, cheap = Times(pair_s=1e-3, send_s=1e-6, hop_s=1e-3), Times(pair_s=1e-8, send_s=1e-6, hop_s=1e-3)
    >>> [best_length([Step(1000, 0.01)], times, most=20) for times in (costly, cheap)]
    [20, 1]
    >>> best_length([Step(1000, 0.01)], cheap, most=20, goal="output")
    20
    """
    lengths = range(1, most + 1)
    if goal == "output":
        return max(lengths, key=lambda sites: (round(output_gain(steps, times, sites), 9), -sites))
    return min(lengths, key=lambda sites: (latency(steps, times, sites), sites))


def turning_point(steps: Sequence[Step], times: Times) -> float:
    """Where one more site does not shorten latency any more, by the paper's closed form: the least of N1 and N2.

    N1 is where the work at a site takes as long as the hops of all rounds, N2 where it takes as long as half a ring.
    """
    if not times.hop_s:
        return math.inf
    work, rounds = central_work(steps, times), len(steps) + 1
    sending = ring_work(steps, times, 1) - work
    first = (sending + math.sqrt(sending**2 + 4 * rounds * times.hop_s * work)) / (2 * rounds * times.hop_s)
    second = (1 + math.sqrt(1 + 8 * work / times.hop_s)) / 2
    return min(first, second)
