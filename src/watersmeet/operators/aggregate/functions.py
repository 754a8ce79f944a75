"""Aggregate functions, each as partial columns: made of rows, made of other partial ones, and made into a value.

Rows come group after group, and ``groups`` tells the number of each row's; every group has one row at least. Nulls do
not count, as in SQL. Results are Spark's, but for the last digits of sums of fractions, which depend on the order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.errors import StateLimitError
from watersmeet.operators.ranges import Index

Floats = npt.NDArray[np.float64]
Parts = list[pa.Array]
SUM_MOST = 2.0**63
DIGITS_MOST, AVERAGE_DIGITS, INTEGER_DIGITS = 38, 4, 19
"""Of decimals; those that an average has more than its values, as Spark's; and those of a number of rows."""


def by_group(values: pa.Array, groups: Index, function: str) -> pa.Array:
    """An Arrow aggregate of each group.

    >>> by_group(pa.array([1, 2, None]), np.array([0, 0, 1]), "sum").to_pylist()
    [3, None]
    """
    table = pa.table({"group": groups, "value": values})
    found = table.group_by("group", use_threads=False).aggregate([("value", function)])
    return found.column(f"value_{function}").combine_chunks()


@dataclass(frozen=True)
class Function:
    """A function: its partial columns of rows, of partial ones, and its value."""

    parts: tuple[str, ...]
    start: Callable[[pa.Array, Index], Parts]
    merge: Callable[[Parts, Index], Parts]
    finish: Callable[[Parts], pa.Array]


def _first(parts: Parts) -> pa.Array:
    return parts[0]


def _plain(start: str, merge: str) -> Function:
    return Function(
        ("value",),
        lambda values, groups: [by_group(values, groups, start)],
        lambda parts, groups: [by_group(parts[0], groups, merge)],
        _first,
    )


def _sum_start(values: pa.Array, groups: Index) -> Parts:
    wide = values.cast(pa.float64(), safe=False) if pa.types.is_floating(values.type) else values
    return [_sum(wide, groups)]


def _sum(values: pa.Array, groups: Index) -> pa.Array:
    """The sum of each group. Arrow's sums of whole numbers go over their edge unnoticed: then their size is wrong."""
    total = by_group(values, groups, "sum")
    if pa.types.is_integer(values.type):
        size = by_group(values.cast(pa.float64(), safe=False), groups, "sum")
        if (pc.max(pc.abs(pc.subtract(size, total.cast(pa.float64(), safe=False)))).as_py() or 0.0) > SUM_MOST / 2:
            raise StateLimitError(
                "the sum of a group is larger than a BIGINT can hold",
                why="sums of whole numbers are kept in 64 bits, as Spark does",
                how="sum a wider type, as in sum(CAST(x AS DECIMAL(38, 0)))",
            )
    return total


def _average_start(values: pa.Array, groups: Index) -> Parts:
    """The sum and the number of values; that of decimals is one, with as many digits as there are."""
    is_exact = pa.types.is_decimal(values.type)
    wide = values.cast(pa.decimal128(DIGITS_MOST, values.type.scale)) if is_exact else values
    wide = wide if is_exact else wide.cast(pa.float64(), safe=False)
    return [by_group(wide, groups, "sum"), by_group(values, groups, "count")]


def _average_merge(parts: Parts, groups: Index) -> Parts:
    return [by_group(part, groups, "sum") for part in parts]


def _average_finish(parts: Parts) -> pa.Array:
    total, count = parts[0], pc.if_else(pc.equal(parts[1], 0), pa.scalar(None, pa.int64()), parts[1])
    if not pa.types.is_decimal(total.type):
        return pc.divide(total, count)
    scale = total.type.scale + AVERAGE_DIGITS
    digits = pa.decimal256(DIGITS_MOST + AVERAGE_DIGITS + 1, scale + 1)  # one more, which tells how to round
    quotient = pc.divide(total.cast(digits), count.cast(pa.decimal256(INTEGER_DIGITS, 0)))
    return pc.round(quotient, min(scale, DIGITS_MOST), "half_towards_infinity")


def _extreme(name: str) -> Function:
    """The least or the greatest value; a number that is not a number is greater than all others."""

    def extreme(values: pa.Array, groups: Index) -> Parts:
        if not pa.types.is_floating(values.type):
            return [by_group(values, groups, name)]
        is_nan = pc.fill_null(pc.is_nan(values), fill_value=False)
        plain = by_group(pc.if_else(is_nan, pa.scalar(None, values.type), values), groups, name)
        nans = by_group(is_nan.cast(pa.int8()), groups, "max").cast(pa.bool_())
        not_a_number = pa.scalar(float("nan"), values.type)
        wins = nans if name == "max" else pc.and_(nans, plain.is_null())
        return [pc.if_else(wins, not_a_number, plain)]

    return Function(("value",), extreme, lambda parts, groups: extreme(parts[0], groups), _first)


