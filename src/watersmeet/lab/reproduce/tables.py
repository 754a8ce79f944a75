"""The data behind the pictures, as CSV."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from watersmeet.lab.reproduce.record import Record

Cell = str | int | float


@dataclass(frozen=True)
class Table:
    """Columns and rows."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]

    def write(self, path: Path) -> None:
        """Write the table as a CSV file."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(self.rows)


def runs_table(records: Mapping[str, Record]) -> Table:
    """One row a run: everything there is a number for."""
    columns = (
        "run",
        "spills",
        "results_run_time",
        "results_cleanup",
        "inner_rows_cleanup",
        "read_bytes_cleanup",
        "cleanup_ms",
    )
    return Table(columns, [(name, *_numbers(made)) for name, made in records.items()])


def _numbers(made: Record) -> tuple[int, ...]:
    cleanup = made.cleanup
    return (
        len(made.spills),
        made.results,
        cleanup.results,
        cleanup.inner_rows,
        cleanup.read_bytes,
        cleanup.time_ms,
    )


def output_table(records: Mapping[str, Record]) -> Table:
    """One row an epoch: the results so far of every run."""
    cumulative = zip(*(made.cumulative for made in records.values()), strict=True)
    return Table(("epoch", *records), [(epoch, *row) for epoch, row in enumerate(cumulative, start=1)])


def memory_table(records: Mapping[str, Record]) -> Table:
    """The points of every zig-zag: an epoch that spilled has two."""
    rows = [
        (name, site, epoch, size)
        for name, made in records.items()
        for site in range(len(made.memory))
        for epoch, size in made.zigzag(site)
    ]
    return Table(("run", "site", "epoch", "live_bytes"), rows)
