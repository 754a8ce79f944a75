"""The latency floor: three chained operators and hardly any rows, so an epoch costs what starting it costs."""

from collections.abc import Sequence
from statistics import median

import numpy as np
import pyarrow as pa

from watersmeet.lab.bench.data import Tables
from watersmeet.lab.bench.pipeline import Pipeline, Step
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, same_results, share

WARM_UP_EPOCHS = 8
COLUMNS = {"A": ("k1", "v"), "B": ("k1", "k2"), "C": ("k2", "k3"), "D": ("k3", "v")}


def tables(size: Size) -> Tables:
    """Every key once per stream, all streams in the same epoch: as many results as rows in a stream."""
    return epochs_of([size.rows] * size.epochs)


def epochs_of(rows: Sequence[int], times: int = 1) -> Tables:
    """The same with some rows in each epoch, and every key as often: ``times ** 3`` results for a row of a stream."""
    rng = np.random.default_rng(3)
    keys = [(sum(rows[:epoch]) + np.arange(here)) // times for epoch, here in enumerate(rows)]
    return {
        name: [pa.table({column: rng.permutation(here) for column in columns}) for here in keys]
        for name, columns in COLUMNS.items()
    }


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """The median of the warm epochs."""
    ours, theirs = outcomes["watersmeet"], outcomes["spark"]
    warm = slice(WARM_UP_EPOCHS if size.epochs > WARM_UP_EPOCHS else 0, None)
    medians = median(ours.epoch_ms[warm]), median(theirs.epoch_ms[warm])
    comparisons = [
        share("median warm epoch, Spark's own joins", *medians, "ms", at_most=2 / 3),
        share("quickest epoch, Spark's own joins", min(ours.epoch_ms), min(theirs.epoch_ms), "ms"),
    ]
    return comparisons, [same_results(outcomes, size.rows * size.epochs)]


SUITE = Suite(
    name="floor",
    title=lambda size: f"three chained operators, {size.epochs} epochs of {len(COLUMNS) * size.rows:,} rows in all",
    pipeline=Pipeline(
        (Step("AB", (("A.k1", "B.k1"),)), Step("C", (("B.k2", "C.k2"),)), Step("D", (("C.k3", "D.k3"),)))
    ),
    contenders=("watersmeet", "spark"),
    full=Size(epochs=24, rows=250, heap="4g"),
    quick=Size(epochs=2, rows=10, heap="1g"),
    tables=tables,
    judge=judge,
)
