"""PSP, sections 4 and 8, on Spark: three cameras on rings of one, two and four sites, on two executors.

What figure 8 shows of up to 19 nodes is simulated (`psp_8ab`). Here real executors show what holds of few: nothing is
held twice, and the sites share the work. Response times are those of epochs, which have a cost of their own, so they
are told and not judged.
"""

from collections.abc import Mapping
from statistics import mean, median

from matplotlib.figure import Figure

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.cameras import WINDOW_S, Cameras
from watersmeet.lab.reproduce.experiment import Experiment, Outcome, Runs
from watersmeet.lab.reproduce.experiments.psp import STABLE
from watersmeet.lab.reproduce.experiments.sites import outcome
from watersmeet.lab.reproduce.figures import bars
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.record import Record

SITES = (1, 2, 4)
SHARED = 1.25
"""Our reading of "evenly shared": the busiest site has at most so much more than its part."""


def _measure(bench: Bench) -> Outcome:
    one, *more = (Cameras(sites) for sites in SITES)
    runs = Runs(one, 0, bench.unlimited(one), {str(each.sites): bench.unlimited(each) for each in more})
    return outcome(bench, runs, _judge, _draw)


def by_sites(runs: Runs) -> dict[int, Record]:
    """The run without a name is that on one site."""
    return {1: runs.unlimited, **{int(name): made for name, made in runs.treated.items()}}


def held(made: Record) -> float:
    """The rows of state, on average of the epochs since the first rows have ended."""
    return mean(made.state_rows[WINDOW_S:] or made.state_rows)


def _judge(runs: Runs) -> list[Finding]:
    made = by_sites(runs)
    rows = {sites: held(each) for sites, each in made.items()}
    busiest = {sites: sum(each.busiest_ms[1:]) / 1000 for sites, each in made.items()}
    took = {sites: median(each.epoch_ms[1:]) for sites, each in made.items()}
    return [
        Finding(
            "No state is held twice: it is the same on any number of sites, within 2 per cent.",
            _told({sites: f"{each:,.0f} rows" for sites, each in rows.items()}),
            max(rows.values()) <= (1 + STABLE) * min(rows.values()),
        ),
        Finding(
            "More sites share the work of the joins evenly.",
            "the busiest site worked "
            + _told({sites: f"{each:.1f} s" for sites, each in busiest.items()})
            + "; a median epoch took "
            + _told({sites: f"{each:,.0f} ms" for sites, each in took.items()}),
            all(each <= SHARED * busiest[1] / sites for sites, each in busiest.items()),
        ),
    ]


def _told(values: Mapping[int, str]) -> str:
    return ", ".join(f"{value} on {sites}" for sites, value in values.items())


def _draw(runs: Runs) -> Figure:
    made = {f"{sites} sites": each for sites, each in by_sites(runs).items()}
    panels = {
        "rows of state": {name: held(each) for name, each in made.items()},
        "seconds of the busiest site": {name: sum(each.busiest_ms[1:]) / 1000 for name, each in made.items()},
    }
    return bars(panels, "A ring of three cameras on two executors")


EXPERIMENT = Experiment(
    "psp-on-spark",
    "PSP 8, on Spark",
    "A ring on one, two and four sites",
    _measure,
    needs_cluster=True,
)
