"""Quantities as people read them."""

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
