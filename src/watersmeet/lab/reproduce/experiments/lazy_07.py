"""Lazy/Active, Figure 7: a large query stops where memory is full; enough machines finish it, more do not help.

The memory of a site is chosen so that one site alone is full after 25 of 40 minutes, as in the paper.
"""

from matplotlib.figure import Figure

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome, Runs
from watersmeet.lab.reproduce.experiments.sites import LARGE, experiment, in_the_end, outcome
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import AHEAD, Finding
from watersmeet.lab.reproduce.record import Record

FULL_AFTER = 25 / 40
TWO_SITES_LAST = (30, 40)
"""Our reading of about 35 minutes."""


def _measure(bench: Bench) -> Outcome:
    one, *more = LARGE.values()
    free = bench.unlimited(one)
    runs = Runs(one, round(FULL_AFTER * in_the_end(free)), free, {str(n.sites): bench.unlimited(n) for n in more})
    return outcome(bench, runs, _judge, _draw)


def lasts(made: Record, threshold: int) -> int:
    """How many epochs pass until a site holds more than the threshold; all, if none ever does."""
    full = [epoch for epoch, sizes in enumerate(zip(*made.memory, strict=True)) if max(sizes) > threshold]
    return full[0] if full else len(made.output)


def _judge(runs: Runs) -> list[Finding]:
    minutes = {name: runs.minute(lasts(made, runs.threshold_bytes)) for name, made in runs.treated.items()}
    four, five = (runs[name].cumulative[lasts(runs[name], runs.threshold_bytes) - 1] for name in ("4", "5"))
    fullest = {name: max(map(max, made.memory)) / runs.threshold_bytes for name, made in runs.treated.items()}
    told = ", ".join(f"{part:.0%} on {name}" for name, part in fullest.items())
    end = runs.setting.minutes
    return [
        Finding(
            "Two machines overflow as well, after about 35 minutes.",
            f"two sites last {minutes['2']:.0f} of {end:g} minutes; the fullest site comes to {told} of its memory",
            TWO_SITES_LAST[0] <= minutes["2"] < TWO_SITES_LAST[1],
        ),
        Finding(
            "Four and five machines finish, and their throughput is almost the same.",
            f"they last {minutes['4']:.0f} and {minutes['5']:.0f} minutes with {four:,} and {five:,} results",
            minutes["4"] == minutes["5"] == end and max(four, five) <= AHEAD * min(four, five),
        ),
    ]


def _draw(runs: Runs) -> Figure:
    series = {}
    for name, made in runs.all.items():
        epochs = lasts(made, runs.threshold_bytes)
        times = [runs.minute(epoch) for epoch in range(1, epochs + 1)]
        series[f"{name if name.isdigit() else 1} sites"] = (times, made.cumulative[:epochs])
    return lines(series, "A large query until a site's memory is full", "minutes of arrivals", "results so far")


EXPERIMENT = experiment(7, "A large query on one to five sites without spilling", _measure)
