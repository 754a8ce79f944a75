"""All groups start on one of two sites: how soon they are level, and what the epochs in which groups move cost.

Every epoch has keys of its own, each as often as the others, so all epochs have as much to do: what an epoch takes is
compared with the median of those before the first move.
"""

from statistics import median

import numpy as np

from watersmeet.lab.bench.data import Tables, keyed
from watersmeet.lab.bench.outcome import Outcome
from watersmeet.lab.bench.pipeline import Compared, Pipeline, Step
from watersmeet.lab.bench.report import Count
from watersmeet.lab.bench.skew import FAMILY, alike
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, share

TIMES, AGAIN = 4, 25
"""Rows of A for one of B; how often a key comes in B."""

LEVEL, LEVEL_AFTER = 1.2, 10
"""In so many epochs after the first, the busier site has at most so many times its even share of rows."""

LONGEST = 1.3
"""An epoch in which groups move, or are opened, takes at most so many times the median before."""


def tables(size: Size) -> Tables:
    """Keys that are new in every epoch."""
    rng = np.random.default_rng(14)
    keys = np.arange(max(1, size.rows // TIMES // AGAIN))
    places = [keys + epoch * len(keys) for epoch in range(size.epochs)]
    return {
        "A": [keyed(rng.permutation(np.resize(own, size.rows)), epoch) for epoch, own in enumerate(places)],
        "B": [keyed(rng.permutation(np.repeat(own, AGAIN)), epoch) for epoch, own in enumerate(places)],
    }


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """Rows at the busier site once they should be level; the longest epoch with moves; results in every epoch."""
    ran = outcomes["watersmeet-one-site"]
    usual, longest = moving_ms(ran)
    late = ran.site_rows[1 + LEVEL_AFTER :]
    most = float(np.mean([max(rows) for rows in late])) if late else 0.0
    even = float(np.mean([sum(rows) / len(rows) for rows in late])) if late else 0.0
    comparisons = [
        share(f"rows at the busier site {LEVEL_AFTER} epochs later, of an even share", most, even, "rows", LEVEL),
        share("longest epoch with moves, of the median before", longest / 1000, usual / 1000, "s", LONGEST),
    ]
    silent = sum(not results for results in ran.epoch_results[: size.epochs])
    counts = Count("results", {ran.contender: ran.results}, results_of(size))
    return comparisons, [counts, Count("epochs without results", {ran.contender: silent}, 0)]


def moving_ms(ran: Outcome) -> tuple[float, float]:
    """The median epoch before the first move, without the very first, and the longest from then until the last.

    >>> moving_ms(Outcome("watersmeet", 1.0, 0, epoch_ms=(9.0, 2.0, 2.0, 3.0, 2.0, 1.0), move_epochs=(2,)))
    (2.0, 3.0)
    """
    if not ran.move_epochs:
        return 0.0, 0.0
    first, last = ran.move_epochs[0], ran.move_epochs[-1]
    return median(ran.epoch_ms[1 : first + 1]), max(ran.epoch_ms[first + 1 : last + 2], default=0.0)


def results_of(size: Size) -> int:
    """Every row of A meets its key as often as it comes in B in the same epoch."""
    return size.rows * size.epochs * AGAIN


SUITE = Suite(
    name=f"{FAMILY}-start",
    title=lambda size: (
        f"two streams, {size.epochs} epochs of {size.rows:,} and {size.rows // TIMES:,} rows, all groups on one of two "
        "sites at first; two executors of one core"
    ),
    pipeline=Pipeline((Step("AB", (("A.k", "B.k"),)),), compared=Compared(alike, ("A.v", "B.v"))),
    contenders=("watersmeet-one-site",),
    full=Size(epochs=20, rows=400_000, heap="2g"),
    quick=Size(epochs=3, rows=2_000, heap="1g"),
    tables=tables,
    judge=judge,
    family=FAMILY,
    on_cluster=True,
)
