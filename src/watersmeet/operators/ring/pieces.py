"""Some rows of one input, the values that ranges speak of, and ranges of them: what a ring's rows are found by.

Numbers and times are numbers. Of texts, the first `WIDTH` bytes stand for all that begins with them: the least of these
is that text, the most is filled up with a byte that no text has. UTF-8 keeps the order of texts.
"""

from dataclasses import dataclass, field
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.join.lives import Times, as_numbers
from watersmeet.operators.ranges import Index
from watersmeet.operators.spec import LifeSpec

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Texts = npt.NDArray[np.bytes_]
Values = Numbers | Texts
Mask = npt.NDArray[np.bool_]

WIDTH = 32
"""So many bytes of a text are sorted; what differs later is told apart by the test itself."""

DIGITS_IN_LONG = 18
"""Decimals of so many digits are whole numbers of 64 bits, but for their point."""

BEGIN, END = "#begin", "#end"

LEAST_TEXT, MOST_TEXT = "\0", "\1"
"""At the end of a column's name: the least and the most of the texts that begin with its values."""


@dataclass(frozen=True)
class Range:
    """The values from ``low`` to ``high`` for each probing row; None is no limit.

    A limit itself is in the range unless it is ``excluded``. ``never`` are the rows that nothing can be found for.
    """

    low: Values | None = None
    high: Values | None = None
    low_excluded: bool = False
    high_excluded: bool = False
    never: Mask | None = None


@dataclass(frozen=True)
class Piece:
    """Some rows of one input, and the values that ranges speak of, made when they are first asked for."""

    rows: pa.RecordBatch
    count: int
    life: LifeSpec | None = None
    _values: dict[str, Values | None] = field(default_factory=dict)

    def numbers(self, name: str) -> Numbers | None:
        """A column, or when rows begin or end, as numbers; None if it is not made of such."""
        values = self.values(name)
        return None if values is None or values.dtype.kind == "S" else cast("Numbers", values)

    def values(self, name: str) -> Values | None:
        """A column, or when rows begin or end, as what can be sorted; None if it cannot."""
        if name not in self._values:
            self._values[name] = self._made(name)
        return self._values[name]

    def times(self) -> Index:
        """When the rows begin."""
        times: Index = np.asarray(self.values(BEGIN), dtype=np.int64)
        return times

    def valid(self, name: str) -> Mask | None:
        """Which rows have a value; None is all."""
        column = name.rstrip(LEAST_TEXT + MOST_TEXT)
        if name in (BEGIN, END) or not self.rows.column(column).null_count:
            return None
        valid: Mask = self.rows.column(column).is_valid().to_numpy(zero_copy_only=False)
        return valid

    def _made(self, name: str) -> Values | None:
        if name.endswith((LEAST_TEXT, MOST_TEXT)):
            return padded(self.rows.column(name[:-1]), with_most=name.endswith(MOST_TEXT))
        if name not in (BEGIN, END):
            return numbers_of(self.rows.column(name))
        if self.life is None:
            return None
        times = Times.of(self.rows, self.life)
        return times.begin if name == BEGIN else times.ends()


def numbers_of(column: pa.Array) -> Numbers | None:
    """Values in an order that numbers keep; nulls are anything. None for types without such numbers.

    >>> numbers_of(pa.array([3, None], pa.int8())).tolist(), numbers_of(pa.array(["a"]))
    ([3, 0], None)
    >>> from decimal import Decimal
    >>> numbers_of(pa.array([Decimal("-0.05"), Decimal("1.5")], pa.decimal128(12, 2))).tolist()
    [-5, 150]
    """
    kind = column.type
    if pa.types.is_decimal128(kind):
        return _unscaled(column) if kind.precision <= DIGITS_IN_LONG else None
    if pa.types.is_floating(kind):
        floats: Numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return floats
    if pa.types.is_timestamp(kind):
        return as_numbers(column.fill_null(pa.scalar(0, kind)))
    if pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif not pa.types.is_integer(kind):
        return None
    whole: Numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return whole


def _unscaled(column: pa.Array) -> Numbers:
    """Decimals of one scale as whole numbers: of the 16 bytes of each, those that so few digits take."""
    halves = np.frombuffer(column.buffers()[1], np.int64) if len(column) else np.empty(0, np.int64)
    values: Numbers = halves[2 * column.offset : 2 * (column.offset + len(column)) : 2]
    return values


def is_text(kind: pa.DataType) -> bool:
    """Whether values are texts, or bytes, which have the order of texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def padded(column: pa.Array, *, with_most: bool) -> Texts:
    r"""The least, or the most, of all texts that begin with each of some, as far as they are sorted.

    >>> padded(pa.array(["ab", None]), with_most=False).tolist(), padded(pa.array(["ab"]), with_most=True)[0][:4]
    ([b'ab', b''], b'ab\xff\xff')
    """
    binary = column.cast(pa.large_binary()).fill_null(b"")
    _, offsets, data = binary.buffers()
    bounds = np.frombuffer(offsets, np.int64)[binary.offset : binary.offset + len(binary) + 1]
    every = np.frombuffer(data or b"", np.uint8)
    filled = np.full((len(binary), WIDTH), 0xFF if with_most else 0, np.uint8)
    for place in range(WIDTH):
        some = np.flatnonzero(bounds[1:] - bounds[:-1] > place)
        filled[some, place] = every[bounds[some] + place]
    texts: Texts = filled.view(f"S{WIDTH}")[:, 0]
    return texts
