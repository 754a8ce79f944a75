"""Aggregates: an operator above all joins that keeps what is told of each group of rows.

What is grouped by and what is aggregated are expressions. Those that read one stream are computed by Spark as its rows
come in, and kept beside its columns, with their hashes; so results need not become rows of Spark's between a join and
an aggregate. Those that read several are computed by Spark on the results of the joins, and so are those of a stream
that an outer join may fill up with nulls: ``coalesce(B.v, 0)`` of a row without a match is 0.

Where rows are grouped by windows of the time of their stream (`watersmeet.planning.windows`), a group is final once no
row with a time before the end of any of them can come any more; and where they are grouped by the time itself, as if it
were a window of a microsecond.

An aggregate over a *history* tells something of the latest rows of each group (Flux's operator). Rows are ordered by
the time of their stream; results of joins by their beginning, the latest time of their rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import pyarrow as pa
from msgspec.structs import replace
from sqlglot import exp

from watersmeet.model.errors import QueryError, UnsupportedError
from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import AggregateColumn, Column, Input, Key, Operator, Sliding, Stream
from watersmeet.model.query import AggregateNode, GroupKey, History
from watersmeet.planning.expressions import Expression, expression_of, parsed
from watersmeet.planning.history import history_shown
from watersmeet.planning.names import COMPUTED, Scope
from watersmeet.planning.pruning import prune
from watersmeet.planning.types import canonical as canonical_type
from watersmeet.planning.types import with_one_zero
from watersmeet.planning.windows import TimeWindow, check_many, refuse_windows_within, time_window

_EVERYTHING = GroupKey("#all", "CAST(0 AS BIGINT)", pa.int64())


@dataclass
class _Draft:
    """Expressions to compute on arriving rows or on join results."""

    operator: OperatorId
    padded: frozenset[str] = frozenset()
    early: dict[Column, str] = field(default_factory=dict)
    late: dict[Column, str] = field(default_factory=dict)
    kinds: dict[Column, pa.DataType] = field(default_factory=dict)

    def column(self, value: Expression, name: str, sql: str, kind: pa.DataType, default: str) -> Column:
        """A column with the value of some SQL that reads what an expression reads."""
        streams = sorted(value.streams)
        column = Column(streams[0] if streams else default, f"{COMPUTED}{self.operator}.{name}")
        is_late = len(streams) > 1 or column.stream in self.padded
        (self.late if is_late else self.early)[column] = sql
        self.kinds[column] = kind
        return column


def aggregated(
    node: AggregateNode,
    joins: Sequence[Operator],
    streams: Sequence[Stream],
    scope: Scope,
    padded: frozenset[str] = frozenset(),
) -> tuple[tuple[Operator, ...], dict[Column, pa.DataType]]:
    """The operators below and the aggregate above them, and the types of all columns that are computed.

    Columns of streams that are ``padded`` may be null in what the joins give.
    """
    operator = aggregate_name([stream.name for stream in streams])
    draft, default = _Draft(operator, padded), streams[0].name
    keys = _Keys.of(node, draft, scope, default)
    final = _final(keys.windows, draft, scope, streams)
    arguments = _arguments(node, draft, scope, default)
    order = None if node.history is None else _order(node.history, draft, scope, streams)
    sliding = tuple(_sliding(keys, final, streams))
    output = {Column(operator, each.name): column for each, column in zip(node.keys, keys.values, strict=False)}
    made = {Column(operator, each.name): each.type for each in node.aggregates}
    kinds = {**draft.kinds, **{column: _kind(value, draft, scope) for column, value in output.items()}, **made}
    times = [stream.time for stream in streams if stream.time and not joins]  # whoever lets rows in looks at them
    times += [window.column for window in keys.windows.values() if window.slides]
    needed = [*keys.values, *(each for each in (*arguments, final, order) if each), *times]
    wide = scope.extended(draft.kinds)
    state = wide.ordered({*needed, *keys.hashes})
    columns = tuple(
        AggregateColumn(each.name, each.function, argument.name if argument else None, each.type)
        for each, argument in zip(node.aggregates, arguments, strict=True)
    )
    renamed = tuple((column.name, value.name) for column, value in output.items())
    below, source = _below(joins, draft, wide, state, keys, streams)
    top = Operator(
        operator,
        joins[-1].level + 1 if joins else 0,
        (replace(source, state=tuple(column for column in state if column in needed)),),
        (*output, *made),
        kind="aggregate",
        aggregates=columns,
        renamed=renamed,
        final=final,
        mode=node.mode if node.history is None else "update",
        history=node.history,
        order=order,
        sliding=sliding,
    )
    return (*below, top), kinds


def _below(
    joins: Sequence[Operator],
    draft: _Draft,
    scope: Scope,
    state: Sequence[Column],
    keys: "_Keys",
    streams: Sequence[Stream],
) -> tuple[tuple[Operator, ...], Input]:
    """The joins, which keep what is computed early, and the input of the aggregate."""
    values = tuple(keys.values)
    if not joins:
        computed = tuple({**draft.early, **draft.late}.items())
        own = tuple(Key(sql, pa.int64()) for sql in keys.hashes.values())
        return (), Input(InputName(streams[0].name), own, (), computed=computed, key_values=values)
    texts = list(draft.late.values())
    early = [column for column in state if column not in draft.late]
    pruned = prune(joins, scope, texts, early)
    operators = tuple(replace(each, inputs=tuple(_computing(i, draft) for i in each.inputs)) for each in pruned)
    late = tuple(draft.late.items())
    own = tuple(Key(sql if hashed in draft.late else hashed.sql, pa.int64()) for hashed, sql in keys.hashes.items())
    return operators, Input(InputName(joins[-1].id), own, (), joins[-1].id, computed=late, key_values=values)


def _computing(source: Input, draft: _Draft) -> Input:
    if not source.stream:
        return source
    own = tuple((column, draft.early[column]) for column in source.state if column in draft.early)
    return replace(source, computed=(*source.computed, *own))


@dataclass
class _Keys:
    """What rows are grouped by: the columns of values, those of hashes with their SQL, and by value which windows."""

    values: list[Column] = field(default_factory=list)
    hashes: dict[Column, str] = field(default_factory=dict)
    windows: dict[Column, TimeWindow] = field(default_factory=dict)

    @classmethod
    def of(cls, node: AggregateNode, draft: _Draft, scope: Scope, default: str) -> "_Keys":
        """The keys of an aggregate. Windows that slide are told apart later, by the rows of the other keys' hash."""
        keys = cls()
        windows = [time_window(key.sql, scope) for key in node.keys]
        check_many(" and ".join(key.sql for key in node.keys), prod(each.many for each in {*windows} if each))
        for number, (key, window) in enumerate(zip(node.keys, windows, strict=True)):
            keys._add(number, key, window, draft, scope, default)
        if not keys.hashes:
            keys._add(len(node.keys), _EVERYTHING, None, draft, scope, default)
        return keys

    def _add(
        self, number: int, key: GroupKey, window: TimeWindow | None, draft: _Draft, scope: Scope, default: str
    ) -> None:
        same = next((column for column, each in self.windows.items() if each == window and each.slides), None)
        if same is not None:  # a row is in each of its windows once, by however many names
            self.values.append(same)
            return
        kind = canonical_type(key.type) if window is None else window.type
        value = expression_of(parsed(key.sql if window is None else window.sql, exp.Condition), scope)
        canonical = with_one_zero(value.sql, kind)
        is_plain = value.column is not None and canonical == value.sql
        column = value.column if is_plain else None
        column = column or draft.column(value, f"key{number}", canonical, kind, default)
        self.values.append(column)
        if window is None or not window.slides:
            hashed = f"XXHASH64({canonical})"
            self.hashes[draft.column(value, f"hash{number}", hashed, pa.int64(), default)] = hashed
        if window is not None or value.column is not None:
            self.windows |= {column: window} if window else _moments(value.column, scope)


