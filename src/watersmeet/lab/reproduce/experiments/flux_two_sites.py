"""Flux's load balancing on two sites, on Spark and in the simulator: whether both tell the same.

Groups of one site get five times as many tuples as those of the other. Both run the shipped policy with its usual
thresholds, on as many groups, of which those of a site are alike. After four moves both sites are exactly level, and
after three one has 1.4 times as much as the other, so no decision is at the edge of the threshold, which is 1.2. The
simulator's machines are always busy or waiting; on Spark a site also waits for all that an epoch does beside joining,
so utilisations differ, and only their ratios are alike.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from watersmeet.adapt.moving.flux import FluxPolicy
from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.costly import Costly
from watersmeet.lab.reproduce.experiment import Experiment, Outcome, Runs, exactness
from watersmeet.lab.reproduce.experiments.fluxes import SEED
from watersmeet.lab.reproduce.experiments.sites import NONE, moves_table
from watersmeet.lab.reproduce.figures import bars
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.setting import Size, Treatment
from watersmeet.lab.reproduce.tables import Table, runs_table
from watersmeet.lab.simulator import Cluster, Disturbance, Hardware, Traffic, simulate

SITES, GROUPS, TIMES = 2, 20, 5.0
SETTING = Costly(TIMES, Size(16, 120_000, 120_000, GROUPS))
SECONDS, EPOCH_MS, BUFFER = 10.0, 250.0, 4096.0
ENGINE, SIMULATOR = "Spark", "simulator"

Way = tuple[int, int]
"""From which site a group moves to which."""


def simulated(groups: int) -> list[Way]:
    """The moves of the simulator, one for every group."""
    hot = np.arange(groups) < groups // 2
    shares = np.where(hot, TIMES, 1.0)
    traffic = Traffic(shares / shares.sum())
    cluster = Cluster(Hardware(machines=SITES), traffic, np.random.default_rng(SEED), BUFFER)
    course = simulate(cluster, SECONDS, Disturbance(SITES), [FluxPolicy()], EPOCH_MS)
    return [(before, after) for _, count, before, after in course.moves for _ in range(count)]


def judge(engine: Sequence[Way], simulator: Sequence[Way]) -> list[Finding]:
    """What both have done, one beside the other."""
    told = {ENGINE: engine, SIMULATOR: simulator}
    seen = "; ".join(f"{name} {len(ways)} groups: {_told(ways)}" for name, ways in told.items())
    return [
        Finding(
            "(ours) In both, groups move from the loaded site to the other.",
            seen,
            all(ways and ways[0] == (0, 1) and _left(ways) > 0 for ways in told.values()),
        ),
        Finding("(ours) Both make the same moves, in the same order.", seen, list(engine) == list(simulator)),
        Finding(
            "(ours) In the end as many groups have changed their site.",
            f"{_left(engine)} on Spark, {_left(simulator)} in the simulator",
            _left(engine) == _left(simulator),
        ),
    ]


def _left(ways: Sequence[Way]) -> int:
    """Groups that the loaded site has less in the end."""
    return sum(1 if way == (0, 1) else -1 for way in ways)


def _told(ways: Sequence[Way]) -> str:
    return ", ".join(f"{before} to {after}" for before, after in ways) or "none"


def _measure(bench: Bench) -> Outcome:
    still = bench.unlimited(SETTING)
    moved = bench.run(SETTING, Treatment(adaptation="flux"))
    runs = Runs(SETTING, SETTING.budget_bytes(quick=bench.quick), still, {ENGINE: moved})
    engine = [(move.before, move.after) for move in moved.moves for _ in range(move.groups)]
    simulator = simulated(SETTING.size(quick=bench.quick).groups)
    claims = [finding.unjudged() if bench.quick else finding for finding in judge(engine, simulator)]
    told = Table(("where", "number", "from_site", "to_site"), rows({ENGINE: engine, SIMULATOR: simulator}))
    tables = {"runs": runs_table(runs.all), "moves": moves_table(runs.all), "both": told}
    return Outcome([*claims, exactness(runs)], tables, _draw(engine, simulator), exact=not runs.wrong)


def rows(told: dict[str, list[Way]]) -> list[tuple[str | int | float, ...]]:
    """Every move of both, one a row."""
    return [(name, number, *way) for name, ways in told.items() for number, way in enumerate(ways)]


def _draw(engine: Sequence[Way], simulator: Sequence[Way]) -> Figure:
    told = {ENGINE: engine, SIMULATOR: simulator}
    panels = {
        "groups that moved to the other site": {name: float(ways.count((0, 1))) for name, ways in told.items()},
        "groups that moved back": {name: float(ways.count((1, 0))) for name, ways in told.items()},
    }
    return bars(panels, f"Load balancing of two sites; {NONE} leaves one with five sixths")


EXPERIMENT = Experiment(
    "flux-two-sites",
    "Flux 5.3, on Spark",
    "Load balancing of two sites, on Spark and in the simulator",
    _measure,
    needs_cluster=True,
)
