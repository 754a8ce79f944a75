"""Lazy/Active, Figure 6: a small query needs one machine; more do not change its throughput."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome, Runs
from watersmeet.lab.reproduce.experiments.sites import SMALL, experiment, outcome, seconds
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding

ARRIVAL_MS = 20
"""Of a tuple of each stream, in the paper."""
SLIGHTLY = 1.25
"""Our reading of a negligible overhead: the paper gives no number."""


def _measure(bench: Bench) -> Outcome:
    one, *more = SMALL.values()
    runs = Runs(one, one.budget, bench.unlimited(one), {str(each.sites): bench.unlimited(each) for each in more})
    return outcome(bench, runs, _judge, _draw)


def _judge(runs: Runs) -> Sequence[Finding]:
    arrive_ms = runs.setting.size(quick=False).rows * ARRIVAL_MS
    slowest = max(max(made.epoch_ms[1:], default=0) for made in runs.all.values())
    times = {name: seconds(made) for name, made in runs.treated.items()}
    one = seconds(runs.unlimited)
    told = ", ".join(f"{time:.1f} s on {name}" for name, time in times.items())
    return [
        Finding(
            "Every number of machines keeps up with the input, a tuple of each stream every 20 ms.",
            f"the slowest epoch took {slowest:,} ms, and its tuples take {arrive_ms:,} ms to arrive",
            slowest <= arrive_ms,
        ),
        Finding(
            "More machines add negligible overhead.",
            f"by the clock: all epochs after the first took {one:.1f} s on one site, {told}",
            max(times.values()) <= SLIGHTLY * one,
        ),
    ]


def _draw(runs: Runs) -> Figure:
    times = [runs.minute(epoch + 1) for epoch in range(len(runs.unlimited.output))]
    series = {f"{name if name.isdigit() else 1} sites": (times, made.cumulative) for name, made in runs.all.items()}
    return lines(series, "A small query on one to five sites", "minutes of arrivals", "results so far")


EXPERIMENT = experiment(6, "A small query on one to five sites", _measure)