def _sliding(keys: _Keys, final: Column | None, streams: Iterable[Stream]) -> Iterator[Sliding]:
    """The windows that slide; those of the stream that tells when a group is final may end it."""
    ends = {stream.time for stream in streams if final is not None and stream.name == final.stream}
    for column, window in keys.windows.items():
        if window.slide_us is not None:
            yield Sliding(column.name, window.column.name, window.length_us, window.slide_us, window.column in ends)


def _moments(column: Column | None, scope: Scope) -> dict[Column, TimeWindow]:
    """A time that rows are grouped by, as a window of a microsecond."""
    is_time = column is not None and pa.types.is_timestamp(scope.types[column])
    return {column: TimeWindow(column, 1, kind=scope.types[column])} if column is not None and is_time else {}


def _final(
    windows: Mapping[Column, TimeWindow], draft: _Draft, scope: Scope, streams: Sequence[Stream]
) -> Column | None:
    """The column of the time before which rows of a group have to have come: until the first of its windows ends.

    It is a time of one stream. Of several that have windows, it is one with a watermark, and of these the shortest.
    """
    whole = [each for each in streams if each.name not in draft.padded]  # of others, times may be null
    timed = [(each, stream) for each in windows.values() for stream in whole if stream.time == each.column]
    if not timed:
        return None
    _, chosen = min(timed, key=lambda pair: (pair[1].delay_us is None, pair[0].length_us))
    ends = dict.fromkeys(each.end for each, stream in timed if stream is chosen)
    sql = f"LEAST({', '.join(ends)})" if len(ends) > 1 else next(iter(ends))
    value = expression_of(parsed(sql, exp.Condition), scope)
    return draft.column(value, "final", sql, pa.int64(), chosen.name)


