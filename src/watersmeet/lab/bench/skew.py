"""Skew: four sites on two executors of one core, with and without moves, and against Spark's own join.

Every key comes once in each epoch of B. In A, which has four times as many rows, it comes more or less often:

- ``skew-uniform``: all alike. The control: where nothing is to be gained, watching must not cost anything.
- ``skew-80-20``: four fifths of the rows go to a fifth of the groups, all of which the first site has at first.
- ``skew-zipf``: the n-th key has a part of the rows that goes with n ** -1.2. A group never is split, so the site of
  the first key, which has a fifth of all rows, cannot be relieved of it.
- ``skew-rotating``: four fifths of the rows go to a fifth of the groups, another one after some epochs.
- ``skew-bursts``: all alike for three epochs, then the same for three, of each site in turn: too short for moves.
- ``skew-slow``: all alike, and the first site takes three times as long for whatever it does.

Spark's own join spreads the same keys by another hash, so the hot ones are hot there one by one, not together.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from watersmeet.api.options import DEFAULT_GROUPS
from watersmeet.lab.bench.data import Tables, keyed
from watersmeet.lab.bench.pipeline import Pipeline, Step
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, gain, same_results, share
from watersmeet.lab.grouping import engine_group

FAMILY = "skew"
SITES, TIMES = 4, 4
"""Rows of A for one of B."""
HOT_ROWS, HOT_GROUPS = 0.8, DEFAULT_GROUPS // 5
EXPONENT = 1.2
PLACES = 4
"""So many groups of groups are hot in turn."""
REST, BURST = 3, 3
"""Epochs in which all are alike, and then some are hot."""
SLOWED, THIRD = 0, 3.0
AIM, UNIFORM_AIM, SPARK_AIM, TWICE = 1.5, 1.03, 5.0, 2.0

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Chances = Callable[[Int64s, int, Size], Floats]
"""How likely each key is, by its group, in an epoch."""


def uniform(groups: Int64s, _epoch: int, _size: Size) -> Floats:
    """All keys alike."""
    return np.full(len(groups), 1 / len(groups))


def eighty_twenty(groups: Int64s, _epoch: int, _size: Size, first: int = 0) -> Floats:
    """Four fifths for a fifth of the groups, from some group on.

    >>> eighty_twenty(np.array([0, 59, 60, 299]), 0, SUITES[0].quick).round(3).tolist()
    [0.4, 0.4, 0.1, 0.1]
    """
    hot = (groups >= first) & (groups < first + HOT_GROUPS)
    found: Floats = np.where(hot, HOT_ROWS / max(1, hot.sum()), (1 - HOT_ROWS) / max(1, (~hot).sum()))
    return found


def zipf(groups: Int64s, _epoch: int, _size: Size) -> Floats:
    """Ever less for each key."""
    weights = np.arange(1, len(groups) + 1) ** -EXPONENT
    found: Floats = weights / weights.sum()
    return found


def rotating(groups: Int64s, epoch: int, size: Size) -> Floats:
    """Four fifths for a fifth of the groups, of each site in turn."""
    place = epoch * PLACES // size.epochs
    return eighty_twenty(groups, epoch, size, first=place * DEFAULT_GROUPS // PLACES)


def bursts(groups: Int64s, epoch: int, size: Size) -> Floats:
    """Four fifths for a fifth of the groups, of each site in turn, but only now and then.

    >>> [round(float(bursts(np.array([0, 100]), epoch, SUITES[0].quick)[0]), 1) for epoch in (2, 3, 5, 6)]
    [0.5, 0.8, 0.8, 0.5]
    """
    turn, before = epoch // (REST + BURST) % PLACES, epoch % (REST + BURST)
    if before < REST:
        return uniform(groups, epoch, size)
    return eighty_twenty(groups, epoch, size, first=turn * DEFAULT_GROUPS // PLACES)


def tables(size: Size, chances: Chances = uniform) -> Tables:
    """Keys of A drawn by lot, and every key of B in random order."""
    rng = np.random.default_rng(14)
    keys = np.arange(size.rows // TIMES)
    groups = engine_group(keys, DEFAULT_GROUPS)
    drawn = [rng.choice(keys, size.rows, p=_one(chances(groups, epoch, size))) for epoch in range(size.epochs)]
    return {
        "A": [keyed(chosen, epoch) for epoch, chosen in enumerate(drawn)],
        "B": [keyed(rng.permutation(keys), epoch) for epoch in range(size.epochs)],
    }


def _one(chances: Floats) -> Floats:
    """Chances that add up to one, also where no key is hot or none is cold."""
    found: Floats = chances / chances.sum()
    return found


def judge(size: Size, outcomes: Outcomes, *, is_slow: bool = False) -> Judgement:
    """With moves against without; the aim is there where one site has twice its share, or is slow."""
    ours, still = outcomes["watersmeet"], outcomes["watersmeet-still"]
    aim = AIM if is_slow or still.largest_share >= TWICE else None
    comparisons = [
        gain("slowest site, without moves", ours.slowest_site_s, still.slowest_site_s, "s", aim),
        gain("slowest executor, without moves", ours.slowest_executor_s, still.slowest_executor_s, "s"),
        gain("epochs after the first, without moves", ours.later_s, still.later_s, "s"),
        gain("whole run, without moves", ours.whole_s, still.whole_s, "s", aim),
    ]
    if "spark" in outcomes:
        spark = outcomes["spark"]
        comparisons += [
            gain("whole run, Spark in-heap", ours.whole_s, spark.whole_s, "s", SPARK_AIM),
            gain("epochs after the first, Spark in-heap", ours.later_s, spark.later_s, "s"),
        ]
    return comparisons, [same_results(outcomes, results_of(size))]


def judge_uniform(size: Size, outcomes: Outcomes) -> Judgement:
    """Nothing may be lost where nothing is to be gained."""
    ours, still = outcomes["watersmeet"], outcomes["watersmeet-still"]
    comparisons = [
        share("slowest site, without moves", ours.slowest_site_s, still.slowest_site_s, "s", UNIFORM_AIM),
        share("whole run, without moves", ours.whole_s, still.whole_s, "s", UNIFORM_AIM),
    ]
    return comparisons, [same_results(outcomes, results_of(size))]


def results_of(size: Size) -> int:
    """Every row of A meets its key once for each epoch of B."""
    return size.rows * size.epochs * size.epochs


def _suite(name: str, about: str, chances: Chances) -> Suite:
    return Suite(
        name=f"{FAMILY}-{name}",
        title=lambda size: (
            f"two streams, {size.epochs} epochs of {size.rows:,} and {size.rows // TIMES:,} rows, {about}; "
            f"{SITES} sites on two executors of one core"
        ),
        pipeline=Pipeline((Step("AB", (("A.k", "B.k"),)),)),
        contenders=("watersmeet", "watersmeet-still", "spark"),
        full=Size(epochs=24, rows=40_000, heap="2g"),
        quick=Size(epochs=3, rows=400, heap="1g"),
        tables=partial(tables, chances=chances),
        judge=judge,
        family=FAMILY,
        on_cluster=True,
        sites=SITES,
    )


_UNIFORM = _suite("uniform", "all keys alike", uniform)
SUITES = (
    replace(_UNIFORM, judge=judge_uniform, contenders=("watersmeet", "watersmeet-still")),
    _suite("80-20", "four fifths of the first for a fifth of the groups", eighty_twenty),
    _suite("zipf", f"the n-th key with n ** -{EXPONENT} of the first", zipf),
    _suite("rotating", "four fifths of the first for a fifth of the groups, each site's in turn", rotating),
    _suite(
        "bursts", "four fifths of the first for a fifth of the groups, each site's in turn and now and then", bursts
    ),
    replace(
        _suite("slow", "all keys alike, the first site slowed to a third", uniform),
        judge=partial(judge, is_slow=True),
        contenders=("watersmeet", "watersmeet-still"),
        slow={SLOWED: THIRD},
    ),
)
