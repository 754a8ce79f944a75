"""`watersmeet reproduce`: the papers' experiments, on Spark inside the command, or in the simulator."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.output import Output, OutputOption, print_json, progress_console, reporting
from watersmeet.model.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from watersmeet.lab.reproduce.told import Report

DEFAULT_OUT = Path("out/reproduce")
SHORT_RUN = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""A quick run is over before Java's second compiler pays."""


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="The experiments to run.", show_default=False)] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Run all experiments; runs that they share are run once.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments without running any.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for the files; with several experiments, each has a folder of its name in it.",
            show_default="out/reproduce/NAME",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes; no claim is judged.")] = False,
    output: OutputOption = Output.text,
) -> None:
    """Run experiments of the papers again: their data, their queries, their strategies.

    Each writes its data as CSV and its picture as PNG and SVG, and tells what the paper claims, what was seen, and
    whether the claim held. Results of all runs are compared with those of a run without a budget; the exit code is 0
    only where all are exact. A claim that does not hold is a finding, not a failure.
    """
    with reporting(output):
        from watersmeet.lab.extra import require

        require("matplotlib", "the papers' experiments draw pictures")
        if listed:
            _list(output)
            return
        report = _run(_folders(list(names or ()), out, every=every), output, quick=quick)
        if output is Output.json:
            print_json(report.to_builtins())
        else:
            typer.echo("\n" + report.text())
    if not report.ok:
        raise typer.Exit(1)


def _list(output: Output) -> None:
    from watersmeet.lab.reproduce.experiments import EXPERIMENTS

    if output is Output.json:
        print_json([{"name": e.name, "source": e.source, "title": e.title} for e in EXPERIMENTS.values()])
        return
    for experiment in EXPERIMENTS.values():
        typer.echo(f"{experiment.name:<18}{experiment.source:<30}{experiment.title}")


def _folders(names: list[str], out: Path | None, *, every: bool) -> dict[str, Path]:
    """The experiments that are wanted, and where the files of each go."""
    from watersmeet.lab.reproduce.experiments import EXPERIMENTS
    from watersmeet.lab.reproduce.run import choose

    if not names and not every:
        raise OptionError(
            "no experiment is named",
            why="there are several, and some take minutes",
            how="name one, for example `watersmeet reproduce spill-16`, or use --list or --all",
        )
    chosen = [experiment.name for experiment in choose(list(EXPERIMENTS) if every else names)]
    if out is not None and len(chosen) == 1:
        return {chosen[0]: out}
    return {name: (out or DEFAULT_OUT) / name for name in chosen}


def _run(folders: dict[str, Path], output: Output, *, quick: bool) -> "Report":
    """Show a line for every run; on a terminal also the epoch that a run has come to."""
    from watersmeet.cli.session import spark_session
    from watersmeet.lab.reproduce.bench import CLUSTER_CONF, CLUSTER_MASTER, SPARK_CONF
    from watersmeet.lab.reproduce.experiments import EXPERIMENTS
    from watersmeet.lab.reproduce.run import reproduce as carry_out

    console = progress_console(output)
    conf = SPARK_CONF | SHORT_RUN if quick else SPARK_CONF
    if not any(EXPERIMENTS[name].needs_spark for name in folders):
        return carry_out(None, folders, lambda line: _say(console, line), quick=quick)
    on_cluster = any(EXPERIMENTS[name].needs_cluster for name in folders)  # then all are, as there is one session
    master, conf = (CLUSTER_MASTER, conf | CLUSTER_CONF) if on_cluster else ("local[2]", conf)
    with (
        spark_session(console, master=master, app_name="watersmeet-reproduce", conf=conf) as spark,
        console.status("Making the streams ...") as status,
    ):
        watch = status.update if console.is_terminal else None
        return carry_out(spark, folders, lambda line: _say(console, line), watch, quick=quick)


def _say(console: "Console", line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)
