"""The demo as a picture: what went in and out, how the state grew or moved, and where the time went."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, MaxNLocator

from watersmeet.cli.demo.query import OPERATORS
from watersmeet.cli.demo.record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUES = ("#c6dbef", "#6baed6", "#2171b5")
ORANGE, GREY = "#e6550d", "#636363"
SITES = ("#2171b5", "#e6550d", "#31a354", "#756bb1")
STEPS = {"run": "#2171b5", "plan": "#9ecae1", "rest": "#d9d9d9"}


def draw(record: Record, path: Path) -> None:
    """Write the picture as a PNG, or whatever the path's ending says."""
    figure = Figure(figsize=(11, 8.5), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    panels = (_busy, _placed, _rows, _times) if record.is_skewed else (_rows, _state, _times)
    places = figure.subplots(len(panels), 1, sharex=True, height_ratios=(*[3] * (len(panels) - 1), 2))
    for axes, panel in zip(places, panels, strict=True):
        panel(axes, record)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#eeeeee")
        axes.set_axisbelow(True)
    places[-1].set_xlabel("epoch")
    places[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.suptitle(_headline(record), fontsize=14, fontweight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _headline(record: Record) -> str:
    check = "exact" if record.exact else "NOT EXACT"
    return f"A ⋈ B ⋈ C ⋈ D ⋈ E: {record.rows_in:,} rows in, {record.results:,} results, {check}"


def _busy(axes: "Axes", record: Record) -> None:
    """How long every site was busy, side by side; a line where groups have moved."""
    sites = len(record.sites)
    width = 0.8 / sites
    for site in range(sites):
        places = [epoch.epoch + (site - (sites - 1) / 2) * width for epoch in record.epochs]
        heights = [epoch.busy_ms_by_site[site] / 1000 for epoch in record.epochs]
        axes.bar(places, heights, width=width, color=SITES[site % len(SITES)], label=f"site {site}")
    _mark_moves(axes, record)
    axes.set_ylabel("seconds")
    axes.set_title("How long every site was busy", loc="left")
    axes.legend(frameon=False, loc="upper left", ncols=2)


def _placed(axes: "Axes", record: Record) -> None:
    """Groups by site, one on the other."""
    bottom = [0] * len(record.epochs)
    for site in range(len(record.sites)):
        heights = [placed[site] for placed in record.placed]
        numbers = [epoch.epoch for epoch in record.epochs]
        axes.bar(numbers, heights, bottom=bottom, width=0.8, color=SITES[site % len(SITES)], label=f"site {site}")
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    _mark_moves(axes, record)
    axes.set_title("Groups of each site after every epoch", loc="left")


def _mark_moves(axes: "Axes", record: Record) -> None:
    """A move takes effect between two epochs."""
    label = "groups move"
    for epoch, count in zip(record.epochs, record.moved, strict=True):
        if count:
            axes.axvline(epoch.epoch + 0.5, color=ORANGE, ls="--", label=label)
            label = "_"


def _rows(axes: "Axes", record: Record) -> None:
    """Rows of an epoch, in and out, on a logarithmic axis: a join multiplies."""
    numbers = [epoch.epoch for epoch in record.epochs]
    axes.bar(numbers, [epoch.rows_out for epoch in record.epochs], color=BLUES[1], width=0.7, label="results")
    axes.plot(numbers, [epoch.rows_in for epoch in record.epochs], color=ORANGE, marker="o", ms=4, label="rows in")
    exact = [after - before for before, after in pairwise([0, *record.expected[: len(numbers)]])]
    axes.plot(numbers, exact, color="black", ls="", marker="_", ms=22, label="results by another count")
    axes.set_yscale("symlog", linthresh=10)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_title("Rows in and results of each epoch", loc="left")
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0)


def _state(axes: "Axes", record: Record) -> None:
    """State by operator, one on the other."""
    numbers = [epoch.epoch for epoch in record.epochs]
    names = [state.operator for state in record.epochs[-1].operators]
    sizes = [[epoch.operators[place].state_bytes for epoch in record.epochs] for place in range(len(names))]
    labels = [f"{name}: {OPERATORS.get(name, '')}" for name in names]
    axes.stackplot(numbers, sizes, labels=labels, colors=BLUES)
    axes.yaxis.set_major_formatter(EngFormatter(unit="B"))
    axes.set_title("State of each operator", loc="left")
    axes.legend(frameon=False, loc="upper left", reverse=True)


def _times(axes: "Axes", record: Record) -> None:
    """Time of each epoch by step; the rest is Spark's own: offsets, reading, triggers."""
    numbers = [epoch.epoch for epoch in record.epochs]
    run, plan = ([epoch.time_ms_by_step.get(step, 0) / 1000 for epoch in record.epochs] for step in ("run", "plan"))
    rest = [max(0.0, total - a - b) for total, a, b in zip(record.times_s, run, plan, strict=True)]
    bottom = [0.0] * len(numbers)
    for (step, colour), heights in zip(STEPS.items(), (run, plan, rest), strict=True):
        axes.bar(numbers, heights, bottom=bottom, color=colour, width=0.7, label=step)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.axhline(record.median_s, color=GREY, lw=1, ls="--", label=f"median {record.median_s:.2f} s")
    axes.set_ylabel("seconds")
    axes.set_title("Time of each epoch", loc="left")
    axes.legend(frameon=False, loc="upper right", ncols=4)
