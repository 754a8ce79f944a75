"""Functions of the user's that say which pairs of rows match: called on Arrow arrays, and checked at every call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.model.errors import PredicateError

REPEATED_ROWS = 16
"""Of the first rows that a task asks a predicate for, so many are asked for twice."""


class FailsOnRowError(PredicateError):
    """A function fails on one of the rows it was given: which one, whoever knows more of it can tell."""

    def __init__(self, row: int, what: str, *, why: str, how: str) -> None:
        super().__init__(what, why=why, how=how)
        self.row = row

    def with_values(self, values: Mapping[str, object]) -> PredicateError:
        """The error, with values by which the row can be recognised."""
        shown = ", ".join(f"{name} = {value!s:.40}" for name, value in values.items())
        return PredicateError(f"{self.what} ({shown})" if shown else self.what, why=self.why, how=self.how)


_HOW = "have it return a boolean for each row of its arguments, as pyarrow.compute.less(left, right) does"


@dataclass
class PredicateCall:
    """A function by its name, and the columns it reads; what it returns is made an array of as many booleans."""

    name: str
    function: Callable[..., Any]
    columns: tuple[str, ...]
    _is_repeated: bool = field(default=False, compare=False)

    def __call__(self, *arguments: pa.Array) -> pa.Array:
        """Whether each row matches; null is no."""
        held = self._asked(arguments)
        if not self._is_repeated and len(held):
            self._is_repeated = True
            self._repeat([each.slice(0, REPEATED_ROWS) for each in arguments], held.slice(0, REPEATED_ROWS))
        return held

    def _asked(self, arguments: Sequence[pa.Array]) -> pa.Array:
        try:
            returned = self.function(*arguments)
        except (Exception, SystemExit) as error:
            raise self._failed(arguments, self._failing(arguments), error) from error
        return self._checked(returned, len(arguments[0]))

    def _checked(self, returned: object, rows: int) -> pa.Array:
        held = _as_array(returned)
        if held is None or not (pa.types.is_boolean(held.type) or pa.types.is_null(held.type)):
            what = _kind_of(returned) if held is None else f"an array of {held.type}"
            raise PredicateError(f"predicate {self.name} returns {what}", why="a row matches or it does not", how=_HOW)
        if len(held) != rows:
            raise PredicateError(
                f"predicate {self.name} returns {len(held)} values for {rows} rows",
                why="nobody knows which row each of them is for",
                how=_HOW,
            )
        return held.cast(pa.bool_())

    def _repeat(self, arguments: Sequence[pa.Array], held: pa.Array) -> None:
        if not self._asked(arguments).equals(held):
            raise PredicateError(
                f"predicate {self.name} gives other values for the same rows",
                why="a step that is repeated after a failure would have other results",
                how="have it depend on its arguments alone, with no random numbers and no clock",
            )

    def _failing(self, arguments: Sequence[pa.Array]) -> int | None:
        """A row on which the function fails by itself, found by halving; None where it fails only on several."""
        start, stop = 0, len(arguments[0])
        while stop - start > 1:
            middle = (start + stop) // 2
            if self._fails(arguments, start, middle):
                stop = middle
            elif self._fails(arguments, middle, stop):
                start = middle
            else:
                return None
        return start if stop - start == 1 else None

    def _fails(self, arguments: Sequence[pa.Array], start: int, stop: int) -> bool:
        try:
            self.function(*(each.slice(start, stop - start) for each in arguments))
        except (Exception, SystemExit):  # noqa: BLE001 -- whatever the function raises
            return True
        return False

    def _failed(self, arguments: Sequence[pa.Array], row: int | None, error: BaseException) -> PredicateError:
        count, why = len(arguments[0]), f"{type(error).__name__}: {error}"
        how = "have it take any values that these columns can have, nulls too"
        if row is None:
            what = f"predicate {self.name} fails on {count} rows together, and on none of them alone"
            return PredicateError(what, why=why, how=how)
        values = [f"{name} = {each[row].as_py()!r:.80}" for name, each in zip(self.columns, arguments, strict=True)]
        what = f"predicate {self.name} fails on the row {', '.join(values)}, number {row + 1:,} of {count:,}"
        return FailsOnRowError(row, what, why=why, how=how)


def _as_array(returned: object) -> pa.Array | None:
    if isinstance(returned, pa.ChunkedArray):
        return returned.combine_chunks() if returned.num_chunks != 1 else returned.chunk(0)
    if isinstance(returned, pa.Array):
        return returned
    if isinstance(returned, np.ndarray) and returned.ndim == 1:
        try:
            return pa.array(returned)
        except pa.ArrowException:  # of objects, whatever they are
            return None
    return None


def _kind_of(returned: object) -> str:
    kinds = sorted({type(each).__name__ for each in returned}) if isinstance(returned, np.ndarray) else ()
    return f"an array of {' and '.join(kinds)}" if kinds else type(returned).__name__


def calls(functions: Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]]) -> dict[str, PredicateCall]:
    """Functions by name, ready to be called by one task."""
    return {
        name: PredicateCall(getattr(function, "__name__", name), function, columns)
        for name, (function, columns) in functions.items()
    }
