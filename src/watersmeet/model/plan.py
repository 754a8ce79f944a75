"""A physical plan: what the engine carries out, as frozen values.

An *operator* joins two or more inputs on one key. An *input* is a stream or the output of an operator below. The
operators form a tree and are listed bottom-up. An operator's *kind* tells what it does with its inputs; its *id* stays
the same for as long as it has state, whatever becomes of the plan around it. Every operator has a *level*: the root has
the highest, a child is always exactly one level below its parent, and all operators of a level run in one stage.

Columns are named by stream and field. ``state`` columns are those an input keeps in its runs; ``output`` columns are
those an operator hands to its parent. SQL texts speak of columns as ``A.x``, canonically quoted.
"""

from functools import cached_property
from typing import NamedTuple

import msgspec
import pyarrow as pa

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.query import History, How, Mode

QUOTED = r"`(?:[^`]|``)+`"
"""The pattern of an identifier as `quoted` gives it."""


def quoted(part: str) -> str:
    """An identifier as Spark SQL quotes it.

    >>> quoted("odd`name")
    '`odd``name`'
    """
    return "`" + part.replace("`", "``") + "`"


class Column(NamedTuple):
    """A column of a stream, or (field starting with ``#``) a computed key of an input.

    >>> Column("A", "x").name, Column("A", "x").sql
    ('A.x', '`A`.`x`')
    """

    stream: str
    field: str

    @property
    def name(self) -> str:
        """The column's name in runs and exchanges."""
        return f"{self.stream}.{self.field}"

    @property
    def sql(self) -> str:
        """The column in canonical SQL."""
        return f"{quoted(self.stream)}.{quoted(self.field)}"


GROUP = "group"
"""The field of columns that tell a group."""


def group_column(operator_id: str) -> Column:
    """The column that tells a result's group at an operator.

    >>> group_column("join1").name
    '#join1.group'
    """
    return Column(f"#{operator_id}", GROUP)


def operator_of(name: str) -> str | None:
    """The operator whose groups a column tells, or None for other columns.

    >>> operator_of("#join1.group"), operator_of("A.group")
    ('join1', None)
    """
    stream, field = name.rsplit(".", 1)
    return stream[1:] if stream.startswith("#") and field == GROUP else None


class Stream(msgspec.Struct, frozen=True):
    """A base input: its whole schema, the filters that were pushed down to it, and what is known of its event times.

    A row with the time ``t`` lives from ``t`` to ``t + window_us``; after a row with ``t``, none comes that is earlier
    than ``t - delay_us``. Punctuations speak of the ``punctuated`` columns; if there is a stream of them, but no column
    they name, they tell when the stream has ended. No two rows of different epochs are alike in the ``unique`` ones.
    """

    name: str
    schema: pa.Schema
    filters: tuple[str, ...] = ()
    time: Column | None = None
    window_us: int | None = None
    delay_us: int | None = None
    punctuated: tuple[Column, ...] | None = None
    unique: tuple[Column, ...] = ()

    @property
    def is_checked(self) -> bool:
        """Whether rows may be rejected, or promise something: all come to a site, also those that filters drop."""
        return self.time is not None or self.punctuated is not None or bool(self.unique)

    @property
    def has_promises(self) -> bool:
        """Whether values are promised not to come any more."""
        return bool(self.punctuated or self.unique)


class Life(msgspec.Struct, frozen=True):
    """The state columns that tell when a row of an input lives: from ``begin`` to ``end``, or for ``window_us``.

    With neither, it lives for ever from then on. By conditions with streams that are joined higher up, a result with
    the row can meet theirs only until ``above_us`` after its begin: that may be before it begins.
    """

    begin: Column
    end: Column | None = None
    window_us: int | None = None
    above_us: int | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns."""
        return (self.begin,) if self.end is None else (self.begin, self.end)

    @property
    def last(self) -> Column:
        """The column by whose values rows end one after the other."""
        return self.begin if self.end is None else self.end

    @property
    def is_endless(self) -> bool:
        """Whether every row lives for ever."""
        return self.end is None and self.window_us is None


class Key(msgspec.Struct, frozen=True):
    """One component of an input's join key.

    ``sql`` is the expression over the input's columns, already cast to ``type``, the type all inputs share. ``column``
    is the state column that holds the same value where hashes alone do not decide equality, else None. In a query with
    promises, ``source`` is the stream's column that is the key, if the key is no other expression. Where ``sql``
    is null for rows that cannot match, by a condition of an outer join on them alone, ``bare`` is the key without it.
    """

    sql: str
    type: pa.DataType
    column: Column | None = None
    source: Column | None = None
    bare: str | None = None


class Input(msgspec.Struct, frozen=True):
    """One input of an operator: where it comes from, what it is joined on, what it keeps.

    Of the ``bounded`` columns every run tells the least and the greatest value. Rows without a ``life`` live always.
    ``computed`` columns are kept with the SQL that makes them. By the condition of the join, a row is joined only with
    rows of another input whose time is at most so many microseconds later than its own: that is its ``reach``. Where
    keys are hashes of values, these values are in the columns ``key_values``.
    """

    name: InputName
    keys: tuple[Key, ...]
    state: tuple[Column, ...]
    operator: OperatorId | None = None
    bounded: tuple[Column, ...] = ()
    life: Life | None = None
    computed: tuple[tuple[Column, str], ...] = ()
    reach: tuple[tuple[InputName, int], ...] = ()
    key_values: tuple[Column, ...] = ()

    @property
    def stream(self) -> str | None:
        """The stream's name, or None where the input is the output of an operator."""
        return None if self.operator else self.name


