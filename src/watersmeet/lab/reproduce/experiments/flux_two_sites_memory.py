"""Flux's memory-constrained policy on two sites, on Spark and in the simulator: whether both tell the same.

One site has four fifths of the groups at first, and memory for three fifths of what both hold together in the end. Both
run the shipped policy with its usual thresholds, on as many groups. In the simulator all state is there from the start;
on Spark it grows, and groups are alike only about, as keys are hashed.
"""

import numpy as np
from matplotlib.figure import Figure

from watersmeet.adapt.moving.flux_memory import FluxMemoryPolicy
from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Experiment, Outcome, Runs, exactness
from watersmeet.lab.reproduce.experiments.flux_two_sites import ENGINE, SIMULATOR, Way, judge, rows
from watersmeet.lab.reproduce.experiments.fluxes import SEED
from watersmeet.lab.reproduce.experiments.sites import NONE, SPILLING, in_the_end, moves_table
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding, spill_counts
from watersmeet.lab.reproduce.setting import Size, Treatment
from watersmeet.lab.reproduce.spread import Spread
from watersmeet.lab.reproduce.tables import Table, memory_table, runs_table
from watersmeet.lab.simulator import Cluster, Disturbance, Hardware, Traffic, simulate

SITES, GROUPS, WEIGHTS, PART = 2, 20, (4.0, 1.0), 0.6
SETTING = Spread(
    (1,),
    sites=SITES,
    minutes=1,
    weights=WEIGHTS,
    label="four fifths of the groups on one site",
    full=Size(16, 8_000, 40_000, GROUPS),
)
SECONDS, EPOCH_MS, BUFFER = 30.0, 250.0, 4096.0
MOVED = "flux-memory"


def simulated(groups: int) -> list[Way]:
    """The moves of the simulator, one for every group."""
    hardware = Hardware(machines=SITES)
    traffic = Traffic.even(groups, hardware.memory_bytes / (PART * groups))
    cluster = Cluster(hardware, traffic, np.random.default_rng(SEED), BUFFER)
    course = simulate(cluster, SECONDS, Disturbance(SITES), [FluxMemoryPolicy()], EPOCH_MS, weights=WEIGHTS)
    return [(before, after) for _, count, before, after in course.moves for _ in range(count)]


def _measure(bench: Bench) -> Outcome:
    free = bench.unlimited(SETTING)
    budget = round(PART * in_the_end(free))
    treatments = {name: Treatment(SPILLING, 0.3, name if name == MOVED else "none", budget=budget) for name in RUNS}
    runs = Runs(SETTING, budget, free, bench.runs(SETTING, treatments))
    engine = [(move.before, move.after) for move in runs[MOVED].moves for _ in range(move.groups)]
    simulator = simulated(SETTING.size(quick=bench.quick).groups)
    findings = [*judge(engine, simulator), _unspilled(runs)]
    claims = [finding.unjudged() if bench.quick else finding for finding in findings]
    told = Table(("where", "number", "from_site", "to_site"), rows({ENGINE: engine, SIMULATOR: simulator}))
    tables = {
        "runs": runs_table(runs.all),
        "memory": memory_table(runs.all),
        "moves": moves_table(runs.all),
        "both": told,
    }
    return Outcome([*claims, exactness(runs)], tables, _draw(runs), exact=not runs.wrong)


RUNS = (NONE, MOVED)


def _unspilled(runs: Runs) -> Finding:
    return Finding(
        "(ours) With moves nothing has to be spilled on Spark, without them the fuller site spills.",
        f"spills of each site: {spill_counts(runs.treated)}",
        not runs[MOVED].spills and bool(runs[NONE].spills),
    )


def _draw(runs: Runs) -> Figure:
    series = {
        f"{name}, site {site}": (range(1, len(sizes) + 1), sizes)
        for name, made in runs.treated.items()
        for site, sizes in enumerate(made.memory)
    }
    return lines(series, "Memory of two sites, of which one has four fifths of the groups", "epochs", "live bytes")


EXPERIMENT = Experiment(
    "flux-two-sites-memory",
    "Flux 6.1, on Spark",
    "Shortage of memory at one of two sites, on Spark and in the simulator",
    _measure,
    needs_cluster=True,
)
