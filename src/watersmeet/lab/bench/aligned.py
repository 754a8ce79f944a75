"""Tables of plain text."""

from collections.abc import Sequence
from itertools import zip_longest


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
