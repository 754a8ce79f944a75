"""Lazy/Active, Figure 11: partitions of ratios 4, 2 and 1; push those of low output rate, or of high."""

from collections.abc import Sequence

from watersmeet.lab.reproduce.experiment import Experiment, Runs, compare
from watersmeet.lab.reproduce.experiments.pushing import BY_THIRDS, HIGH, LOW, LOW_AND_HIGH
from watersmeet.lab.reproduce.figures import output_over_time
from watersmeet.lab.reproduce.findings import FAR_AHEAD, Finding, ahead, shares


def _judge(runs: Runs) -> Sequence[Finding]:
    low, high = runs[LOW].cleanup, runs[HIGH].cleanup
    return [
        Finding(
            "Pushing partitions of low output rate gives many more results at run time.",
            shares(runs.treated),
            ahead(runs[LOW].results, runs[HIGH].results, FAR_AHEAD),
        ),
        Finding(
            "It leaves less to the cleanup (194,308 tuples against 992,893).",
            f"{low.results:,} results against {high.results:,}",
            ahead(high.results, low.results, FAR_AHEAD),
        ),
        Finding(
            "Its cleanup takes less time (26,879 ms against 359,396 ms).",
            f"{low.time_ms:,} ms against {high.time_ms:,} ms",
            ahead(high.time_ms, low.time_ms),
        ),
    ]


EXPERIMENT = Experiment(
    "lazy-11",
    "Lazy/Active, Figure 11",
    "Which partitions to push: a third each has ratio 4, 2 and 1",
    compare(
        BY_THIRDS,
        LOW_AND_HIGH,
        _judge,
        lambda runs: output_over_time(runs, runs.treated, "Results at run time, ratios 4, 2 and 1 by thirds"),
    ),
)
