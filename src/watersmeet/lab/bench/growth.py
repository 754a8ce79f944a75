"""Does an epoch cost more when there is more state? Input and output stay the same, state grows tenfold.

1. Every epoch, A and B bring the same new keys, and C brings keys drawn at random from all there have been.
2. So each row of C completes exactly one result, with rows that lie anywhere in the state, and no other row does.
3. Compared are two windows of epochs: in `LATE` there is ten times as much state as in `EARLY`. Their lengths are
   multiples of the fan-in of mergers, so each has its share of them.

The mean, mergers included, is what is judged.
"""

from statistics import mean, median

import numpy as np

from watersmeet.lab.bench.data import Tables, keyed
from watersmeet.lab.bench.pipeline import Pipeline, Step
from watersmeet.lab.bench.report import Count
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, share

EARLY = slice(16, 24)  # finds (16 + 23) / 2 = 19.5 epochs of state; before it, the JVM still warms up
LATE = slice(184, 208)  # finds (184 + 207) / 2 = 195.5
AFTER_EARLY = slice(EARLY.stop, None)


def tables(size: Size) -> Tables:
    """New keys in A and B, any old or new ones in C."""
    rng = np.random.default_rng(2)
    made: dict[str, list[object]] = {"A": [], "B": [], "C": []}
    for epoch in range(size.epochs):
        fresh = np.arange(epoch * size.rows, (epoch + 1) * size.rows)
        drawn = rng.integers(0, (epoch + 1) * size.rows, size.rows)
        for name, keys in {"A": rng.permutation(fresh), "B": rng.permutation(fresh), "C": drawn}.items():
            made[name].append(keyed(keys, epoch))
    return made


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """The cost of an epoch late and early."""
    ours = outcomes["watersmeet"]
    if size.epochs < LATE.stop:  # a quick run has no late window
        early = late = after = ours.epoch_ms
    else:
        early, late, after = ours.epoch_ms[EARLY], ours.epoch_ms[LATE], ours.epoch_ms[AFTER_EARLY]
    comparisons = [
        share("mean epoch, with 10 times the state", mean(late), mean(early), "ms", at_most=1.25),
        share("median epoch, with 10 times the state", median(late), median(early), "ms"),
        share("mean of all later epochs", mean(after), mean(early), "ms"),
    ]
    found = {"fewest": min(ours.epoch_results), "most": max(ours.epoch_results)}
    return comparisons, [Count("results an epoch", found, expected=size.rows)]


SUITE = Suite(
    name="growth",
    title=lambda size: f"three streams, {size.epochs} epochs of {size.rows:,} rows each and as many results",
    pipeline=Pipeline((Step("ABC", (("A.k", "B.k"), ("A.k", "C.k"))),)),
    contenders=("watersmeet",),
    full=Size(epochs=LATE.stop, rows=30_000, heap="4g"),
    quick=Size(epochs=2, rows=500, heap="1g"),
    tables=tables,
    judge=judge,
)
