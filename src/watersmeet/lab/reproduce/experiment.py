"""An experiment: how to measure it, and what comes out.

Most compare treatments of one setting: `compare` makes the runs, checks that all are exact, and leaves to the
experiment what the claims are and how it is drawn. Another kind of experiment brings its own ``measure``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.record import Record
from watersmeet.lab.reproduce.setting import Setting, Treatment
from watersmeet.lab.reproduce.tables import Table, memory_table, output_table, runs_table

UNLIMITED_NAME = "unlimited"


@dataclass(frozen=True)
class Runs:
    """The treatments of one setting by name, and the run without a budget beside them."""

    setting: Setting
    threshold_bytes: int
    unlimited: Record
    treated: Mapping[str, Record]

    def __getitem__(self, name: str) -> Record:
        return self.treated[name]

    def only(self, *names: str) -> dict[str, Record]:
        """Some of the treatments."""
        return {name: self.treated[name] for name in names}

    @property
    def all(self) -> dict[str, Record]:
        """The unlimited run first."""
        return {UNLIMITED_NAME: self.unlimited, **self.treated}

    @property
    def wrong(self) -> list[str]:
        """Runs whose results are not those of the unlimited run."""
        return [name for name, made in self.all.items() if not made.equals(self.unlimited)]

    def minute(self, epoch: int) -> float:
        """The paper's time at the end of an epoch."""
        return self.setting.minutes * epoch / len(self.unlimited.output)


@dataclass(frozen=True)
class Outcome:
    """What an experiment gave."""

    findings: Sequence[Finding]
    tables: Mapping[str, Table]
    figure: Figure
    exact: bool


@dataclass(frozen=True)
class Experiment:
    """One figure or number of a paper; those in the simulator need no Spark, some need several executors."""

    name: str
    source: str
    title: str
    measure: Callable[[Bench], Outcome]
    needs_spark: bool = True
    needs_cluster: bool = False


Judge = Callable[[Runs], Sequence[Finding]]
Draw = Callable[[Runs], Figure]


def compare(
    setting: Setting, treatments: Mapping[str, Treatment], judge: Judge, draw: Draw
) -> Callable[[Bench], Outcome]:
    """Measure treatments of one setting against each other and against none."""

    def measure(bench: Bench) -> Outcome:
        budget = setting.budget_bytes(quick=bench.quick)
        unlimited = bench.unlimited(setting)
        runs = Runs(setting, budget, unlimited, bench.runs(setting, treatments))
        tables = {"runs": runs_table(runs.all), "output": output_table(runs.all), "memory": memory_table(runs.all)}
        claims = [finding.unjudged() if bench.quick else finding for finding in judge(runs)]
        return Outcome([*claims, exactness(runs)], tables, draw(runs), exact=not runs.wrong)

    return measure


def exactness(runs: Runs) -> Finding:
    """That no run's results are others."""
    seen = f"the same {runs.unlimited.total:,} results in all {len(runs.all)} runs"
    if runs.wrong:
        seen = f"other results in {', '.join(runs.wrong)}"
    claim = "Run-time and cleanup results together are exactly those of a run without a budget."
    return Finding(claim, seen, not runs.wrong)
