"""Pictures in the papers' form: results over time, memory over time, bars."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter

from watersmeet.lab.reproduce.record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from watersmeet.lab.reproduce.experiment import Runs

COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
MARKERS = ("o", "s", "^", "v", "D", "P")
GREY = "#7f7f7f"
MARKED = 10
"""About so many marks on a line."""
TIME = "minutes of arrivals"


def output_over_time(runs: "Runs", records: Mapping[str, Record], title: str) -> Figure:
    """Results at run time, added up."""
    figure, axes = _new(title)
    for (name, made), (colour, marker) in zip(records.items(), _styles(), strict=False):
        times = [runs.minute(epoch) for epoch in range(len(made.output) + 1)]
        label = f"{name}: {_short(made.results)}"
        every = max(1, len(times) // MARKED)
        axes.plot(times, [0, *made.cumulative], label=label, color=colour, marker=marker, markevery=every)
    axes.set_ylabel("results so far")
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel(TIME)
    axes.legend(frameon=False, loc="upper left")
    _note(axes, f"{_short(runs.unlimited.total)} results without a budget")
    return figure


def memory_over_time(runs: "Runs", records: Mapping[str, Record], title: str) -> Figure:
    """Live state of the first site; each zig down is a spill."""
    figure, axes = _new(title)
    for (name, made), (colour, _) in zip(records.items(), _styles(), strict=False):
        epochs, sizes = zip(*made.zigzag(0), strict=True)
        label = f"{name}: {made.spills_at(0)} spills" if made.spills else name
        axes.plot([runs.minute(epoch) for epoch in epochs], sizes, label=label, color=colour, lw=1.5)
    axes.axhline(runs.threshold_bytes, color=GREY, ls="--", lw=1, label="threshold")
    axes.set_ylabel("live state of site 0")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(EngFormatter(unit="B"))
    axes.set_xlabel(TIME)
    axes.legend(frameon=False, loc="upper left")
    return figure


def state_over_time(records: Mapping[str, Record], minutes: float, title: str) -> Figure:
    """Rows of state of all sites together."""
    figure, axes = _new(title)
    for (name, made), (colour, marker) in zip(records.items(), _styles(), strict=False):
        rows = made.state_rows
        times = [minutes * epoch / len(rows) for epoch in range(1, len(rows) + 1)]
        axes.plot(times, rows, label=name, color=colour, marker=marker, markevery=max(1, len(times) // MARKED))
    axes.set_ylabel("rows of state")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel(TIME)
    axes.legend(frameon=False, loc="upper left")
    return figure


def bars(panels: Mapping[str, Mapping[str, float]], title: str) -> Figure:
    """A panel for every quantity, a bar for every run."""
    figure = Figure(figsize=(8.5, 3.2), layout=ConstrainedLayoutEngine())
    places = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (quantity, values) in zip(places, panels.items(), strict=True):
        drawn = axes.barh(list(values), list(values.values()), color=COLOURS[: len(values)])
        axes.bar_label(drawn, labels=[_short(value) for value in values.values()], padding=2, fontsize=8)
        axes.margins(x=0.25)
        axes.set_title(quantity, fontsize=9)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    places[0].invert_yaxis()
    figure.suptitle(title, fontsize=11)
    return figure


def lines(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str,
    across: str,
    up: str,
    *,
    log: bool = False,
) -> Figure:
    """A line for every name: places across, and values."""
    figure, axes = _new(title)
    for (name, (places, values)), (colour, marker) in zip(series.items(), _styles(), strict=False):
        every = max(1, len(places) // MARKED)
        axes.plot(places, values, label=name, color=colour, marker=marker, markevery=every)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend(frameon=False)
    return figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a picture as PNG and SVG."""
    files = [folder / f"{name}.png", folder / f"{name}.svg"]
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "watersmeet"}):  # the same picture is the same file
        figure.savefig(files[0], dpi=120)
        figure.savefig(files[1], metadata={"Date": None})
    return files


def _new(title: str) -> "tuple[Figure, Axes]":
    figure = Figure(figsize=(7.5, 4.4), layout=ConstrainedLayoutEngine())
    axes = figure.subplots()
    axes.set_title(title, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)
    axes.set_xmargin(0.01)
    return figure, axes


def _styles() -> Iterator[tuple[str, str]]:
    return zip(COLOURS, MARKERS, strict=True)


def _note(axes: "Axes", text: str) -> None:
    axes.text(0.99, 0.02, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=8, color=GREY)


def _short(count: float) -> str:
    """A number with three digits and a unit.

    >>> _short(426_632), _short(57)
    ('427k', '57')
    """
    return EngFormatter(sep="", places=None)(float(f"{count:.3g}"))
