"""Endless streams: rows are let go as their windows end, as punctuations come, or as the first of the two allows.

1. The data are those of `windows` with few rows, and with keys that come for a while: with every epoch new ones begin,
   and the oldest get a punctuation each, in both streams.
2. The same query runs with its windows alone, with the punctuations alone, and with both. No row is late or comes after
   its punctuation, so the results are the same.
3. What must not grow is weighed before every epoch, as in `soak`. With both promises less is kept than with either.
4. In the second suite epochs are few and large. Finding and dropping rows is a small part of an epoch's time.
"""

from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa

from watersmeet.lab.bench import soak, windows
from watersmeet.lab.bench.contenders import Contender
from watersmeet.lab.bench.data import Tables
from watersmeet.lab.bench.pipeline import ended
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, same_results, share

BOTH: Contender = "watersmeet-promises"
EITHER: tuple[Contender, ...] = ("watersmeet-windows", "watersmeet-punctuations")
FAMILY = "endless"
COST = 0.1
"""The part of an epoch's time that letting go may take."""
EPOCHS_ALIVE = 4
"""A key comes in so many epochs; that is more than the windows reach, so neither promise says all."""


def tables(size: Size) -> Tables:
    """Rows of both streams, and the keys that come no more."""
    rng = np.random.default_rng(13)
    new = max(1, size.rows // windows.MATCHES)
    found: dict[str, list[pa.Table]] = {source: [] for name in "AB" for source in (name, ended(name))}
    for epoch in range(size.epochs):
        first = epoch * new
        for name in "AB":
            keys = rng.integers(first, first + EPOCHS_ALIVE * new, size.rows)
            found[name].append(windows.timed(keys, windows.times(rng, size.rows, epoch), epoch))
            found[ended(name)].append(pa.table({"k": np.arange(first, first + new)}))
    return found


def judge(_: Size, outcomes: Outcomes) -> Judgement:
    """Late in each run against early; and what is kept with both promises against each alone."""
    comparisons = [
        msgspec.structs.replace(each, what=f"{_short(name)}: {each.what}")
        for name in (*EITHER, BOTH)
        for each in soak.late_against_early(outcomes[name], soak.WEIGHED)
    ]
    for name in EITHER:
        both, one = (outcomes[each].state_bytes for each in (BOTH, name))
        comparisons.append(share(f"live state with both, {_short(name)} alone", both, one, "bytes", 1.0))
    return comparisons, [same_results(outcomes)]


def judge_cost(_: Size, outcomes: Outcomes) -> Judgement:
    """How long promises took, of all epochs after the first."""
    found = ((name, outcomes[name]) for name in (*EITHER, BOTH))
    comparisons = [
        share(f"{_short(name)}: letting go, of an epoch", ours.promises_s, ours.later_s, "s", COST)
        for name, ours in found
    ]
    return comparisons, [same_results(outcomes)]


def _short(name: Contender) -> str:
    return name.removeprefix("watersmeet-")


SUITE = replace(
    windows.INNER,
    name=f"{FAMILY}-epochs",
    title=lambda size: f"two streams, {size.epochs:,} epochs of {size.rows:,} rows each that are let go in time",
    pipeline=replace(windows.INNER.pipeline, punctuated="k"),
    contenders=(*EITHER, BOTH),
    full=Size(epochs=500, rows=100, heap="2g"),
    quick=Size(epochs=20, rows=20, heap="1g"),
    tables=tables,
    judge=judge,
    family=FAMILY,
)
COST_SUITE = replace(
    SUITE,
    name=f"{FAMILY}-rows",
    full=Size(epochs=20, rows=100_000, heap="4g"),
    quick=Size(epochs=5, rows=100, heap="1g"),
    judge=judge_cost,
)
