"""`watersmeet run`: runs a query that is described in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.output import Output, OutputOption, plain_warnings, print_json, progress_console, reporting

if TYPE_CHECKING:
    from rich.console import Console

    from watersmeet.api.query import Query
    from watersmeet.cli.epochs import Epoch, Stop
    from watersmeet.cli.query_tables import QueryFile


def run(
    file: Annotated[Path, typer.Argument(help="The query: a TOML file.", show_default=False)],
    output: OutputOption = Output.text,
) -> None:
    """Run a query that is described in a TOML file, and show its epochs.

    The file has a table `[streams.NAME]` for every stream (format, path, schema, where, time, window, watermark,
    unique, options), `[[joins]]` for every join (inputs, on, how, name) and a `[sink]` (format, path, partition_by,
    query_name, output_mode, options). It may have where, group_by, over, aggregate, having, select and distinct above
    the tables, `[punctuations.NAME]` for streams (format, path, schema, where, select, options), and `[options]`,
    `[trigger]` (available_now or processing_time) and `[spark]` (master, app_name, conf). Relative paths start at the
    file's folder.

    Ctrl-C stops the query cleanly; run the file again to continue from its checkpoint. With --output json every epoch
    is a line of JSON, and the last line is a summary.
    """
    with reporting(output):
        from watersmeet.cli.query_file import load

        stopped_by = _run(load(file), output)
    if stopped_by:
        raise typer.Exit(stopped_by.exit_code)


def _run(file: "QueryFile", output: Output) -> "Stop":
    from watersmeet.cli.epochs import stop_on_signals
    from watersmeet.cli.query_spark import writer_of
    from watersmeet.cli.session import spark_session

    console = progress_console(output)
    with spark_session(console, file.spark.master, file.spark.app_name, file.spark.settings) as spark:
        with plain_warnings():
            writer = writer_of(spark, file)
        with stop_on_signals() as stop:
            with plain_warnings():
                query = writer.start()
            _tell_start(console, query, file)
            epochs = _watch(query, stop, console, output)
            _tell_end(epochs, stop, console, output)
    return stop


def _tell_start(console: "Console", query: "Query", file: "QueryFile") -> None:
    trigger = file.trigger
    how = "until all input is joined" if trigger and trigger.available_now else "until it is stopped: Ctrl-C"
    if console.is_terminal:
        console.print(f"Query {query.name or query.id} runs {how}", style="dim", markup=False, soft_wrap=True)


def _watch(query: "Query", stop: "Stop", console: "Console", output: Output) -> "list[Epoch]":
    from watersmeet.cli.epochs import follow

    epochs = []
    for epoch in follow(query, stop):
        epochs.append(epoch)
        if output is Output.json:
            print_json(epoch)
        else:
            console.print(epoch.line(), markup=False, soft_wrap=True)
    return epochs


def _tell_end(epochs: "list[Epoch]", stop: "Stop", console: "Console", output: Output) -> None:
    rows_in, rows_out = sum(epoch.rows_in for epoch in epochs), sum(epoch.rows_out for epoch in epochs)
    if output is Output.json:
        total = {"epochs": len(epochs), "rowsIn": rows_in, "rowsOut": rows_out, "stopped": bool(stop)}
        print_json({"summary": total})
    elif epochs:
        end = "stopped" if stop else "done"
        console.print(f"{end}: {rows_in:,} rows in, {rows_out:,} results in {len(epochs):,} epochs")
    else:
        console.print("stopped before the first epoch" if stop else "done: there was no new input")
