"""A long run of small epochs with little memory: nothing may grow with their number but the rows that are stored.

1. The data are those of `memory`: a row's partners are anywhere in the state. The budget holds that of a few epochs, so
   every few epochs groups are spilled. Spilled groups are cleaned at the end, when all results must be there.
2. Before every epoch are weighed: the files of the checkpoint's state, the bytes of its manifests, the memory of the
   driver's own process. What each epoch took, its progress tells.
3. Compared are the medians of the last tenth and of the second: in the first, caches fill and the JVM warms up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from watersmeet.lab.bench import memory
from watersmeet.lab.bench.outcome import Outcome
from watersmeet.lab.bench.report import Comparison
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, same_results, share
from watersmeet.lab.bench.text import Unit

EPOCHS_IN_BUDGET = 8
PARTS = 10
AT_MOST = 1.15
WEIGHED: dict[str, tuple[str, Unit]] = {
    "files": ("files of the state", "files"),
    "manifest_bytes": ("bytes of the manifests", "bytes"),
    "driver_bytes": ("memory of the driver", "bytes"),
    "state_bytes": ("bytes of the state", "bytes"),
}
BOUNDED = ("files", "manifest_bytes", "driver_bytes")
"""All but the state, of which spilled rows stay until the end."""


def budget_bytes(size: Size) -> int:
    """The state of a few epochs."""
    return EPOCHS_IN_BUDGET * size.rows * len("ABC") * memory.BYTES_PER_ROW


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """Late in the run against early."""
    ours = outcomes["watersmeet-soak"]
    return late_against_early(ours, BOUNDED), [same_results(outcomes, size.rows * size.epochs)]


def late_against_early(outcome: Outcome, names: Iterable[str]) -> list[Comparison]:
    """Some of what was weighed, and the time of an epoch."""
    known = [(WEIGHED[name], outcome.gauges[name]) for name in names if name in outcome.gauges]
    weighed = [_flat(what, series, unit) for (what, unit), series in known]
    return [*weighed, _flat("time of an epoch", outcome.epoch_ms, "ms")]


def tenths(series: Sequence[float]) -> tuple[float, float]:
    """The medians of the second tenth of a series and of the last.

    >>> tenths(range(1, 41))
    (6.5, 38.5)
    >>> tenths([5, 7])
    (7, 7)
    """
    part = max(1, len(series) // PARTS)
    return median(series[part : 2 * part]), median(series[-part:])


def _flat(what: str, series: Sequence[float], unit: Unit) -> Comparison:
    early, late = tenths(series)
    return share(f"{what}, last tenth against the second", late, early, unit, AT_MOST)


SUITE = replace(
    memory.SUITE,
    name="soak",
    title=lambda size: f"{memory.SUITE.title(size)}, memory for {EPOCHS_IN_BUDGET} epochs",
    contenders=("watersmeet-soak",),
    full=Size(epochs=1_000, rows=20, heap="2g"),
    quick=Size(epochs=40, rows=20, heap="1g"),
    judge=judge,
    budget_bytes=budget_bytes,
)