def _moments_start(values: pa.Array, groups: Index) -> Parts:
    """The number of values, their mean, and the sum of the squares of how far they are from it."""
    size = _size(groups)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    numbers, own = (
        values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)[known],
        groups[known],
    )
    count = np.bincount(own, minlength=size).astype(np.float64)
    mean = _added(own, numbers, size) / np.maximum(count, 1)
    squares = _added(own, (numbers - mean[own]) ** 2, size)
    return [pa.array(count), pa.array(mean), pa.array(squares)]


def _added(groups: Index, numbers: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    """The sum of the numbers of each group, as floats: of no numbers at all, ``bincount`` gives integers."""
    return np.bincount(groups, weights=numbers, minlength=size).astype(np.float64)


def _moments_merge(parts: Parts, groups: Index) -> Parts:
    """Chan's formula for the moments of several parts together."""
    count, mean, squares = (part.to_numpy(zero_copy_only=False) for part in parts)
    size = _size(groups)
    total = _added(groups, count, size)
    whole = _added(groups, count * mean, size) / np.maximum(total, 1)
    between = count * (mean - whole[groups]) ** 2
    return [pa.array(total), pa.array(whole), pa.array(_added(groups, squares + between, size))]


def _spread(lost: int, *, root: bool) -> Function:
    """Variance or its root, with ``lost`` degrees of freedom; null where there are too few values."""

    def finish(parts: Parts) -> pa.Array:
        count, _, squares = (part.to_numpy(zero_copy_only=False) for part in parts)
        variance = squares / np.maximum(count - lost, 1)
        return pa.array(np.sqrt(variance) if root else variance, mask=count <= lost)

    return Function(("count", "mean", "squares"), _moments_start, _moments_merge, finish)


def _distinct_start(values: pa.Array, groups: Index) -> Parts:
    """The distinct values of rows; both zeros are one value."""
    known = values.is_valid().to_numpy(zero_copy_only=False)
    return [_lists(_one_zero(values).filter(pa.array(known)), groups[known], _size(groups))]


def _one_zero(values: pa.Array) -> pa.Array:
    if pa.types.is_struct(values.type):
        parts = [_one_zero(each) for each in values.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(values.type), mask=values.is_null())
    return pc.add(values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values


def _distinct_merge(parts: Parts, groups: Index) -> Parts:
    lengths = pc.list_value_length(parts[0]).to_numpy(zero_copy_only=False)
    return [_lists(parts[0].flatten(), np.repeat(groups, lengths), _size(groups))]


def _lists(values: pa.Array, groups: Index, size: int) -> pa.Array:
    """The distinct values of each group, as lists; those that are made of several are told apart by all of these."""
    parts = values.flatten() if pa.types.is_struct(values.type) else [values]
    columns = {str(place): part for place, part in enumerate(parts)}
    found = pa.table({"group": groups, **columns}).group_by(["group", *columns], use_threads=False).aggregate([])
    order = np.argsort(found.column("group").to_numpy(), kind="stable")
    ends = np.cumsum(np.bincount(found.column("group").to_numpy(), minlength=size))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    kept = [found.column(name).combine_chunks().take(pa.array(order)) for name in columns]
    is_struct = pa.types.is_struct(values.type)
    return pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays(kept, fields=list(values.type)) if is_struct else kept[0]
    )


def _size(groups: Index) -> int:
    return int(groups[-1]) + 1 if len(groups) else 0


def _of_first_row(values: pa.Array, groups: Index) -> Parts:
    """The value of each group's first row, null or not, so that several such values are of one row."""
    return [values.take(pa.array(np.flatnonzero(np.diff(groups, prepend=-1))))]


FUNCTIONS: dict[str, Function] = {
    "count": _plain("count", "sum"),
    "sum": Function(("value",), _sum_start, lambda parts, groups: [_sum(parts[0], groups)], _first),
    "avg": Function(("sum", "count"), _average_start, _average_merge, _average_finish),
    "min": _extreme("min"),
    "max": _extreme("max"),
    "first": Function(("value",), _of_first_row, lambda parts, groups: _of_first_row(parts[0], groups), _first),
    "stddev": _spread(1, root=True),
    "stddev_pop": _spread(0, root=True),
    "variance": _spread(1, root=False),
    "var_pop": _spread(0, root=False),
    "count_distinct": Function(
        ("values",), _distinct_start, _distinct_merge, lambda parts: pc.list_value_length(parts[0]).cast(pa.int64())
    ),
}
"""By name; an exact number of distinct values is also the best approximate one."""


def finished(function: str, parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """The values of a function, in a type."""
    return FUNCTIONS[function].finish(list(parts)).cast(kind)
