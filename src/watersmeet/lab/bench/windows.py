"""Joins on a key and a condition between event times, with watermarks: against Spark's own, which are of the same kind.

    A: 0----4----8---12---16        an epoch brings `SPAN_S` seconds of event time, and some rows of those before
    B:           [a         ]       a row of A is joined with rows of B up to `REACH_S` later: of two or three epochs

1. Keys are drawn so that a row of A has `MATCHES` partners on average in every other stream; one in seven has none.
2. Some rows are late, by less than the watermark allows. None is later: what becomes of such rows is not compared.
3. At the end two epochs of few rows lie far in the future, and are matched among themselves. The first lets the
   watermarks pass by everything before, the second has it come out. So each engine gives all results there are, those
   of rows without a match included, in epochs with input.

The inner join and the left outer one are of two streams. The chain is of three: one operator of ours, two joins of
Spark's. Rows without a match must not come out in a later epoch than Spark's. In the last suite the results of the
inner join are counted by windows of time; the groups come out once they are final.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.lab.bench.data import Tables, keyed
from watersmeet.lab.bench.outcome import Outcome
from watersmeet.lab.bench.pipeline import Counted, EventTime, Pipeline, Step
from watersmeet.lab.bench.report import Comparison, Count
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, gain, same_results

FAMILY = "windows"
SPAN_S, REACH_S, DELAY_S = 4, 10, 2
MATCHES = 2
LATE_SHARE, LATE_S = 0.02, 1.5
LAST_EPOCHS, LAST_ROWS, FAR_S = 2, 10, 3600
FIRST_S = 1_767_225_600
"""2026 begins."""

_TIME = EventTime("ts", f"{DELAY_S} seconds")


def tables(size: Size, streams: str = "AB") -> Tables:
    """Epochs of rows with random keys and times, and then the last ones; all streams alike."""
    rng = np.random.default_rng(11)
    *many, first_last = range(size.epochs - LAST_EPOCHS + 1)
    lasts = range(first_last, size.epochs)
    keys = max(1, size.rows * REACH_S // (SPAN_S * MATCHES))
    return {
        name: [
            *(timed(rng.integers(0, keys, size.rows), times(rng, size.rows, epoch), epoch) for epoch in many),
            *(timed(-1 - np.arange(LAST_ROWS), np.full(LAST_ROWS, FAR_S + epoch * 60.0), epoch) for epoch in lasts),
        ]
        for name in streams
    }


def times(rng: np.random.Generator, rows: int, epoch: int) -> npt.NDArray[np.float64]:
    """Seconds: those of an epoch, and some before it."""
    times = rng.uniform(epoch * SPAN_S, (epoch + 1) * SPAN_S, rows)
    late = rng.random(rows) < (LATE_SHARE if epoch else 0)
    times[late] = epoch * SPAN_S - rng.uniform(0, LATE_S, int(late.sum()))
    return times


def timed(keys: npt.NDArray[np.int64], seconds: npt.NDArray[np.float64], epoch: int) -> pa.Table:
    """Rows with event times."""
    micros = FIRST_S * 1_000_000 + (seconds * 1_000_000).astype(np.int64)
    return keyed(keys, epoch).append_column("ts", pa.array(micros).cast(pa.timestamp("us", "UTC")))


def gains(outcomes: Outcomes, in_heap: float, rocks_db: float) -> list[Comparison]:
    """All epochs but the first together, which are judged; and what else was seen."""
    ours, heap, rocks = outcomes["watersmeet"], outcomes["spark"], outcomes["spark-rocksdb"]
    return [
        gain("epochs after the first, Spark in-heap", ours.later_s, heap.later_s, "s", at_least=in_heap),
        gain("epochs after the first, Spark RocksDB", ours.later_s, rocks.later_s, "s", at_least=rocks_db),
        gain("whole run, Spark in-heap", ours.whole_s, heap.whole_s, "s"),
        gain("whole run, Spark RocksDB", ours.whole_s, rocks.whole_s, "s"),
        gain("state, Spark in-heap", ours.state_bytes, heap.state_bytes, "bytes"),
        gain("peak memory, Spark in-heap", ours.peak_bytes, heap.peak_bytes, "bytes"),
    ]


def judge_two_way(_: Size, outcomes: Outcomes) -> Judgement:
    """Time, and the number of results."""
    return gains(outcomes, in_heap=3, rocks_db=6), [same_results(outcomes)]


def judge_left(size: Size, outcomes: Outcomes) -> Judgement:
    """The same; and no epoch leaves fewer results than Spark has given by then."""
    comparisons, counts = judge_two_way(size, outcomes)
    return comparisons, [*counts, later_than_spark(outcomes)]


def judge_chain(_: Size, outcomes: Outcomes) -> Judgement:
    """As of two streams, with other aims."""
    return gains(outcomes, in_heap=5, rocks_db=10), [same_results(outcomes)]


def judge_counted(_: Size, outcomes: Outcomes) -> Judgement:
    """Groups after the same join."""
    return gains(outcomes, in_heap=2, rocks_db=2), [same_results(outcomes)]


def later_than_spark(outcomes: Outcomes) -> Count:
    """In how many epochs ours has given fewer results, with all before, than each of Spark's joins."""
    ours = _by_epoch(outcomes["watersmeet"])
    theirs: Mapping[str, Sequence[int]] = {name: _by_epoch(outcomes[name]) for name in ("spark", "spark-rocksdb")}
    behind = {name: sum(map(int.__lt__, ours, given)) for name, given in theirs.items()}
    return Count("epochs in which results come later than Spark's", behind, expected=0)


