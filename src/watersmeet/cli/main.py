"""The program ``watersmeet``: its commands, and nothing that takes time to load."""

from importlib.metadata import version
from typing import Annotated

import typer

from watersmeet.cli.bench import bench
from watersmeet.cli.demo.command import demo
from watersmeet.cli.events import events
from watersmeet.cli.reproduce import reproduce
from watersmeet.cli.run import run
from watersmeet.cli.state import state

app = typer.Typer(
    name="watersmeet",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, run, reproduce, state, events, bench):
    app.command()(command)


def _tell_version(wanted: bool) -> None:  # noqa: FBT001 -- typer hands the flag over so
    if wanted:
        typer.echo(f"watersmeet {version('watersmeet')}")
        raise typer.Exit


@app.callback()
def _watersmeet(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Continuous multi-way joins on Apache Spark: exact results, adapting while they run."""


def main() -> None:
    """Run the command of the command line."""
    app()
