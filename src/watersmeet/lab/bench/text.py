"""Numbers as people read them: quantities with their units, and tables of plain text."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal

Unit = Literal["s", "ms", "bytes", "files", "rows", "pairs"]
_SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def show(value: float, unit: Unit) -> str:
    """A quantity with its unit.

    >>> show(12.345, "s"), show(812.3, "ms"), show(3_500_000_000, "bytes"), show(12, "bytes"), show(7, "files")
    ('12.3 s', '812 ms', '3.5 GB', '12 B', '7 files')
    """
    if unit == "bytes":
        return _bytes(value)
    return f"{value:.1f} s" if unit == "s" else f"{value:,.0f} {unit}"


def _bytes(value: float) -> str:
    for name, size in _SIZES:
        if value >= size:
            return f"{value / size:.1f} {name}" if value < 100 * size else f"{value / size:.0f} {name}"
    return f"{value:.0f} B"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns: the first to the left, the others to the right.

    >>> print(*table([["a", "ours"], ["whole run", "3 s"]]), sep="|")
      a          ours|  whole run   3 s
    """
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  " + _row(row, widths) for row in rows]


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        text.ljust(width) if number == 0 else text.rjust(width)
        for number, (text, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([first, *rest]).rstrip()
