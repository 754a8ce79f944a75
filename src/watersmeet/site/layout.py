"""How rows of different inputs share the columns of one exchange.

An exchange carries rows of several inputs. Each row has a *tag* that tells its input, and the inputs share *slots*:
physical columns that hold, for each tag, one of its columns of that type. A row thus costs what its own columns cost,
not the columns of all inputs together.

    #tag  #hash  #s0:long  #s1:string
    0     81..   A.k       A.p          a row of A
    1     17..   B.k       -            a row of B
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.model.plan import Column

ROW = "#row"
"""The field of a stream's whole row as JSON, where rejected rows are written."""


@dataclass(frozen=True)
class Layout:
    """The slots of an exchange, and the slot of each column of each tag."""

    slots: tuple[pa.DataType, ...]
    columns: Mapping[int, tuple[tuple[Column, int], ...]]


def pack(columns: Mapping[int, Sequence[Column]], types: Mapping[Column, pa.DataType]) -> Layout:
    """Give every column of every tag a slot of its type; tags share slots.

    >>> a, b, c = Column("A", "k"), Column("A", "p"), Column("B", "k")
    >>> layout = pack({0: [a, b], 1: [c]}, {a: pa.int64(), b: pa.string(), c: pa.int64()})
    >>> [str(slot) for slot in layout.slots], layout.columns[1]
    (['int64', 'string'], ((Column(stream='B', field='k'), 0),))
    """
    slots: list[pa.DataType] = []
    placed: dict[int, tuple[tuple[Column, int], ...]] = {}
    for tag, wanted in columns.items():
        free = list(range(len(slots)))
        placed[tag] = tuple((column, _place(types[column], slots, free)) for column in wanted)
    return Layout(tuple(slots), placed)


def slot_name(slot: int) -> str:
    """The name of a slot's column.

    >>> slot_name(3)
    '#s3'
    """
    return f"#s{slot}"


def _place(kind: pa.DataType, slots: list[pa.DataType], free: list[int]) -> int:
    for slot in free:
        if slots[slot].equals(kind):
            free.remove(slot)
            return slot
    slots.append(kind)
    return len(slots) - 1
