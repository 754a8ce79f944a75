"""`watersmeet bench`: the benchmarks of the lab."""

from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.output import Output, OutputOption, progress_console, reporting


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="The benchmarks to run; by default all but spill.")] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes; only the counts are judged.")] = False,
    output: OutputOption = Output.text,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON to this file too.")] = None,
) -> None:
    """Run the benchmarks and compare them with the project's targets.

    The exit code is 0 only if all targets are met.
    """
    with reporting(output):
        from watersmeet.lab.bench.run import run_bench

        console = progress_console(output)
        report = run_bench(list(names or ()), quick, lambda line: console.print(line, markup=False, soft_wrap=True))
        typer.echo(report.to_json() if output is Output.json else report.text())
        if json is not None:
            json.parent.mkdir(parents=True, exist_ok=True)
            json.write_text(report.to_json() + "\n")
    if not report.ok:
        raise typer.Exit(1)
