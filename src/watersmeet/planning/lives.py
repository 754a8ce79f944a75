"""Lives: when a row can be joined, and which columns tell it.

A row of a stream with event times lives from its time on, for as long as the stream's window. Rows are joined only if
all their lives overlap, and the result lives for what they have in common: from the latest beginning to the earliest
end (CAPE 3.2, PSP 2). So every input of a stream with times keeps them, and where any stream has a window, operators
hand up two columns more, the beginning and the end of a result's life. They do so, too, where conditions compare times
of their streams with those of streams that are joined higher up: of a result of A and B, no row of C is joined that
begins at its end or later, if conditions say how much later than A or B rows of C may be.

All times are whole microseconds since 1970. A window is a length of time: a day has 24 hours, whatever clocks do.
"""

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from msgspec.structs import replace

from watersmeet.model.errors import QueryError, TypeMismatchError, UnknownNameError, nearest
from watersmeet.model.ids import InputName
from watersmeet.model.plan import Column, Input, Life, Operator, Plan, Stream
from watersmeet.model.query import StreamNode
from watersmeet.planning.names import Scope
from watersmeet.planning.pruning import streams_of_inputs
from watersmeet.planning.reach import Reach, between
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
                why=f"a {what} is a length of event time, and the stream has no column for it",
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
                why="without a time zone for both, their order is unknown",
                how="cast one of the columns, as in df.withColumn('ts', F.col('ts').cast('timestamp'))",
            )


def with_lives(plan: Plan, reach: Reach) -> Plan:
    """A plan whose inputs keep what tells when their rows live, and how far they reach by the conditions."""
    if not any(stream.time for stream in plan.streams):
        return plan
    draft = _Lives(plan, reach)
    operators = tuple(map(draft.operator, plan.operators))
    columns = {column: pa.int64() for life in draft.told.values() for column in life.columns}
    return replace(plan, operators=operators, columns=tuple({**plan.types, **columns}.items()))


@dataclass
class _Lives:
    """What is known of the inputs of a plan, and by operator the columns that are ``told`` of its results."""

    plan: Plan
    reach: Reach
    told: dict[str, Life] = field(default_factory=dict)

    def operator(self, operator: Operator) -> Operator:
        """An operator whose inputs keep what tells of their lives; those below it have come before."""
        if operator.kind == "aggregate":
            inputs = tuple(_kept_until(each, operator, self.plan) for each in operator.inputs)
            return replace(operator, inputs=inputs)
        inputs = tuple(self._reaching(self._living(each), operator) for each in operator.inputs)
        if not self._is_told(operator) or not any(each.life for each in inputs):
            return replace(operator, inputs=inputs)
        life = self.told[operator.id] = life_columns(operator.id)
        inputs = tuple(self._met_above(each, operator) for each in inputs)
        return replace(operator, inputs=inputs, output=(*operator.output, *life.columns), life=life)

    def _living(self, source: Input) -> Input:
        life = self.told.get(str(source.operator)) if source.operator else _own(self.plan.stream(source.name))
        if life is None:
            return source
        state = tuple(dict.fromkeys((*source.state, *life.columns)))
        return replace(source, life=life, state=state, bounded=life.columns)

    def _reaching(self, source: Input, operator: Operator) -> Input:
        others = [each.name for each in operator.inputs if each.name != source.name]
        own = self._timed[source.name]
        pairs = ((other, between(self.reach, own, self._timed[other])) for other in others)
        return replace(source, reach=tuple((other, later) for other, later in pairs if later is not None))

    def _is_told(self, operator: Operator) -> bool:
        """Whether the operator above asks when results live: by windows, or by conditions with streams of its own."""
        above = any(source.operator == operator.id for each in self._joins for source in each.inputs)
        own = self._timed[InputName(operator.id)]
        has_windows = any(stream.window_us is not None for stream in self.plan.streams)
        return above and (has_windows or any((one in own) != (other in own) for one, other in self.reach))

    def _met_above(self, source: Input, operator: Operator) -> Input:
        """An input with until when its rows can meet others in results of operators above."""
        own = self._timed[InputName(operator.id)]
        outside = [stream.name for stream in self.plan.streams if stream.time and stream.name not in own]
        later = between(self.reach, self._timed[source.name], outside)
        if source.life is None or later is None:
            return source
        return replace(source, life=replace(source.life, above_us=later + 1))

    @cached_property
    def _joins(self) -> list[Operator]:
        return [each for each in self.plan.operators if each.kind != "aggregate"]

    @cached_property
    def _timed(self) -> dict[InputName, list[str]]:
        """The streams with times that each input brings, in query order."""
        streams = streams_of_inputs(self._joins)
        return {
            name: [each.name for each in self.plan.streams if each.time and each.name in own]
            for name, own in streams.items()
        }


def ends_by_time(plan: Plan, source: Input) -> bool:
    """Whether rows of an input end: by the window of a stream below, or by conditions with streams above that."""
    if source.stream:
        return plan.stream(source.stream).window_us is not None
    below = plan.operator(str(source.operator)).inputs
    return any((each.life is not None and each.life.above_us is not None) or ends_by_time(plan, each) for each in below)


def reach_of_input(source: Input) -> dict[str, int]:
    """How many microseconds later than its rows others may begin: by input, and of all that are joined higher up."""
    above = None if source.life is None else source.life.above_us
    return dict(source.reach) if above is None else {**dict(source.reach), "inputs above": above - 1}


def _kept_until(source: Input, operator: Operator, plan: Plan) -> Input:
    """A group of rows lives until no row for it can come any more; of a range of time, rows end by themselves.

    Without promises nothing ends. Then runs are better not kept apart by age: rows leave as they are merged with later
    ones of their group.
    """
    is_range = operator.history is not None and operator.history.time_us is not None
    ends = is_range and all(stream.delay_us is not None for stream in plan.streams)
    last = operator.final or (operator.order if ends else None)
    return source if last is None else replace(source, life=Life(last), bounded=(last,))


def _own(stream: Stream) -> Life | None:
    return None if stream.time is None else Life(stream.time, None, stream.window_us)
