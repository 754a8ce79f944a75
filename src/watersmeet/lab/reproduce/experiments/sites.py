"""What the experiments of Lazy/Active on several machines have in common: settings, treatments, runs and outcomes.

Budgets are parts of what a run without one holds in the end, as the paper's depend on its tuples and its Java.
"""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Experiment, Outcome, Runs, exactness
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.record import Record
from watersmeet.lab.reproduce.setting import Setting, Size, Treatment
from watersmeet.lab.reproduce.spread import Spread
from watersmeet.lab.reproduce.tables import Table, memory_table, output_table, runs_table

SITES = (1, 2, 3, 4, 5)
SMALL = {n: Spread((1,), sites=n, minutes=40, label="small", full=Size(10, 600, 3_000)) for n in SITES}
LARGE = {n: Spread((2,), sites=n, minutes=40, label="large", full=Size(10, 1_200, 6_000)) for n in SITES}
ALTERNATING = Spread((1,), sites=2, minutes=7.5, label="alternating load", full=Size(30, 600, 6_000), phase=10)
UNEVEN = Spread((3,), sites=3, minutes=60, weights=(4, 1, 1), label="two thirds on one site", full=Size(15, 800, 6_000))
BY_SITE = Spread((4, 1, 1), sites=3, minutes=60, label="ratios 4,1,1 by site", full=Size(30, 500, 6_000), by_site=True)

NONE, AUTO = "no relocation", "auto (ours)"
SPILLING = "local-output"
"""The paper's: groups of low output rate are pushed first."""

Judge = Callable[[Runs], Sequence[Finding]]
Draw = Callable[[Runs], Figure]


def in_the_end(made: Record) -> int:
    """What all sites hold after the last epoch."""
    return sum(sizes[-1] for sizes in made.memory)


def with_budget(
    setting: Setting, part: float, adaptations: Mapping[str, Treatment], judge: Judge, draw: Draw
) -> Callable[[Bench], Outcome]:
    """Measure policies with memory for a part of the state at each site."""

    def measure(bench: Bench) -> Outcome:
        free = bench.unlimited(setting)
        budget = round(part * in_the_end(free))
        runs = {name: bench.run(setting, _limited(each, budget)) for name, each in adaptations.items()}
        return outcome(bench, Runs(setting, budget, free, runs), judge, draw)

    return measure


def _limited(treatment: Treatment, budget: int) -> Treatment:
    return Treatment(SPILLING, 0.3, treatment.adaptation, treatment.theta_d, treatment.span, budget)


def outcome(bench: Bench, runs: Runs, judge: Judge, draw: Draw) -> Outcome:
    """Judge runs, but not those that are quick; all of them must be exact."""
    claims = [finding.unjudged() if bench.quick else finding for finding in judge(runs)]
    tables = {
        "runs": runs_table(runs.all),
        "output": output_table(runs.all),
        "memory": memory_table(runs.all),
        "moves": moves_table(runs.all),
    }
    return Outcome([*claims, exactness(runs)], tables, draw(runs), exact=not runs.wrong)


def moves_table(records: Mapping[str, Record]) -> Table:
    """Every move: when, from where to where, and how much."""
    rows = [
        (name, move.epoch, move.before, move.after, move.groups, move.bytes)
        for name, made in records.items()
        for move in made.moves
    ]
    return Table(("run", "epoch", "from_site", "to_site", "groups", "bytes"), rows)


def seconds(made: Record) -> float:
    """How long all epochs after the first took: that one starts workers and compiles."""
    return sum(made.epoch_ms[1:]) / 1000


def experiment(number: int, title: str, measure: Callable[[Bench], Outcome]) -> Experiment:
    """An experiment on several executors."""
    source = f"Lazy/Active, Figure {number}"
    return Experiment(f"lazy-{number:02}", source, title, measure, needs_cluster=True)
