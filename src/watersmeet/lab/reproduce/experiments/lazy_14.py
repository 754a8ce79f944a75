"""Lazy/Active, Figure 14: how far apart the memory of sites must be for groups to move."""

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome, Runs
from watersmeet.lab.reproduce.experiments.relocation import (
    DIFFERENCES,
    costs_told,
    cumulative,
    is_nearly_free,
    relocated,
)
from watersmeet.lab.reproduce.experiments.sites import experiment, outcome
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding


def _measure(bench: Bench) -> Outcome:
    title = "Memory that alternates: when to start adapting"
    return outcome(
        bench,
        relocated(bench, DIFFERENCES),
        _judge,
        lambda runs: lines(cumulative(runs), title, "seconds of epochs, by the clock", "results so far"),
    )


def _judge(runs: Runs) -> list[Finding]:
    few, many = (runs[name].decisions for name in DIFFERENCES)
    return [
        Finding("Relocation is nearly free, whatever starts it.", costs_told(runs), is_nearly_free(runs)),
        Finding(
            "The higher the percentage, the more often groups move: 24 times at 90 %, 2 times at 50 %.",
            f"{many} times at 90 %, {few} times at 50 %",
            many > few > 0,
        ),
    ]


EXPERIMENT = experiment(14, "How far apart memory must be for groups to move", _measure)
