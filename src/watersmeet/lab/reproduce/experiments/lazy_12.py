"""Lazy/Active, Figure 12: all partitions have ratio 3, and the choice still matters a little."""

from collections.abc import Sequence

from watersmeet.lab.reproduce.experiment import Experiment, Runs, compare
from watersmeet.lab.reproduce.experiments.pushing import EVEN, HIGH, LOW, LOW_AND_HIGH
from watersmeet.lab.reproduce.figures import output_over_time
from watersmeet.lab.reproduce.findings import Finding, ahead, shares


def _judge(runs: Runs) -> Sequence[Finding]:
    return [
        Finding(
            "Pushing partitions of low output rate is slightly ahead even where all ratios are 3.",
            shares(runs.treated),
            ahead(runs[LOW].results, runs[HIGH].results),
        )
    ]


EXPERIMENT = Experiment(
    "lazy-12",
    "Lazy/Active, Figure 12",
    "Which partitions to push: all have ratio 3",
    compare(
        EVEN,
        LOW_AND_HIGH,
        _judge,
        lambda runs: output_over_time(runs, runs.treated, "Results at run time, all ratios 3"),
    ),
)
