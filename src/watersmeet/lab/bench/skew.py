"""Skew: four sites on two executors of one core, with and without moves, and against Spark's own join.

Rows that share a key are candidates, which a function compares, as where records of two sources are matched: what sites
do is most of the work. Every key comes 25 times in each epoch of B. In A, which has four times as many rows, it comes
more or less often:

- ``skew-uniform``: all alike. The control: where nothing is to be gained, watching must not cost anything.
- ``skew-80-20``: four fifths of the rows go to a fifth of the groups, all of which the first site has at first. It has
  more epochs than the others: no move can shorten the start, which is cold, nor Spark's own part of an epoch.
- ``skew-zipf``: the n-th key has a part of the rows that goes with n ** -1.2. The first has a fifth of all rows: moves
  cannot relieve its site of it, but its group can be split.
- ``skew-rotating``: four fifths of the rows go to a fifth of the groups, another one after eight epochs.
- ``skew-bursts``: all alike for three epochs, then the same for three, of each site in turn: moves have to be quick.
- ``skew-slow``: all alike, and the first site takes three times as long for whatever it does.

- ``skew-spark`` and ``skew-spark-zipf``: as 80/20 and Zipf, but without a function, which Spark's own join has no place
  for. Spark spreads the same keys by another hash, so the hot ones are hot there one by one, not together.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.api.options import DEFAULT_GROUPS
from watersmeet.lab.bench.data import Tables, keyed
from watersmeet.lab.bench.outcome import CORES, NONE_SLOW
from watersmeet.lab.bench.pipeline import Compared, Pipeline, Step
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, gain, same_results, share
from watersmeet.lab.comparing import compared
from watersmeet.lab.grouping import engine_group

FAMILY = "skew"
SITES, TIMES, AGAIN, ROUNDS = 4, 4, 25, 12
"""Rows of A for one of B; how often a key comes in an epoch of B; how much the function does."""
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


def alike(ours: pa.Array, theirs: pa.Array) -> pa.Array:
    """Compare values at some cost; all are alike."""
    return compared(ours, theirs, ROUNDS)


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
    keys = np.arange(size.rows // TIMES // AGAIN)
    groups = engine_group(keys, DEFAULT_GROUPS)
    drawn = [rng.choice(keys, size.rows, p=_one(chances(groups, epoch, size))) for epoch in range(size.epochs)]
    return {
        "A": [keyed(chosen, epoch) for epoch, chosen in enumerate(drawn)],
        "B": [keyed(rng.permutation(np.repeat(keys, AGAIN)), epoch) for epoch in range(size.epochs)],
    }


def _one(chances: Floats) -> Floats:
    """Chances that add up to one, also where no key is hot or none is cold."""
    found: Floats = chances / chances.sum()
    return found


def judge(size: Size, outcomes: Outcomes, *, slow: Mapping[int, float] = NONE_SLOW) -> Judgement:
    """With moves against without; the aim is there where one site has twice its share, or is slow.

    What could be gained at most is told, too: by the run without moves, if executors had been level all the time.
    """
    ours, still = outcomes["watersmeet"], outcomes["watersmeet-still"]
    aim = AIM if slow or still.largest_share >= TWICE else None
    levelled_s = still.levelled_s(CORES, slow)
    comparisons = [
        gain("slowest site, without moves", ours.slowest_site_s, still.slowest_site_s, "s", aim),
        gain("slowest executor, without moves", ours.slowest_executor_s, still.slowest_executor_s, "s"),
        gain("epochs after the first, without moves", ours.later_s, still.later_s, "s"),
        gain("whole run, without moves", ours.whole_s, still.whole_s, "s", aim),
        gain("the same if level from the start", levelled_s, still.whole_s, "s"),
    ]
    return comparisons, [same_results(outcomes, results_of(size))]


def judge_spark(size: Size, outcomes: Outcomes) -> Judgement:
    """Against Spark's own join."""
    ours, spark = outcomes["watersmeet"], outcomes["spark"]
    comparisons = [
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
    """Every row of A meets its key as often as it comes in all epochs of B."""
    return size.rows * size.epochs * size.epochs * AGAIN


def _suite(name: str, about: str, chances: Chances) -> Suite:
    return Suite(
        name=f"{FAMILY}-{name}",
        title=lambda size: (
            f"two streams, {size.epochs} epochs of {size.rows:,} and {size.rows // TIMES:,} rows, {about}; "
            f"{SITES} sites on two executors of one core"
        ),
        pipeline=Pipeline((Step("AB", (EQUAL,)),), compared=Compared(alike, ("A.v", "B.v"))),
        contenders=("watersmeet", "watersmeet-still"),
        full=Size(epochs=16, rows=160_000, heap="2g"),
        quick=Size(epochs=3, rows=2_000, heap="1g"),
        tables=partial(tables, chances=chances),
        judge=judge,
        family=FAMILY,
        on_cluster=True,
        sites=SITES,
    )


def _beside_spark(suite: Suite, name: str) -> Suite:
    pipeline, size = Pipeline((Step("AB", (EQUAL,)),)), replace(suite.full, rows=80_000)
    name = f"{FAMILY}-{name}"
    return replace(
        suite, name=name, pipeline=pipeline, contenders=("watersmeet", "spark"), full=size, judge=judge_spark
    )


EQUAL = ("A.k", "B.k")
_UNIFORM = _suite("uniform", "all keys alike", uniform)
_80_20 = _suite("80-20", "four fifths of the first for a fifth of the groups", eighty_twenty)
_ZIPF = _suite("zipf", f"the n-th key with n ** -{EXPONENT} of the first", zipf)
SUITES = (
    replace(_UNIFORM, judge=judge_uniform),
    replace(_80_20, full=Size(epochs=28, rows=160_000, heap="2g")),
    _ZIPF,
    replace(
        _suite("rotating", "four fifths of the first for a fifth of the groups, each site's in turn", rotating),
        full=Size(epochs=32, rows=40_000, heap="2g"),
    ),
    _suite(
        "bursts", "four fifths of the first for a fifth of the groups, each site's in turn and now and then", bursts
    ),
    replace(
        _suite("slow", "all keys alike, the first site slowed to a third", uniform),
        judge=partial(judge, slow={SLOWED: THIRD}),
        slow={SLOWED: THIRD},
    ),
    _beside_spark(_80_20, "spark"),
    _beside_spark(_ZIPF, "spark-zipf"),
)
