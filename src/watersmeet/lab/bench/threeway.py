"""The main comparison: three streams, every key once per stream and epoch, joined on the key.

With ``n`` epochs a key ends up with ``n ** 3`` results, so the last epoch is by far the largest.
"""

import numpy as np

from watersmeet.lab.bench.data import Tables, keyed
from watersmeet.lab.bench.pipeline import Pipeline, Step
from watersmeet.lab.bench.report import Count
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, gain, same_results, share


def tables(size: Size) -> Tables:
    """Every key once per stream and epoch, in random order."""
    rng = np.random.default_rng(1)
    return {name: [keyed(rng.permutation(size.rows), epoch) for epoch in range(size.epochs)] for name in "ABC"}


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """Whole run, last epoch and state against Spark's stores; whole run against one batch join."""
    ours, heap, rocks = outcomes["watersmeet"], outcomes["spark"], outcomes["spark-rocksdb"]
    rows, batch = outcomes["watersmeet-rows"], outcomes["duckdb"]
    comparisons = [
        gain("whole run, Spark in-heap", ours.whole_s, heap.whole_s, "s", at_least=4),
        gain("whole run, Spark RocksDB", ours.whole_s, rocks.whole_s, "s", at_least=11),
        gain("last epoch, Spark in-heap", ours.last_s, heap.last_s, "s", at_least=5),
        gain("last epoch, Spark RocksDB", ours.last_s, rocks.last_s, "s", at_least=18),
        gain("state, Spark in-heap", ours.state_bytes, heap.state_bytes, "bytes", at_least=20),
        gain("peak memory, Spark in-heap", ours.peak_bytes, heap.peak_bytes, "bytes"),
        gain("peak memory, Spark RocksDB", ours.peak_bytes, rocks.peak_bytes, "bytes"),
        share("whole run, one join in DuckDB", ours.whole_s, batch.whole_s, "s", at_most=2.5),
        share("whole run, one join in DuckDB in memory", ours.whole_s, outcomes["duckdb-memory"].whole_s, "s"),
        gain("whole run as rows, Spark in-heap", rows.whole_s, heap.whole_s, "s"),
        gain("whole run as rows, Spark RocksDB", rows.whole_s, rocks.whole_s, "s"),
        gain("last epoch as rows, Spark in-heap", rows.last_s, heap.last_s, "s"),
        gain("last epoch as rows, Spark RocksDB", rows.last_s, rocks.last_s, "s"),
    ]
    return comparisons, [all_results(size, outcomes)]


def all_results(size: Size, outcomes: Outcomes) -> Count:
    """Every key in all combinations of epochs."""
    return same_results(outcomes, size.rows * size.epochs**3)


SUITE = Suite(
    name="threeway",
    title=lambda size: f"three streams, {size.epochs} epochs of {size.rows:,} rows each, joined on one key",
    pipeline=Pipeline((Step("ABC", (("A.k", "B.k"), ("A.k", "C.k"))),)),
    contenders=("watersmeet", "watersmeet-rows", "spark", "spark-rocksdb", "duckdb", "duckdb-memory"),
    full=Size(epochs=6, rows=150_000, heap="8g"),
    quick=Size(epochs=2, rows=2_000, heap="1g"),
    tables=tables,
    judge=judge,
)
