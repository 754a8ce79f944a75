"""Punctuations as hypothesis draws them, in their normal form, and row by row as the rules say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from watersmeet.model.query import StreamNode
from watersmeet.operators.promises.patterns import SHAPE, shape_of

Value = int | str
Pattern = Mapping[str, tuple[Value] | tuple[Value | None, Value | None]]
"""By column a value, or a range with its bounds; columns that are not there may be anything."""


@dataclass(frozen=True)
class Punctuated:
    """The punctuations of a stream, by epoch."""

    columns: tuple[str, ...]
    epochs: tuple[tuple[Pattern, ...], ...]

    def table(self, epoch: int, schema: pa.Schema) -> pa.Table:
        """Those of an epoch in their normal form."""
        rows = [_normal(pattern, self.columns) for pattern in self.epochs[epoch]]
        fields = [pa.field(SHAPE, pa.int64())]
        for name in self.columns:
            kind = schema.field(name).type
            fields += [pa.field(name, kind), pa.field(f"{name}#until", kind)]
        columns = [pa.array([row.get(each.name) for row in rows], _plain(each.type)).cast(each.type) for each in fields]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def written(self, epoch: int, schema: pa.Schema) -> pa.Table:
        """Those of an epoch as a user writes them: values, or ranges where some are."""
        rows, columns = self.epochs[epoch], {}
        for name in self.columns:
            bounds = [pattern.get(name) for pattern in rows]
            kind, plain = schema.field(name).type, _plain(schema.field(name).type)
            if any(len(pattern.get(name, ())) == 2 for some in self.epochs for pattern in some):
                ranges = [None if each is None else _range(each) for each in bounds]
                lows, highs = (pa.array([None if each is None else each[n] for each in ranges], plain) for n in (0, 1))
                fields = [pa.field("low", kind), pa.field("high", kind)]
                is_any = pa.array([each is None for each in ranges], pa.bool_())
                columns[name] = pa.StructArray.from_arrays(
                    [lows.cast(kind), highs.cast(kind)], fields=fields, mask=is_any
                )
            else:
                columns[name] = pa.array([None if each is None else each[0] for each in bounds], plain).cast(kind)
        return pa.table(columns)

    def broken_by(self, row: Mapping[str, object], epoch: int) -> bool:
        """Whether a row of an epoch breaks a promise that held before."""
        return any(matches(pattern, row) for epochs in self.epochs[:epoch] for pattern in epochs)

    def promises_key(self, key: Value, epochs: int, name: str = "k0") -> bool:
        """Whether no row with a key comes any more after so many epochs."""
        return any(
            pattern in ({}, {"ts": (None, None)}) or (set(pattern) == {name} and matches(pattern, {name: key}))
            for some in self.epochs[:epochs]
            for pattern in some
        )

    def has_ended(self, epochs: int) -> bool:
        everything = ({}, {"ts": (None, None)})
        return any(pattern in everything for some in self.epochs[:epochs] for pattern in some)

    def until(self, epochs: int) -> int | None:
        """The time before which no row comes any more."""
        only = [pattern["ts"] for some in self.epochs[:epochs] for pattern in some if set(pattern) == {"ts"}]
        times = [bounds[1] for bounds in only if len(bounds) == 2 and bounds[0] is None]
        return max((time for time in times if time is not None), default=None)


def matches(pattern: Pattern, row: Mapping[str, object]) -> bool:
    return all(_is_in(row[name], bounds) for name, bounds in pattern.items())


def _is_in(value: object, bounds: Sequence[Value | None]) -> bool:
    if value is None:
        return False
    if len(bounds) == 1:
        return value == bounds[0]
    low, high = bounds
    return (low is None or value >= low) and (high is None or value < high)  # type: ignore[operator]


def _range(bounds: Sequence[Value | None]) -> Sequence[Value | None]:
    """A value as a range: of texts, the next one has a zero more."""
    if len(bounds) == 2:
        return bounds
    value = bounds[0]
    return (value, f"{value}\0" if isinstance(value, str) else value + 1)  # type: ignore[operator]


def _normal(pattern: Pattern, columns: Sequence[str]) -> dict[str, object]:
    values = [number for number, name in enumerate(columns) if len(pattern.get(name, ())) == 1]
    ranges = [number for number, name in enumerate(columns) if len(pattern.get(name, ())) == 2]
    row: dict[str, object] = {SHAPE: shape_of(values, ranges)}
    for name, bounds in pattern.items():
        row[name] = bounds[0]
        row[f"{name}#until"] = bounds[1] if len(bounds) == 2 else None
    return row


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


@st.composite
def punctuations(draw: st.DrawFn, node: StreamNode, epochs: int, start: int = 0) -> Punctuated:
    """Few values, as those of rows are; now and then the stream ends."""
    columns = tuple(name for name in node.schema.names if name == "k0" or draw(st.booleans()))
    some = [tuple(draw(st.lists(_patterns(node, columns, start + 6 * n), max_size=3))) for n in range(epochs)]
    return Punctuated(columns, tuple(some))


@st.composite
def _patterns(draw: st.DrawFn, node: StreamNode, columns: Sequence[str], now: int) -> Pattern:
    chosen = draw(st.sampled_from([("k0",), ("k0",), ("k0",), *((name,) for name in columns), columns, ()]))
    if not chosen and draw(st.integers(0, 3)):
        chosen = ("k0",)
    pattern = {}
    for name in chosen:
        values = _values(node, name, now)
        is_value = draw(st.booleans())
        pattern[name] = (draw(values),) if is_value else (draw(st.none() | values), draw(st.none() | values))
    return pattern


def _values(node: StreamNode, name: str, now: int) -> st.SearchStrategy[Value]:
    kind = node.schema.field(name).type
    if name == "ts":
        return st.integers(now - 10, now + 8)
    if name == "id":
        return st.integers(0, 40)
    return st.sampled_from(["a", "b", "", "c"]) if pa.types.is_string(kind) else st.integers(0, 4)
