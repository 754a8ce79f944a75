"""Where promises are kept: a *store* for every column of a stream that is counted in whole numbers, and one for others.

What a store holds lies in runs, as all state does, but it belongs to no operator and no site: every site reads all of
it (`watersmeet.operators.promises`).
"""

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Column, Plan, Stream
from watersmeet.operators.promises.ranges import is_countable

PROMISES = OperatorId("promises")
"""In place of an operator, in the names of runs."""


@dataclass(frozen=True)
class Store:
    """What is promised of some columns of a stream: of one as ranges, else as patterns.

    What is promised because a column is ``unique`` is the user's word: no row is rejected for it.
    """

    name: InputName
    stream: str
    columns: tuple[Column, ...]
    types: tuple[pa.DataType, ...]
    is_ranges: bool
    is_unique: bool = False


def stores_of(plan: Plan, stream: Stream) -> tuple[Store, ...]:
    """The stores of a stream."""
    named = stream.punctuated or ()
    found = [
        _store(plan, stream, f"{number}", (column,))
        for number, column in enumerate(named)
        if is_countable(plan.types[column])
    ]
    if len(named) > len(found) or len(named) > 1:
        found.append(_store(plan, stream, "patterns", named))
    if stream.unique:
        found.append(_store(plan, stream, "unique", stream.unique, is_unique=True))
    return tuple(found)


def _store(plan: Plan, stream: Stream, name: str, columns: tuple[Column, ...], *, is_unique: bool = False) -> Store:
    types = tuple(plan.types[column] for column in columns)
    is_ranges = len(columns) == 1 and is_countable(types[0]) and name != "patterns"
    return Store(InputName(f"{stream.name}-{name}"), stream.name, columns, types, is_ranges, is_unique)
