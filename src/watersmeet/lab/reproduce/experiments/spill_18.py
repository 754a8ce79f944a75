"""Spill, Figure 18: bottom-up spills least often, and yet gives few results."""

from collections.abc import Sequence

from watersmeet.lab.reproduce.experiment import Experiment, Runs, compare
from watersmeet.lab.reproduce.experiments.spilling import BOTTOM_UP, PENALTY, RATIOS_311, STRATEGIES
from watersmeet.lab.reproduce.figures import memory_over_time
from watersmeet.lab.reproduce.findings import FAR_AHEAD, Finding, ahead, shares, spill_counts

SHOWN = (PENALTY, BOTTOM_UP)


def _judge(runs: Runs) -> Sequence[Finding]:
    return [
        Finding(
            "Bottom-up spills less often than global output with penalty (7 times against 10).",
            f"spills of either site: {spill_counts(runs.treated)}",
            len(runs[BOTTOM_UP].spills) < len(runs[PENALTY].spills),
        ),
        Finding(
            "Fewer spills do not make more results: bottom-up gives much fewer.",
            shares(runs.treated),
            ahead(runs[PENALTY].results, runs[BOTTOM_UP].results, FAR_AHEAD),
        ),
    ]


EXPERIMENT = Experiment(
    "spill-18",
    "Spill, Figure 18",
    "Memory over time: global output with penalty and bottom-up",
    compare(
        RATIOS_311,
        {name: STRATEGIES[name] for name in SHOWN},
        _judge,
        lambda runs: memory_over_time(runs, runs.treated, "Memory over time, join ratios 3,1,1"),
    ),
)