def _arguments(node: AggregateNode, draft: _Draft, scope: Scope, default: str) -> list[Column | None]:
    arguments: list[Column | None] = []
    for number, each in enumerate(node.aggregates):
        if each.sql is None or each.argument is None:
            arguments.append(None)
            continue
        tree, kind = parsed(each.sql, exp.Condition), canonical_type(each.argument)
        refuse_windows_within(tree)
        value = expression_of(tree, scope)
        arguments.append(value.column or draft.column(value, f"value{number}", value.sql, kind, default))
    return arguments


def _order(history: History, draft: _Draft, scope: Scope, streams: Sequence[Stream]) -> Column:
    """The column that orders rows by time."""
    times = [stream.time for stream in streams if stream.time]
    if draft.padded:
        raise UnsupportedError(
            f"groups of an outer join are aggregated over {history_shown(history)}",
            why=f"rows without a match have no times of {' and '.join(sorted(draft.padded))}, and may have none at all",
            how="leave over(...) out, or use an inner, semi or anti join",
        )
    if not times:
        names = " and ".join(stream.name for stream in streams)
        raise QueryError(
            f"groups of {names} are aggregated over {history_shown(history)}, and no stream has a time",
            why="which rows are the latest would depend on how they arrive",
            how=f'name the column of its timestamps, as in flow.stream("{streams[0].name}", df, time="ts")',
        )
    if len(times) == 1:
        return times[0]
    latest = expression_of(parsed(f"GREATEST({', '.join(time.sql for time in times)})", exp.Condition), scope)
    return draft.column(latest, "order", latest.sql, scope.types[times[0]], times[0].stream)


def _kind(column: Column, draft: _Draft, scope: Scope) -> pa.DataType:
    return draft.kinds[column] if column in draft.kinds else scope.types[column]


def aggregate_name(streams: Sequence[str]) -> OperatorId:
    """A name for the aggregate that no stream has."""
    taken = {name.lower() for name in streams}
    numbers = (f"aggregate{number}" for number in range(1, len(taken) + 2))
    return OperatorId(next(name for name in numbers if name not in taken))
