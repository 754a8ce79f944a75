"""The dataflow of a plan: tags, layouts, schemas and ways of travel. Made anew when the manifest has another plan."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from watersmeet.model.plan import Column, Input, Key, Life, Operator, Plan, Stream, group_column, operator_of
from watersmeet.operators.hashing import is_hashable
from watersmeet.operators.promises.patterns import KEY, SHAPE
from watersmeet.operators.promises.ranges import is_countable
from watersmeet.operators.spec import Aggregated, AggregateSpec, InputSpec, LifeSpec, OperatorSpec
from watersmeet.site.layout import ROW, Layout, pack
from watersmeet.site.travel import NOTHING, SITE_NUMBER, Parcels, Route, Rows, Slots, Travel
from watersmeet.state.manifest import Manifest

PROMISES_OF, WORD = "#promises", "#word"


@dataclass(frozen=True)
class Topology:
    """A plan with a tag for every input; exchange *k* feeds level *k*.

    With ``whole_rows``, streams have one column more, the whole row as JSON, in case it is rejected.
    """

    plan: Plan
    parcels: bool = True
    whole_rows: bool = False

    @cached_property
    def inputs(self) -> Mapping[int, tuple[Operator, Input]]:
        """Every input of every operator, by tag."""
        pairs = [(operator, source) for operator in self.plan.operators for source in operator.inputs]
        return dict(enumerate(pairs))

    @cached_property
    def specs(self) -> Mapping[int, InputSpec]:
        """The same as the site tasks know it."""
        return {tag: self._input_spec(tag, operator, source) for tag, (operator, source) in self.inputs.items()}

    @property
    def depth(self) -> int:
        """The number of levels."""
        return self.plan.root.level + 1

    def stream_tags(self) -> dict[int, Input]:
        """The inputs that are streams, by tag."""
        return {tag: source for tag, (_, source) in self.inputs.items() if source.stream}

    def is_preserved(self, tag: int) -> bool:
        """Whether rows of an input may come out without a match."""
        operator, source = self.inputs[tag]
        return any(operator.inputs[number].name == source.name for number in operator.preserved)

    def fed_by_level(self, level: int) -> dict[int, tuple[Operator, Input]]:
        """The inputs fed by the operators of a level, by tag, with the operator below."""
        fed = ((tag, source) for tag, (_, source) in self.inputs.items() if source.operator)
        below = ((tag, self.plan.operator(str(source.operator)), source) for tag, source in fed)
        return {tag: (operator, source) for tag, operator, source in below if operator.level == level}

    def incoming(self, level: int) -> Layout:
        """The layout of the exchange below a level."""
        if level == 0:
            rows = {tag: (*source.state, *self.unkept(source)) for tag, source in self.stream_tags().items()}
            return self._pack(rows | {tag: self.promise_columns(each) for tag, each in self.promise_tags().items()})
        return self._pack({tag: source.state for tag, (_, source) in self.fed_by_level(level - 1).items()})

    def promise_tags(self) -> dict[int, Stream]:
        """The streams that have punctuations, by the tag of these."""
        streams = [stream for stream in self.plan.streams if stream.punctuated is not None]
        return dict(enumerate(streams, start=len(self.inputs)))

    def promise_columns(self, stream: Stream) -> tuple[Column, ...]:
        """The columns of a stream's punctuations in their normal form."""
        fields = [SHAPE, KEY]
        for column in stream.punctuated or ():
            words = [] if is_countable(self.plan.types[column]) else [word_column(column).field]
            fields += [column.field, f"{column.field}#until", *words]
        return tuple(Column(promises_name(stream.name), field) for field in fields)

    def promised_key(self, stream: Stream) -> tuple[Key, ...]:
        """The key of a stream's rows, if punctuations may name all it is made of; else nothing."""
        found = next(source.keys for source in self.stream_tags().values() if source.name == stream.name)
        keys = tuple(replace(key, sql=key.bare or key.sql) for key in found)
        own = (column for column in self.plan.types if column.stream == stream.name)
        read = {column for column in own if any(column.sql in key.sql for key in keys)}
        return keys if read <= {*(stream.punctuated or ())} else ()

    def unkept(self, source: Input) -> tuple[Column, ...]:
        """Columns of a stream that come to a site and are not kept: what promises name, and the row as JSON."""
        own = [stream for stream in self.plan.streams if stream.name == source.name]
        named = dict.fromkeys(column for stream in own for column in (*(stream.punctuated or ()), *stream.unique))
        words = (word_column(column) for column in named if not is_countable(self.plan.types[column]))
        rows = (Column(source.name, ROW),) if self.whole_rows else ()
        return (*(column for column in named if column not in source.state), *words, *rows)

    def outgoing(self, level: int) -> Layout:
        """The layout of what a level produces for the next."""
        return self._pack({tag: operator.output for tag, (operator, _) in self.fed_by_level(level).items()})

    def operators(self, level: int) -> tuple[OperatorSpec, ...]:
        """The operators of a level as its site tasks know them."""
        return tuple(self._operator_spec(operator) for operator in self.plan.levels[level])

    def travel(self, level: int, manifest: Manifest) -> Travel:
        """How results leave a level: the one place where that is chosen."""
        if level == self.depth - 1:
            return Rows(self.flat_schema())
        if not self.packs(level + 1):
            return Slots(self.outgoing(level))
        routes = {tag: self._route(tag, manifest) for tag in self.fed_by_level(level)}
        return Parcels(routes, manifest.groups)

    def _route(self, tag: int, manifest: Manifest) -> Route:
        state = manifest.operators[self.inputs[tag][0].id]
        sites = np.asarray(state.routing, dtype=SITE_NUMBER).tobytes()
        return Route(self.specs[tag], self.plain_keys(tag), sites, state.splits)

    def packs(self, level: int) -> bool:
        """Whether rows travel to a level in parcels: no filter is in between, and their next keys are hashed here.

        If the level below has no operator, nothing but the names of runs goes up.
        """
        fed = self.fed_by_level(level - 1).items()
        return level > 0 and (not fed or self.parcels) and all(self._may_pack(tag, below) for tag, (below, _) in fed)

    def _may_pack(self, tag: int, below: Operator) -> bool:
        """Nothing has to be evaluated by Spark in between, and rows with a null key may be dropped."""
        is_plain = not below.filters and not self.inputs[tag][1].computed and bool(self.plain_keys(tag))
        return is_plain and not self.is_preserved(tag)

    def plain_keys(self, tag: int) -> tuple[str, ...]:
        """The columns that are an input's key; none where a part of it has to be computed by Spark."""
        keys = [(key, self._columns.get(key.sql)) for key in self.inputs[tag][1].keys]
        plain = [column.name for key, column in keys if column and self.plan.types[column] == key.type]
        return tuple(plain) if len(plain) == len(keys) and all(is_hashable(key.type) for key, _ in keys) else ()

    def row_schema(self) -> pa.Schema:
        """The joined row: a struct column per stream, of the columns that are needed."""
        by_stream: dict[str, list[pa.Field]] = {}
        for column in self.plan.root.output:
            by_stream.setdefault(column.stream, []).append(pa.field(column.field, self.plan.types[column]))
        fields = [pa.field(stream, pa.struct(children)) for stream, children in by_stream.items()]
        return pa.schema(fields or [pa.field(NOTHING, pa.bool_())])

    def flat_schema(self) -> pa.Schema:
        """The joined row as the root's tasks yield it: the columns of all streams side by side."""
        fields = [pa.field(column.name, self.plan.types[column]) for column in self.plan.root.output]
        return pa.schema(fields or [pa.field(NOTHING, pa.bool_())])

    def stream_columns(self) -> dict[str, tuple[Column, ...]]:
        """The columns that are needed of every stream in any plan: what is kept of it, and what its key reads."""
        return {source.name: self._read(source) for source in self.stream_tags().values()}

    def _read(self, source: Input) -> tuple[Column, ...]:
        texts = [*(key.sql for key in source.keys), *(sql for _, sql in source.computed)]
        own = [
            column for column in self.plan.types if column.stream == source.name and not column.field.startswith("#")
        ]
        read = (column for column in own if column in source.state or any(column.sql in text for text in texts))
        return tuple(dict.fromkeys((*read, *self.unkept(source))))

    @cached_property
    def _columns(self) -> Mapping[str, Column]:
        """Every column by its SQL."""
        return {column.sql: column for column in self.plan.types}

    def _pack(self, columns: Mapping[int, tuple[Column, ...]]) -> Layout:
        return pack(columns, self.types_of(column for some in columns.values() for column in some))

    def types_of(self, columns: Iterable[Column]) -> dict[Column, pa.DataType]:
        """The types of columns, also of those that are only on their way to a site."""
        return {column: self._type_of(column) for column in columns}

    def _type_of(self, column: Column) -> pa.DataType:
        if column in self.plan.types:
            return self.plan.types[column]
        if column.field == ROW:
            return pa.string()
        if column.field in (SHAPE, KEY) or column.field.endswith(WORD):
            return pa.int64()
        stream = column.stream.removesuffix(PROMISES_OF)
        return self.plan.types[Column(stream, column.field.removesuffix("#until"))]

    def _operator_spec(self, operator: Operator) -> OperatorSpec:
        inputs = tuple(spec for spec in self.specs.values() if spec.operator == operator.id)
        above = [tag for tag, (_, source) in self.inputs.items() if source.operator == operator.id]
        column = group_column(operator.id)
        own = column.name if column in operator.output else None
        below = () if above else tuple(name for spec in inputs for name in spec.traces)
        tag = above[0] if above else None
        return OperatorSpec(
            operator.id,
            inputs,
            operator.hash_decides,
            tag,
            own,
            below,
            operator.kind,
            operator.is_windowed,
            _life_spec(operator.life),
            operator.how,
            operator.tests,
            operator.preserved,
            _aggregate_spec(operator),
            bounds=operator.bounds,
        )

    def _input_spec(self, tag: int, operator: Operator, source: Input) -> InputSpec:
        schema = pa.schema([pa.field(column.name, self.plan.types[column]) for column in source.state])
        key_values = source.key_values or tuple(key.column for key in source.keys if key.column)
        keys = tuple(column.name for column in key_values)
        traces = tuple(name for name in schema.names if operator_of(name))
        bounded = tuple(column.name for column in source.bounded)
        life = _life_spec(source.life)
        everywhere = operator.kind == "ring"
        return InputSpec(tag, operator.id, source.name, operator.level, schema, keys, traces, bounded, life, everywhere)


def promises_name(stream: str) -> str:
    """The name of a stream's punctuations.

    >>> promises_name("B")
    'B#promises'
    """
    return f"{stream}{PROMISES_OF}"


def word_column(column: Column) -> Column:
    """The column of what is hashed of another one."""
    return Column(column.stream, f"{column.field}{WORD}")


def _aggregate_spec(operator: Operator) -> AggregateSpec | None:
    if operator.kind != "aggregate":
        return None
    made = tuple(
        Aggregated(f"{operator.id}.{each.name}", each.function, each.argument, each.type)
        for each in operator.aggregates
    )
    order, final = (column.name if column else "" for column in (operator.order, operator.final))
    return AggregateSpec(made, operator.mode, operator.renamed, operator.history, order, operator.sliding, final)


def _life_spec(life: Life | None) -> LifeSpec | None:
    return (
        None if life is None else LifeSpec(life.begin.name, life.end and life.end.name, life.window_us, life.above_us)
    )