def _by_epoch(outcome: Outcome) -> list[int]:
    """The results up to each epoch with input."""
    return list(accumulate(outcome.epoch_results[: len(outcome.epoch_ms)]))


def _within(stream: str) -> str:
    return f"{stream}.ts BETWEEN A.ts AND A.ts + INTERVAL {REACH_S} SECONDS"


def _title(what: str, size: Size) -> str:
    return (
        f"{what} on a key and times at most {REACH_S} s apart, "
        f"{size.epochs - LAST_EPOCHS} epochs of {size.rows:,} rows each and {SPAN_S} s"
    )


INNER = Suite(
    name=f"{FAMILY}-inner",
    title=lambda size: _title("two streams", size),
    pipeline=Pipeline((Step("AB", (("A.k", "B.k"),), (_within("B"),)),), time=_TIME),
    contenders=("watersmeet", "spark", "spark-rocksdb", "duckdb-memory"),
    full=Size(epochs=10, rows=300_000, heap="8g"),
    quick=Size(epochs=7, rows=1_000, heap="1g"),
    tables=tables,
    judge=judge_two_way,
    family=FAMILY,
)
LEFT = replace(
    INNER,
    name=f"{FAMILY}-left",
    title=lambda size: _title("two streams, left outer join", size),
    pipeline=Pipeline((Step("AB", (("A.k", "B.k"),), (_within("B"),), how="left"),), time=_TIME),
    judge=judge_left,
)
CHAIN = replace(
    INNER,
    name=f"{FAMILY}-chain",
    title=lambda size: _title("three streams", size),
    pipeline=Pipeline(
        (Step("ABC", (("A.k", "B.k"), ("A.k", "C.k")), (_within("B"), _within("C"))),),
        time=_TIME,
    ),
    full=Size(epochs=10, rows=200_000, heap="8g"),
    tables=lambda size: tables(size, "ABC"),
    judge=judge_chain,
)
COUNTED = replace(
    INNER,
    name=f"{FAMILY}-groups",
    title=lambda size: _title("two streams, counted by windows of time,", size),
    pipeline=replace(INNER.pipeline, counted=Counted(SPAN_S, "A.k", 100)),
    contenders=("watersmeet", "spark", "spark-rocksdb"),  # a batch join also has the groups that are not final
    judge=judge_counted,
)