class Test(msgspec.Struct, frozen=True):
    """A condition on columns of both inputs: a function of columns and of other conditions.

    ``within`` is a function of two numbers: the first less the second is from ``low`` to ``high``, or between them if
    these are ``excluded``. A ``call`` asks a function of the user's by its ``name``. A ``number`` is the ``low`` one.
    Of any other test a name tells what it was made of: it only `leads` to rows, and another condition decides.
    """

    function: str
    arguments: tuple["Test | str", ...]
    low: int | float | None = None
    high: int | float | None = None
    excluded: bool = False
    name: str = ""

    @property
    def leads(self) -> bool:
        """Whether it follows from a condition that Spark evaluates, and only leaves it fewer pairs."""
        return bool(self.name) and self.function != "call"

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns it reads."""
        parts = (frozenset({each}) if isinstance(each, str) else each.columns for each in self.arguments)
        return frozenset().union(*parts)


class AggregateColumn(msgspec.Struct, frozen=True):
    """One aggregate: its name, its function, the column it is of (None: of all rows), and the type of its value."""

    name: str
    function: str
    argument: str | None
    type: pa.DataType


class Sliding(msgspec.Struct, frozen=True):
    """A key of groups that is a window which slides, so that a row is in several groups.

    The ``column`` of a row that comes has the last window its ``time`` lies in; one begins every ``slide_us``. If the
    group ``ends`` with it, it is final once no row before its end can come any more.
    """

    column: str
    time: str
    length_us: int
    slide_us: int
    ends: bool = False


class Operator(msgspec.Struct, frozen=True):
    """A stateful operator: by its kind a symmetric m-way join on one key; with the filters that apply to its output.

    Where the operator above asks for it, ``life`` are the columns that tell when a result lives. ``how`` two inputs are
    joined, if not so that all results have a row of each, and which ``tests`` a pair of rows then has to pass. What the
    inputs' ``reach`` says is decided where rows are joined; of the conditions it comes from, ``time_conditions`` are
    those that say no more.

    An aggregate has ``aggregates``, and in its output keys under other names: ``renamed`` are pairs of these and of the
    columns of its input. It gives its groups by its ``mode``; the ``final`` column tells the time before which rows of
    a group have to have come. With a ``history``, only the latest rows of a group count, by the column ``order``. Rows
    are copied into the other windows of ``sliding`` keys.
    """

    id: OperatorId
    level: int
    inputs: tuple[Input, ...]
    output: tuple[Column, ...]
    filters: tuple[str, ...] = ()
    hash_decides: bool = False
    kind: str = "join"
    life: Life | None = None
    how: How = "inner"
    tests: tuple[Test, ...] = ()
    aggregates: tuple[AggregateColumn, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    final: Column | None = None
    mode: Mode = "append"
    time_conditions: tuple[str, ...] = ()
    history: History | None = None
    order: Column | None = None
    sliding: tuple[Sliding, ...] = ()

    @property
    def preserved(self) -> tuple[int, ...]:
        """The inputs whose rows come out even if they have no match, or only once if they have one."""
        if self.kind == "aggregate":
            return (0,) if self.mode == "append" else ()
        return {"inner": (), "right": (1,), "full": (0, 1)}.get(self.how, (0,))

    @property
    def is_windowed(self) -> bool:
        """Whether times decide which rows are joined: by a reach, or if of two inputs with lives those of one end."""
        lives = [each.life for each in self.inputs if each.life]
        return len(lives) > 1 and (bool(self.bounds) or not all(life.is_endless for life in lives))

    @property
    def bounds(self) -> tuple[tuple[int, int, int], ...]:
        """By the places of two inputs: how many microseconds later rows of the second may be than the first's."""
        places = {each.name: place for place, each in enumerate(self.inputs)}
        return tuple(
            (place, places[name], later) for place, each in enumerate(self.inputs) for name, later in each.reach
        )


class Plan(msgspec.Struct, frozen=True, dict=True):
    """The operators bottom-up (the last is the root), the streams, and every column with its type."""

    streams: tuple[Stream, ...]
    operators: tuple[Operator, ...]
    columns: tuple[tuple[Column, pa.DataType], ...]

    @cached_property
    def types(self) -> dict[Column, pa.DataType]:
        """Every column's type."""
        return dict(self.columns)

    @property
    def root(self) -> Operator:
        """The operator whose output is the query's."""
        return self.operators[-1]

    @property
    def levels(self) -> tuple[tuple[Operator, ...], ...]:
        """The operators by level, lowest first."""
        depth = self.root.level + 1
        return tuple(tuple(o for o in self.operators if o.level == level) for level in range(depth))

    def stream(self, name: str) -> Stream:
        """The stream of that name."""
        return next(stream for stream in self.streams if stream.name == name)

    def longest_us(self, stream: str) -> int | None:
        """How long after a row of a stream results with it end at the latest, by its window or by conditions."""
        lives = (each.life for operator in self.operators for each in operator.inputs if each.stream == stream)
        met = next((life.above_us for life in lives if life is not None), None)
        return min((each for each in (self.stream(stream).window_us, met) if each is not None), default=None)

    def operator(self, operator_id: str) -> Operator:
        """The operator of that id."""
        return next(operator for operator in self.operators if operator.id == operator_id)
