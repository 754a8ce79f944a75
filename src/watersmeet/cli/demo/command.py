"""The command: make the streams, run the query, watch it, count again, draw."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.output import Output, OutputOption, print_json, progress_console, reporting
from watersmeet.model.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from watersmeet.api.query import Query
    from watersmeet.cli.demo.query import Sizes
    from watersmeet.cli.demo.record import Record
    from watersmeet.cli.epochs import Stop

SHORT_RUN = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""A short run is over before Java's second compiler pays: leaving it out saves a quarter of the demo's work."""


def demo(
    epochs: Annotated[int, typer.Option(min=1, help="How many epochs the streams last.")] = 12,
    rows: Annotated[int, typer.Option(min=1, help="Rows of each of the five streams in an epoch.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same streams.")] = 1,
    sites: Annotated[
        int | None, typer.Option(min=1, help="Sites the state is spread over.", show_default="one a core")
    ] = None,
    *,
    skew: Annotated[
        bool, typer.Option("--skew", help="All groups start on one of two or more sites; watch them move.")
    ] = False,
    output: OutputOption = Output.text,
    picture: Annotated[Path, typer.Option(help="Where to draw the picture of the run.")] = Path("out/demo.png"),
) -> None:
    """Join five generated streams on this machine, and watch it.

    The query is the five-way join of the papers: A.a1 = B.b1 = C.c1, then C.c2 = D.d1, then D.d2 = E.e1. Spark is
    started inside the command. At the end the number of results is compared with a count computed without a join; the
    exit code is 1 where they differ. The checkpoint stays, so that its state can be inspected. The picture needs
    the extra ``watersmeet[lab]``; without it there is none.

    With --skew one site has all the work at first. Groups move while the query runs, and the others get their share.
    """
    with reporting(output):
        from watersmeet.cli.demo.query import Sizes

        drawn = _drawn(picture, output)
        _check_sites(sites, skew=skew)
        record, stop = _run(Sizes(epochs, rows, seed), sites, output, skew=skew)
        if stop:
            progress_console(output).print(f"stopped after {len(record.epochs)} of {epochs} epochs")
        else:
            _finish(record, drawn, output)
    if stop or not record.exact:
        raise typer.Exit(stop.exit_code or 1)


def _check_sites(sites: int | None, *, skew: bool) -> None:
    if skew and sites == 1:
        raise OptionError("--sites is 1", why="with --skew groups move between sites", how="give two or more, or none")


def _drawn(picture: Path, output: Output) -> Path | None:
    """Where the picture is going to be; None, and a word about it, where nothing can draw it."""
    from watersmeet.lab.extra import INSTALL, is_installed

    if is_installed("matplotlib"):
        return picture
    line = f"there will be no picture, as matplotlib is not installed; for one, run: {INSTALL}"
    progress_console(output).print(line, markup=False, soft_wrap=True)
    return None


def _run(sizes: "Sizes", sites: int | None, output: Output, *, skew: bool) -> "tuple[Record, Stop]":
    from watersmeet.cli.demo.exact import results_after_each_epoch
    from watersmeet.cli.demo.query import make_streams, start
    from watersmeet.cli.demo.record import Record
    from watersmeet.cli.epochs import stop_on_signals
    from watersmeet.cli.session import spark_session
    from watersmeet.state.versions import VersionStore
    from watersmeet.storage.open import open_storage

    console = progress_console(output)
    with spark_session(console, app_name="watersmeet-demo", conf=SHORT_RUN) as spark:
        with console.status("Making the streams ..."):
            streams = make_streams(sizes)
            expected = results_after_each_epoch(streams)
        checkpoint = Path(tempfile.mkdtemp(prefix="watersmeet-demo-"))
        store = VersionStore(open_storage(str(checkpoint / "state")))
        record = Record(sizes, str(checkpoint), expected, store, is_skewed=skew)
        with stop_on_signals() as stop:
            with console.status("Starting the query ..."):
                query = start(spark, streams, sites, checkpoint, is_skewed=skew)
            _watch(query, record, stop, console, output)
    return record, stop


def _watch(query: "Query", record: "Record", stop: "Stop", console: "Console", output: Output) -> None:
    """Draw on a terminal; elsewhere write a line for every epoch, and nothing beside JSON."""
    from rich.live import Live

    from watersmeet.cli.demo.view import View
    from watersmeet.cli.epochs import follow

    if console.is_terminal:
        with Live(View(record), console=console, refresh_per_second=5):
            for epoch in follow(query, stop):
                record.add(epoch)
        return
    for epoch in follow(query, stop):
        record.add(epoch)
        if output is Output.text:
            told = f", {record.moved[-1]} groups move" if record.moved[-1] else ""
            console.print(f"{epoch.line()}{told}", markup=False, soft_wrap=True)


def _finish(record: "Record", picture: Path | None, output: Output) -> None:
    from watersmeet.cli.demo.summary import as_values, show
    from watersmeet.cli.demo.view import state_tables

    if picture is not None:
        from watersmeet.cli.demo.picture import draw

        draw(record, picture)
    if output is Output.json:
        print_json(as_values(record, picture))
        return
    console = progress_console(output)
    if not console.is_terminal:
        console.print("", *state_tables(record), "", sep="\n")
    show(console, record, picture)
