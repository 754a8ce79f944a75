"""Carry experiments out one after the other; what several need is run once. Each gets a folder with its files.

NAME.png, NAME.svg   the picture
runs.csv             one row a run: spills, results, cost of the cleanup
output.csv           results so far of every run, by epoch
memory.csv           live bytes of every run and site, by epoch, before and after each spill
moves.csv            on several sites: every move of groups
state.csv            where nothing is spilled, instead: rows of state of every run, by epoch
report.json          claims, what was seen, verdicts
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from watersmeet.lab.reproduce.bench import Bench, Say
from watersmeet.lab.reproduce.experiment import Experiment, Outcome
from watersmeet.lab.reproduce.experiments import EXPERIMENTS
from watersmeet.lab.reproduce.figures import save
from watersmeet.lab.reproduce.told import ExperimentReport, Report
from watersmeet.model.errors import OptionError, nearest


def choose(names: Sequence[str]) -> list[Experiment]:
    """The experiments of some names, each once, in the order of the list.

    >>> [each.name for each in choose(["lazy-09", "spill-16", "lazy-09"])]
    ['spill-16', 'lazy-09']
    >>> choose(["spill-61"])
    Traceback (most recent call last):
    watersmeet.model.errors.OptionError: [OptionError] there is no experiment spill-61: ...
    """
    for name in names:
        if name not in EXPERIMENTS:
            raise OptionError(
                f"there is no experiment {name}",
                why="`watersmeet reproduce --list` has them all",
                how=nearest(name, EXPERIMENTS),
            )
    return [experiment for name, experiment in EXPERIMENTS.items() if name in names]


def reproduce(
    spark: SparkSession | None,
    folders: dict[str, Path],
    say: Say,
    watch: Say | None = None,
    *,
    quick: bool = False,
) -> Report:
    """Carry out the experiments that have a folder; ``quick`` takes tiny sizes and judges no claims.

    Those in the simulator need no Spark.
    """
    told = []
    with tempfile.TemporaryDirectory(prefix="watersmeet-reproduce-", ignore_cleanup_errors=True) as work:
        bench = Bench(spark, Path(work), say, watch, quick=quick)
        for experiment in choose(list(folders)):
            outcome = experiment.measure(bench)
            told.append(_write(experiment, outcome, folders[experiment.name]))
    return Report(tuple(told), quick)


def _write(experiment: Experiment, outcome: Outcome, folder: Path) -> ExperimentReport:
    folder.mkdir(parents=True, exist_ok=True)
    files = save(outcome.figure, folder, experiment.name)
    for name, table in outcome.tables.items():
        files.append(folder / f"{name}.csv")
        table.write(files[-1])
    names = tuple(str(file) for file in [*files, folder / "report.json"])
    about, findings = (experiment.name, experiment.source, experiment.title), tuple(outcome.findings)
    report = ExperimentReport(*about, outcome.exact, findings, names)
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    return report
