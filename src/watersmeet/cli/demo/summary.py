"""The end of the demo: what came in, what came out, whether it is exact, and where to look further."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from watersmeet.cli.demo.query import OPERATORS
from watersmeet.cli.demo.record import Record
from watersmeet.cli.output import size


def as_values(record: Record, picture: Path | None) -> dict[str, object]:
    """The summary for programs."""
    return {
        "query": list(OPERATORS.values()),
        "sizes": record.sizes,
        "rowsIn": record.rows_in,
        "results": record.results,
        "expectedResults": record.expected[-1],
        "exact": record.exact,
        "medianEpochMs": round(record.median_s * 1000),
        "longestEpochMs": round(record.longest_s * 1000),
        "checkpoint": record.checkpoint,
        "picture": str(picture) if picture else None,
        "sites": record.sites,
        "groupsMoved": record.moved,
        "groupsBySite": record.placed,
        "slowestSiteOverMean": [round(value, 3) for value in record.unevenness],
        "epochs": record.epochs,
    }


def show(console: Console, record: Record, picture: Path | None) -> None:
    """The summary for people."""
    total_s = sum(record.times_s) or 1.0
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("rows in", f"{record.rows_in:,} ({record.rows_in / total_s:,.0f} a second)")
    grid.add_row("results", f"{record.results:,} ({record.results / total_s:,.0f} a second)")
    grid.add_row("epochs", f"{len(record.epochs)}, median {record.median_s:.2f} s, longest {record.longest_s:.2f} s")
    grid.add_row("state", f"{record.epochs[-1].state_rows:,} rows, {size(record.epochs[-1].state_bytes)}")
    if record.is_skewed:
        grid.add_row("moves", _moves(record))
    if picture is not None:
        grid.add_row("picture", str(picture))
    grid.add_row("checkpoint", record.checkpoint)
    grid.add_row("", f"look into it: watersmeet state {record.checkpoint}")
    console.print(grid)
    console.print(_verdict(record), soft_wrap=True)


def _moves(record: Record) -> str:
    """What moved, and whether the sites are level after it."""
    if not sum(record.moved):
        return "none: it did not pay, or the run was too short to tell"
    epochs = [str(epoch.epoch) for epoch, count in zip(record.epochs, record.moved, strict=True) if count]
    told = f"{sum(record.moved):,} groups, after epoch {', '.join(epochs)}"
    if record.unevenness_by_moves is None:
        return told
    before, after = record.unevenness_by_moves
    return f"{told}; the slowest site was busy {before:.2f} times as long as the mean before, {after:.2f} times after"


def _verdict(record: Record) -> Text:
    expected = record.expected[-1]
    if record.exact:
        proof = "after every epoch as many results as a count without joining gives"
        return Text(f"✓ exact: {proof}, {expected:,} in the end", style="bold green")
    since = f" since epoch {record.wrong[0]}" if record.wrong else f" after {len(record.epochs)} epochs"
    return Text(f"✗ wrong{since}: {record.results:,} results, and there must be {expected:,}", style="bold red")
