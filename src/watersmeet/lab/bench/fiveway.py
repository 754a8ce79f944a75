"""The papers' query: a join of three streams, and two of two on top of it (Spill 6.1)."""

from watersmeet.lab.bench.data import Tables
from watersmeet.lab.bench.pipeline import Pipeline, Step
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, gain, same_results
from watersmeet.lab.generator import five_way

RANGES = 2
"""Every key comes back after half of the run."""


def tables(size: Size) -> Tables:
    """The papers' streams with the join ratios 3, 1 and 1."""
    tuple_range = size.epochs * size.rows // RANGES
    return five_way(seed=5, epochs=size.epochs, rows_per_epoch=size.rows, tuple_range=tuple_range)


def judge(_: Size, outcomes: Outcomes) -> Judgement:
    """Whole run, last epoch, state and peak memory against Spark's own joins."""
    ours, rows, theirs = outcomes["watersmeet"], outcomes["watersmeet-rows"], outcomes["spark"]
    comparisons = [
        gain("whole run, Spark in-heap", ours.whole_s, theirs.whole_s, "s", at_least=1),
        gain("last epoch, Spark in-heap", ours.last_s, theirs.last_s, "s"),
        gain("state, Spark in-heap", ours.state_bytes, theirs.state_bytes, "bytes"),
        gain("peak memory, Spark in-heap", ours.peak_bytes, theirs.peak_bytes, "bytes"),
        gain("whole run as rows, Spark in-heap", rows.whole_s, theirs.whole_s, "s"),
        gain("last epoch as rows, Spark in-heap", rows.last_s, theirs.last_s, "s"),
    ]
    return comparisons, [same_results(outcomes)]


SUITE = Suite(
    name="fiveway",
    title=lambda size: f"five streams, {size.epochs} epochs of {size.rows:,} rows each, operators of 3, 2 and 2 inputs",
    pipeline=Pipeline(
        (
            Step("ABC", (("A.a1", "B.b1"), ("A.a1", "C.c1"))),
            Step("D", (("C.c2", "D.d1"),)),
            Step("E", (("D.d2", "E.e1"),)),
        )
    ),
    contenders=("watersmeet", "watersmeet-rows", "spark"),
    full=Size(epochs=6, rows=10_000, heap="8g"),
    quick=Size(epochs=2, rows=300, heap="1g"),
    tables=tables,
    judge=judge,
)
