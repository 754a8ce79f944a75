"""Lazy/Active, Figure 9: the more state is pushed at a time, the fewer results at run time."""

from collections.abc import Sequence
from itertools import pairwise

from watersmeet.lab.reproduce.experiment import Experiment, Runs, compare
from watersmeet.lab.reproduce.experiments.pushing import EVEN, PERCENTAGES
from watersmeet.lab.reproduce.figures import output_over_time
from watersmeet.lab.reproduce.findings import Finding, ahead, shares


def _judge(runs: Runs) -> Sequence[Finding]:
    results = [made.results for made in runs.all.values()]
    falling = all(ahead(less, more) for less, more in pairwise(results))
    return [Finding("The more state is pushed at a time, the fewer the results.", shares(runs.all), falling)]


EXPERIMENT = Experiment(
    "lazy-09",
    "Lazy/Active, Figure 9",
    "Results at run time by the share of random state pushed at a time",
    compare(
        EVEN,
        PERCENTAGES,
        _judge,
        lambda runs: output_over_time(runs, runs.all, "Results at run time by share of state pushed"),
    ),
)
