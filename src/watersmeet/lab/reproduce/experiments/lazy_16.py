"""Lazy/Active, Figure 16: memory of two sites under a load that alternates, with relocation and without."""

from statistics import mean

from matplotlib.figure import Figure

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome, Runs
from watersmeet.lab.reproduce.experiments.relocation import SPANS, relocated
from watersmeet.lab.reproduce.experiments.sites import NONE, experiment, outcome
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding

OFTEN = "every 15 s"
LEVEL = 0.8
"""Our reading of balanced memory: what the emptier site holds of the fuller one's, on average."""


def _measure(bench: Bench) -> Outcome:
    return outcome(bench, relocated(bench, {OFTEN: SPANS[OFTEN]}), _judge, _draw)


def _judge(runs: Runs) -> list[Finding]:
    still, moved = (mean(runs[name].evenness) for name in (NONE, OFTEN))
    return [
        Finding(
            "Without relocation the memory of two sites is uneven in turn; relocation balances it.",
            f"the emptier site holds {moved:.0%} of the fuller one on average, {still:.0%} without, "
            f"and at least {min(runs[OFTEN].evenness):.0%}, {min(runs[NONE].evenness):.0%} without",
            still < LEVEL <= moved,
        )
    ]


def _draw(runs: Runs) -> Figure:
    series = {
        f"{name}, site {site}": ([runs.minute(epoch + 1) for epoch in range(len(sizes))], sizes)
        for name, made in runs.treated.items()
        for site, sizes in enumerate(made.memory)
    }
    return lines(series, "Memory of two sites under a load that alternates", "minutes of arrivals", "live bytes")


EXPERIMENT = experiment(16, "Memory of two sites under a load that alternates", _measure)
