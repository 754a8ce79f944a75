"""Joins without an equality, which Spark's own streams refuse.

They are compared with what its users can do today, a `foreachBatch` over stored tables (`stored`), and with one batch
join of the same rows in DuckDB.

An epoch brings `SPAN_S` seconds of event time. A row of A is joined with those of B up to `REACH_S` later if

- *band*: their numbers are at most `BAND` apart;
- *overlap*: their intervals overlap.

Numbers are drawn from a range that grows with the rows, so that a row has `MATCHES` partners on average. Spark looks at
all pairs of new and stored rows. DuckDB is shown all rows at once and sorts them by two of the four inequalities; as a
band it would look at every pair, so the condition is written with BETWEEN. It chooses one of numbers and one of times,
which a quarter of all pairs pass. So both take four times as long for twice the rows, and sizes are small for their
sake.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.lab.bench.data import Tables
from watersmeet.lab.bench.pipeline import EventTime, Pipeline, Step
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, gain, same_results, share
from watersmeet.lab.bench.windows import DELAY_S, FIRST_S, REACH_S, SPAN_S

FAMILY = "ring"
MATCHES, BAND, LONGEST = 3, 20, 60

_TIME = EventTime("ts", f"{DELAY_S} seconds", reach=f"{REACH_S} seconds")
_LATER = f"B.ts BETWEEN A.ts AND A.ts + INTERVAL {REACH_S} SECONDS"


def tables(size: Size, width: int = 2 * BAND + 1) -> Tables:
    """Epochs of numbers, intervals and times, all drawn; ``width`` is how many numbers a row is joined with."""
    rng = np.random.default_rng(15)
    numbers = max(1, size.rows * REACH_S // SPAN_S * width // MATCHES)
    return {name: [_epoch(rng, size.rows, numbers, epoch) for epoch in range(size.epochs)] for name in "AB"}


def _epoch(rng: np.random.Generator, rows: int, numbers: int, epoch: int) -> pa.Table:
    begin = rng.integers(0, numbers, rows)
    micros = (FIRST_S + epoch * SPAN_S) * 1_000_000 + rng.integers(0, SPAN_S * 1_000_000, rows)
    return pa.table(
        {
            "x": rng.integers(0, numbers, rows),
            "begin": begin,
            "end": begin + rng.integers(1, LONGEST, rows),
            "ts": pa.array(micros).cast(pa.timestamp("us", "UTC")),
        }
    )


def judge(_: Size, outcomes: Outcomes) -> Judgement:
    """At most three times as long as DuckDB, which sees everything at once; a last epoch of a tenth of Spark's."""
    ours, spark, batch = outcomes["watersmeet"], outcomes["spark-foreachbatch"], outcomes["duckdb-memory"]
    comparisons = [
        gain("last epoch, Spark with stored tables", ours.last_s, spark.last_s, "s", at_least=10),
        gain("whole run, Spark with stored tables", ours.whole_s, spark.whole_s, "s"),
        share("whole run, one join in DuckDB in memory", ours.whole_s, batch.whole_s, "s", at_most=3),
    ]
    return comparisons, [same_results(outcomes)]


def _title(what: str, size: Size) -> str:
    return f"two streams, {what}, times at most {REACH_S} s apart, {size.epochs} epochs of {size.rows:,} rows each"


BAND_JOIN = f"A.x BETWEEN B.x - {BAND} AND B.x + {BAND}"
BANDS = Pipeline((Step("AB", (), (f"{BAND_JOIN} AND {_LATER}",)),), time=_TIME)
OVERLAPS = Pipeline((Step("AB", (), (f"A.begin < B.end AND B.begin < A.end AND {_LATER}",)),), time=_TIME)

BAND_SUITE = Suite(
    name=f"{FAMILY}-band",
    title=lambda size: _title(f"numbers at most {BAND} apart", size),
    pipeline=BANDS,
    contenders=("watersmeet", "spark-foreachbatch", "duckdb-memory"),
    full=Size(epochs=4, rows=12_000, heap="4g"),
    quick=Size(epochs=4, rows=1_000, heap="1g"),
    tables=tables,
    judge=judge,
    family=FAMILY,
)
OVERLAP_SUITE = replace(
    BAND_SUITE,
    name=f"{FAMILY}-overlap",
    title=lambda size: _title("intervals that overlap", size),
    pipeline=OVERLAPS,
    tables=lambda size: tables(size, LONGEST),
)
