"""What the task of an operator is told of it. Travels to the workers."""

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Sliding, Test
from watersmeet.model.query import History, How, Mode


@dataclass(frozen=True)
class LifeSpec:
    """The columns that tell when a row lives, in microseconds: from ``begin`` to ``end``, or for ``window_us``.

    Rows of inputs higher up begin less than ``above_us`` after its begin.
    """

    begin: str
    end: str | None = None
    window_us: int | None = None
    above_us: int | None = None

    @property
    def last(self) -> str:
        """The column by whose values rows end one after the other."""
        return self.begin if self.end is None else self.end

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return (self.begin,) if self.end is None else (self.begin, self.end)


@dataclass(frozen=True)
class InputSpec:
    """One input of an operator: the tag of its rows, the level that takes them up, and what it keeps.

    ``traces`` are the columns that tell groups of operators below; of the ``bounded`` ones runs tell least and most.
    Rows without a ``life`` live always. Those that ``go_everywhere`` come to all sites, and are stored at their own.
    """

    tag: int
    operator: OperatorId
    name: InputName
    level: int
    schema: pa.Schema
    key_columns: tuple[str, ...]
    traces: tuple[str, ...] = ()
    bounded: tuple[str, ...] = ()
    life: LifeSpec | None = None
    go_everywhere: bool = False

    @property
    def last(self) -> str | None:
        """The column by whose values rows end one after the other, if they do."""
        return None if self.life is None else self.life.last

    @property
    def ending(self) -> str | None:
        """The same column, if its groups are sets of moments, which end one by one."""
        return self.last if self.go_everywhere else None


@dataclass(frozen=True)
class Aggregated:
    """One aggregate: its name, its function, the column it is of (None: of all rows), and the type of its value."""

    name: str
    function: str
    argument: str | None
    type: pa.DataType


@dataclass(frozen=True)
class AggregateSpec:
    """What an aggregate gives, and when: ``mode`` is that of the output.

    ``renamed`` are pairs: the name of a column of the output, and of that of the input which it is. With a
    ``history``, only the latest rows of a group count, by the column ``order``. Rows are copied into the other windows
    of ``sliding`` keys, with those that end a group in the column ``final``.
    """

    aggregates: tuple[Aggregated, ...]
    mode: Mode
    renamed: tuple[tuple[str, str], ...] = ()
    history: History | None = None
    order: str = ""
    sliding: tuple[Sliding, ...] = ()
    final: str = ""


@dataclass(frozen=True)
class OperatorSpec:
    """An operator: its kind, its inputs, and the tag its results have in the exchange above (None: it is the root).

    ``group_column`` tells the operators above a result's group; at the root, ``traced`` are such columns of all below.
    If it ``is_windowed``, rows are joined only where their lives overlap; ``life`` tells the operator above a result's.
    ``bounds`` are three numbers each: of an input, of another, and of the microseconds that rows of the second may be
    later than those of the first.
    ``how`` tells an outer join from an inner one; rows of its ``preserved`` inputs come out alone, or once.
    """

    id: OperatorId
    inputs: tuple[InputSpec, ...]
    hash_decides: bool
    output_tag: int | None
    group_column: str | None = None
    traced: tuple[str, ...] = ()
    kind: str = "join"
    is_windowed: bool = False
    life: LifeSpec | None = None
    how: How = "inner"
    tests: tuple[Test, ...] = ()
    preserved: tuple[int, ...] = ()
    aggregate: AggregateSpec | None = None
    bounds: tuple[tuple[int, int, int], ...] = ()
