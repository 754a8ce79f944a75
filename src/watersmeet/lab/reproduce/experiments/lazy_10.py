"""Lazy/Active, Figure 10: the more state is pushed at a time, the less often."""

from collections.abc import Sequence
from itertools import pairwise

from watersmeet.lab.reproduce.experiment import Experiment, Runs, compare
from watersmeet.lab.reproduce.experiments.pushing import EVEN, PERCENTAGES
from watersmeet.lab.reproduce.figures import memory_over_time
from watersmeet.lab.reproduce.findings import Finding, spill_counts


def _judge(runs: Runs) -> Sequence[Finding]:
    kept = max(made.kept_bytes for made in runs.treated.values())
    counts = [len(made.spills) for made in runs.treated.values()]
    return [
        Finding(
            "Memory is kept below the threshold.",
            f"the site went on with at most {kept:,} bytes, the threshold is {runs.threshold_bytes:,}",
            kept <= runs.threshold_bytes,
        ),
        Finding(
            "The more state is pushed at a time, the less often.",
            f"pushes: {spill_counts(runs.treated)}",
            all(more > fewer for more, fewer in pairwise(counts)),
        ),
    ]


EXPERIMENT = Experiment(
    "lazy-10",
    "Lazy/Active, Figure 10",
    "Memory over time by the share of random state pushed at a time",
    compare(
        EVEN,
        PERCENTAGES,
        _judge,
        lambda runs: memory_over_time(runs, runs.all, "Memory over time by share of state pushed"),
    ),
)
