"""The demo on a terminal: one picture that is drawn anew while epochs end."""

import time
from collections.abc import Sequence

from rich import box
from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from watersmeet.cli.demo.query import OPERATORS
from watersmeet.cli.demo.record import Record
from watersmeet.cli.output import size

SPARKS = "▁▂▃▄▅▆▇█"
SPARK_LIMIT = 40
WIDTH = 80
COLUMN_WIDTHS = (8, 18, 11, 11, 8, 11)
FIRST = "the first epoch takes longer: Spark starts its workers"


class View:
    """Shows a record as it is; `rich.live.Live` asks several times a second."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._started_s = time.monotonic()

    def __rich__(self) -> RenderableType:
        operators, sites = state_tables(self._record)
        numbers = _numbers(self._record) if self._record.epochs else Text(FIRST, style="dim")
        body = Group(self._headline(), "", numbers, "", operators, "", sites)
        return Panel(body, title="A ⋈ B ⋈ C ⋈ D ⋈ E", box=box.ROUNDED, width=WIDTH, padding=(0, 2))

    def _headline(self) -> RenderableType:
        done, total = len(self._record.epochs), self._record.sizes.epochs
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True, justify="right")
        elapsed = f"{time.monotonic() - self._started_s:.0f} s"
        grid.add_row(f"epoch {done} of {total}", ProgressBar(total, done), elapsed)
        return grid


def _numbers(record: Record) -> RenderableType:
    """Rows in and out, so far and a second, and the epochs' times."""
    last, last_s = record.epochs[-1], record.times_s[-1]
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(style="dim")
    grid.add_column(justify="right", min_width=11)
    grid.add_column(min_width=14)
    grid.add_row("rows in", f"{record.rows_in:,}", _rate(last.rows_in, last_s))
    grid.add_row("results", f"{record.results:,}", _rate(last.rows_out, last_s), verdict(record))
    grid.add_row("epoch time", f"{last_s:.2f} s", Text(sparkline(record.times_s[-SPARK_LIMIT:]), style="cyan"))
    if record.is_skewed:
        uneven = Text(sparkline(record.unevenness[-SPARK_LIMIT:]), style="magenta")
        grid.add_row("slowest site", f"{record.unevenness[-1]:.2f} x mean", uneven)
        grid.add_row("groups moved", f"{sum(record.moved):,}", _last_moved(record))
    return grid


def _last_moved(record: Record) -> str:
    """When groups have moved for the last time."""
    epochs = [epoch.epoch for epoch, count in zip(record.epochs, record.moved, strict=True) if count]
    return f"after epoch {epochs[-1]}" if epochs else "none so far"


def _rate(rows: int, last_s: float) -> str:
    return f"{rows / max(last_s, 0.001):,.0f} a second"


def verdict(record: Record) -> Text:
    """Whether the results so far are as many as there must be."""
    if record.wrong:
        return Text("✗ wrong", style="bold red")
    return Text("✓ exact" if record.epochs else "", style="green")


def state_tables(record: Record) -> tuple[Table, Table]:
    """The state by operator and by site, column under column."""
    return _operators(record), _sites(record)


def _operators(record: Record) -> Table:
    table = _table("operator", "joined on", "results")
    states = record.epochs[-1].operators if record.epochs else ()
    largest = max((state.state_bytes for state in states), default=0)
    for place, state in enumerate(states):
        results = sum(epoch.operators[place].rows_out for epoch in record.epochs)
        start = (state.operator, OPERATORS.get(state.operator, ""), f"{results:,}")
        table.add_row(*start, *_state(state.state_rows, state.state_bytes, largest, "cyan"))
    return table


def _sites(record: Record) -> Table:
    table = _table("site", "groups", "busy")
    largest = max((site.state_bytes for site in record.sites), default=0)
    for site in record.sites:
        start = (str(site.site), f"{site.groups:,}", f"{site.busy_ms / 1000:.2f} s")
        table.add_row(*start, *_state(site.state_rows, site.state_bytes, largest, "magenta"))
    return table


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for place, (name, width) in enumerate(zip((*names, "state rows", "state", ""), COLUMN_WIDTHS, strict=True)):
        table.add_column(name, width=width, justify="right" if 2 <= place <= 4 else "left", no_wrap=True)  # noqa: PLR2004
    return table


def _state(rows: int, count: int, largest: int, colour: str) -> tuple[str, str, Bar]:
    return f"{rows:,}", size(count), Bar(max(1, largest), 0, count, width=COLUMN_WIDTHS[-1] - 1, color=colour)


def sparkline(values: Sequence[float]) -> str:
    """Values as a row of bars.

    >>> sparkline([1, 4, 8])
    '▁▄█'
    """
    most = max(values, default=0)
    return "".join(SPARKS[max(0, round(value / most * len(SPARKS)) - 1)] for value in values) if most else ""
