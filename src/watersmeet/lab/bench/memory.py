"""More state than memory: the same query without a budget, and with one of an eighth of its state.

1. Every key comes once in each stream, in an epoch of its own: a row's partners are anywhere in the state, most of
   which is spilled. So nearly all results are missing until the cleanup, which is the worst that can happen.
2. The memory of the Python workers, which hold the state, is weighed from outside while they run, mapped files
   included. It is flat if the last third of the run, cleanup included, needs no more than the one before.
"""

import numpy as np

from watersmeet.lab.bench.data import Tables, keyed
from watersmeet.lab.bench.outcome import Outcome
from watersmeet.lab.bench.pipeline import Pipeline, Step
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, gain, same_results, share

TIMES_THE_BUDGET = 8
BYTES_PER_ROW = 41  # hash, k and v of 8 bytes each, p of 13 and an offset of 4


def tables(size: Size) -> Tables:
    """Every key once per stream, in random order over all epochs."""
    rng = np.random.default_rng(5)
    orders = {name: rng.permutation(size.rows * size.epochs).reshape(size.epochs, size.rows) for name in "ABC"}
    return {name: [keyed(keys, epoch) for epoch, keys in enumerate(order)] for name, order in orders.items()}


def budget_bytes(size: Size) -> int:
    """An eighth of all state."""
    return size.rows * size.epochs * len("ABC") * BYTES_PER_ROW // TIMES_THE_BUDGET


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """Time against the run that keeps all in memory; the workers' memory late in the run against earlier."""
    free, tight = outcomes["watersmeet"], outcomes["watersmeet-budget"]
    earlier, late = thirds(tight)
    comparisons = [
        share("whole run with an eighth of the memory", tight.whole_s, free.whole_s, "s", at_most=2.5),
        share("workers' memory, last third against the middle one", late, earlier, "bytes", at_most=1.15),
        gain("workers' peak memory, no budget", max(thirds(tight)), max(thirds(free)), "bytes"),
    ]
    return comparisons, [same_results(outcomes, size.rows * size.epochs)]


def thirds(outcome: Outcome) -> tuple[float, float]:
    """The most that the workers held in the middle and in the last third of a run; in the first they are starting.

    The last third has the cleanup at the end in it.

    >>> thirds(Outcome("watersmeet", 1.0, 0, workers_bytes=(1, 5, 7, 6, 6, 5)))
    (7, 6)
    """
    weighed = outcome.workers_bytes or (1, 1, 1)
    part = max(1, len(weighed) // 3)
    return max(weighed[part : 2 * part] or weighed), max(weighed[2 * part :] or weighed)


SUITE = Suite(
    name="memory",
    title=lambda size: f"three streams, {size.epochs} epochs of {size.rows:,} rows each, every key once per stream",
    pipeline=Pipeline((Step("ABC", (("A.k", "B.k"), ("A.k", "C.k"))),)),
    contenders=("watersmeet", "watersmeet-budget"),
    full=Size(epochs=24, rows=125_000, heap="2g"),
    quick=Size(epochs=3, rows=2_000, heap="1g"),
    tables=tables,
    judge=judge,
    budget_bytes=budget_bytes,
)
