"""A burst: small epochs, then one 50 times as large.

Small epochs take the shortcut, one task for all sites and levels, and an epoch is expected to be like the one before.
Where it is not, the shortcut must not cost much: it is compared with the same run that never takes it. Three chained
operators as in `floor`, but every key comes twice: eight results for a row of a stream, all from one task.
"""

from dataclasses import replace

from watersmeet.lab.bench import floor
from watersmeet.lab.bench.data import Tables
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, same_results, share

TIMES = 50
KEY_TIMES = 2


def tables(size: Size) -> Tables:
    """Epochs of as many rows each; the last has 50 times as many."""
    return floor.epochs_of([size.rows] * (size.epochs - 1) + [size.rows * TIMES], KEY_TIMES)


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """The last epoch, with the shortcut at hand and without."""
    ours, rows = outcomes["watersmeet"], outcomes["watersmeet-rows"]
    long, long_rows = outcomes["watersmeet-long"], outcomes["watersmeet-rows-long"]
    comparisons = [
        share("burst, without the shortcut", ours.last_s, long.last_s, "s", at_most=1.3),
        share("burst as rows, without the shortcut", rows.last_s, long_rows.last_s, "s", at_most=1.3),
        share("peak memory, without the shortcut", ours.peak_bytes, long.peak_bytes, "bytes"),
    ]
    results = size.rows * (size.epochs - 1 + TIMES) * KEY_TIMES**3
    return comparisons, [same_results(outcomes, results)]


SUITE = replace(
    floor.SUITE,
    name="burst",
    title=lambda size: (
        f"three chained operators, {size.epochs - 1} epochs of {len(floor.COLUMNS) * size.rows:,} rows in all, "
        f"then one of {TIMES} times as many"
    ),
    contenders=("watersmeet", "watersmeet-long", "watersmeet-rows", "watersmeet-rows-long"),
    full=Size(epochs=8, rows=10_000, heap="4g"),
    quick=Size(epochs=3, rows=20, heap="1g"),
    tables=tables,
    judge=judge,
)
