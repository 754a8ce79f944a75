"""Lazy/Active, Figure 15: how often groups may move."""

from itertools import pairwise

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome, Runs
from watersmeet.lab.reproduce.experiments.relocation import SPANS, costs_told, cumulative, is_nearly_free, relocated
from watersmeet.lab.reproduce.experiments.sites import experiment, outcome
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding


def _measure(bench: Bench) -> Outcome:
    title = "Memory that alternates: the minimal time between adaptations"
    return outcome(
        bench,
        relocated(bench, SPANS),
        _judge,
        lambda runs: lines(cumulative(runs), title, "seconds of epochs, by the clock", "results so far"),
    )


def _judge(runs: Runs) -> list[Finding]:
    counts = {name: runs[name].decisions for name in SPANS}
    return [
        Finding("Relocation is nearly free, however often.", costs_told(runs), is_nearly_free(runs)),
        Finding(
            "The longer the time between adaptations, the fewer: 31, 27 and 24 in an hour.",
            f"{', '.join(f'{count} {name}' for name, count in counts.items())}, in the eighth part of an hour",
            all(more > fewer for more, fewer in pairwise(counts.values())),
        ),
    ]


EXPERIMENT = experiment(15, "How often groups may move", _measure)
