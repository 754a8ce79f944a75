"""Lives: when a row can be joined, and which columns tell it.

A row of a stream with event times lives from its time on, for as long as the stream's window. Rows are joined only if
all their lives overlap, and the result lives for what they have in common: from the latest beginning to the earliest
end (CAPE 3.2, PSP 2). So every input of a stream with times keeps them, and where any stream has a window, operators
hand up two columns more, the beginning and the end of a result's life.

All times are whole microseconds since 1970. A window is a length of time: a day has 24 hours, whatever clocks do.
"""

import pyarrow as pa
from msgspec.structs import replace

from watersmeet.model.errors import QueryError, TypeMismatchError, UnknownNameError, nearest
from watersmeet.model.plan import Column, Input, Life, Operator, Plan, Stream
from watersmeet.model.query import StreamNode
from watersmeet.planning.names import Scope
from watersmeet.planning.reach import Reach
from watersmeet.planning.types import canonical, ddl

BEGIN, END = "begin", "end"


def life_columns(operator_id: str) -> Life:
    """The columns that tell when a result of an operator lives.

    >>> [column.name for column in life_columns("join1").columns]
    ['#join1.begin', '#join1.end']
    """
    return Life(Column(f"#{operator_id}", BEGIN), Column(f"#{operator_id}", END))


def time_column(stream: StreamNode, scope: Scope) -> Column | None:
    """The column of a stream's event times, checked."""
    if stream.time is None:
        if stream.window_us is not None or stream.delay_us is not None:
            what = "window" if stream.window_us is not None else "watermark"
            raise QueryError(
                f"stream {stream.name} has a {what} and no time",
                why=f"a {what} is a length of event time, and no column is said to hold it",
                how=f'name the column of its timestamps, as in flow.stream("{stream.name}", df, time="ts", ...)',
            )
        return None
    columns = [column for column in scope.columns() if column.stream == stream.name]
    found = [column for column in columns if scope.fold(column.field) == scope.fold(stream.time)]
    if not found:
        raise UnknownNameError(
            f"stream {stream.name} has no column {stream.time}, which time names",
            why="event times are a column of the stream",
            how=f"check the spelling ({nearest(stream.time, [column.field for column in columns])})",
        )
    kind = scope.types[found[0]]
    if not pa.types.is_timestamp(kind):
        raise TypeMismatchError(
            f"the time of stream {stream.name}, column {stream.time}, is {ddl(kind)}",
            why="event times are timestamps",
            how=f"make one of it, as in df.withColumn('ts', F.to_timestamp('{stream.time}'))",
        )
    return found[0]


def check_times(streams: tuple[Stream, ...]) -> None:
    """Refuse streams whose times cannot be compared."""
    timed = [(each, canonical(each.schema.field(each.time.field).type)) for each in streams if each.time]
    for stream, kind in timed[1:]:
        first, other = timed[0]
        if kind != other:
            raise TypeMismatchError(
                f"the time of stream {first.name} is {ddl(other)}, that of {stream.name} {ddl(kind)}",
                why="without a time zone for both, nobody knows which is earlier",
                how="cast one of the columns, as in df.withColumn('ts', F.col('ts').cast('timestamp'))",
            )


def with_lives(plan: Plan, reach: Reach) -> Plan:
    """A plan whose inputs keep what tells when their rows live, and how far they reach by the conditions."""
    if not any(stream.time for stream in plan.streams):
        return plan
    has_windows = any(stream.window_us is not None for stream in plan.streams)
    told: dict[str, Life] = {}
    joined = [each for each in plan.operators if each.kind != "aggregate"]
    joined_above = {source.operator for each in joined for source in each.inputs if source.operator}
    operators = []
    for operator in plan.operators:
        if operator.kind == "aggregate":
            operators.append(
                replace(operator, inputs=tuple(_kept_until(each, operator, plan) for each in operator.inputs))
            )
            continue
        inputs = tuple(_reaching(_living(each, plan, told), operator, reach) for each in operator.inputs)
        is_told = has_windows and operator.id in joined_above and any(each.life for each in inputs)
        life = life_columns(operator.id) if is_told else None
        if life is not None:
            told[operator.id] = life
        output = (*operator.output, *(life.columns if life else ()))
        operators.append(replace(operator, inputs=inputs, output=output, life=life))
    columns = {column: pa.int64() for life in told.values() for column in life.columns}
    return replace(plan, operators=tuple(operators), columns=tuple({**plan.types, **columns}.items()))


def _living(source: Input, plan: Plan, told: dict[str, Life]) -> Input:
    life = told.get(str(source.operator)) if source.operator else _own(plan.stream(source.name))
    if life is None:
        return source
    state = tuple(dict.fromkeys((*source.state, *life.columns)))
    return replace(source, life=life, state=state, bounded=life.columns)


def _kept_until(source: Input, operator: Operator, plan: Plan) -> Input:
    """A group of rows lives until no row for it can come any more; of a range of time, rows end by themselves.

    Without promises nothing ends. Then runs are better not kept apart by age: rows leave as they are merged with later
    ones of their group.
    """
    is_range = operator.history is not None and operator.history.time_us is not None
    ends = is_range and all(stream.delay_us is not None for stream in plan.streams)
    last = operator.final or (operator.order if ends else None)
    return source if last is None else replace(source, life=Life(last), bounded=(last,))


def _reaching(source: Input, operator: Operator, reach: Reach) -> Input:
    others = [each.name for each in operator.inputs if each.name != source.name]
    pairs = ((other, reach.get((str(source.name), str(other)))) for other in others)
    return replace(source, reach=tuple((other, later) for other, later in pairs if later is not None))


def _own(stream: Stream) -> Life | None:
    return None if stream.time is None else Life(stream.time, None, stream.window_us)
