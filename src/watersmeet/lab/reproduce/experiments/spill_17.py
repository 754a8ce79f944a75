"""Spill, Figure 17: memory over time of the two global strategies; every zig down is a spill."""

from collections.abc import Sequence

from watersmeet.lab.reproduce.experiment import Experiment, Runs, compare
from watersmeet.lab.reproduce.experiments.spilling import GLOBAL, PENALTY, RATIOS_311, STRATEGIES
from watersmeet.lab.reproduce.figures import memory_over_time
from watersmeet.lab.reproduce.findings import Finding, spill_counts

SHOWN = (GLOBAL, PENALTY)


def _judge(runs: Runs) -> Sequence[Finding]:
    kept = max(made.kept_bytes for made in runs.treated.values())
    return [
        Finding(
            "Memory goes up and down and is kept below the threshold.",
            f"no site went on with more than {kept:,} bytes, the threshold is {runs.threshold_bytes:,}",
            kept <= runs.threshold_bytes,
        ),
        Finding(
            "Global output with penalty spills less often than global output (10 times against 13).",
            f"spills of either site: {spill_counts(runs.only(*SHOWN))}",
            len(runs[PENALTY].spills) < len(runs[GLOBAL].spills),
        ),
    ]


EXPERIMENT = Experiment(
    "spill-17",
    "Spill, Figure 17",
    "Memory over time: global output and global output with penalty",
    compare(
        RATIOS_311,
        {name: STRATEGIES[name] for name in SHOWN},
        _judge,
        lambda runs: memory_over_time(runs, runs.treated, "Memory over time, join ratios 3,1,1"),
    ),
)
