"""Punctuations as hypothesis draws them, in their normal form, and row by row as the rules say."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from watersmeet.model.query import StreamNode
from watersmeet.operators.promises.patterns import SHAPE, shape_of

FOREVER = 1 << 62
Value = bool | int | float | str | Decimal | date
KEYS: Mapping[pa.DataType, Sequence[Value]] = {
    pa.string(): ["a", "b", "", "c"],
    pa.bool_(): [True, False],
    pa.float64(): [0.0, -0.0, 1.5, float("nan")],
    pa.date32(): [date(1969, 12, 31), date(1970, 1, 1), date(2026, 2, 28), date(2026, 3, 1)],
    pa.timestamp("us", "UTC"): [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2026, 3, 8, 7, tzinfo=UTC)],
    pa.decimal128(9, 2): [Decimal("-0.01"), Decimal("0.00"), Decimal("1.50"), Decimal("12.00")],
}
"""Few distinct values of each type, so that keys meet."""

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
        columns = [_array([row.get(each.name) for row in rows], each.type) for each in fields]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def written(self, epoch: int, schema: pa.Schema) -> pa.Table:
        """Those of an epoch as a user writes them: values, or ranges where some are."""
        rows, columns = self.epochs[epoch], {}
        for name in self.columns:
            bounds = [pattern.get(name) for pattern in rows]
            kind = schema.field(name).type
            if any(len(pattern.get(name, ())) == 2 for some in self.epochs for pattern in some):
                ranges = [None if each is None else _range(each) for each in bounds]
                lows, highs = (_array([None if each is None else each[n] for each in ranges], kind) for n in (0, 1))
                fields = [pa.field("low", kind), pa.field("high", kind)]
                is_any = pa.array([each is None for each in ranges], pa.bool_())
                columns[name] = pa.StructArray.from_arrays([lows, highs], fields=fields, mask=is_any)
            else:
                columns[name] = _array([None if each is None else each[0] for each in bounds], kind)
        return pa.table(columns)

    def broken_by(self, row: Mapping[str, object], epoch: int) -> bool:
        """Whether a row of an epoch breaks a promise that held before."""
        return any(matches(pattern, row) for epochs in self.epochs[:epoch] for pattern in epochs)

    def promises_key(self, key: Value, epochs: int, name: str = "k0") -> bool:
        """Whether no row with a key comes any more after so many epochs."""
        own = [pattern for some in self.epochs[:epochs] for pattern in some if set(pattern) == {name}]
        return self.has_ended(epochs) or any(matches(pattern, {name: key}) for pattern in own)

    def promises_key_until(self, key: Value, epochs: int, name: str = "k0") -> int | None:
        """The time before which no row with a key comes any more."""
        own = [pattern for some in self.epochs[:epochs] for pattern in some if set(pattern) == {name, "ts"}]
        own = [pattern for pattern in own if len(pattern["ts"]) == 2 and pattern["ts"][0] is None]
        ends = [pattern["ts"][1] for pattern in own if matches({name: pattern[name]}, {name: key})]
        return max((FOREVER if end is None else end for end in ends), default=None)  # type: ignore[type-var]

    def promises_group(self, key: Mapping[str, object], epochs: int) -> bool:
        """Whether a pattern names no more than a key, which matches it; of a window, the end."""
        own = [pattern for some in self.epochs[:epochs] for pattern in some if pattern and set(pattern) <= set(key)]
        return any(all(_holds(name, bounds, key[name]) for name, bounds in pattern.items()) for pattern in own)

    def has_ended(self, epochs: int) -> bool:
        is_over = self.until(epochs) == FOREVER
        return is_over or any(
            pattern in ({}, {"ts": (None, None)}) for some in self.epochs[:epochs] for pattern in some
        )

    def until(self, epochs: int) -> int | None:
        """The time before which no row comes any more: ranges that continue each other count."""
        only = [pattern["ts"] for some in self.epochs[:epochs] for pattern in some if set(pattern) == {"ts"}]
        ranges = [bounds if len(bounds) == 2 else (bounds[0], bounds[0] + 1) for bounds in only]  # type: ignore[operator]
        spans = [(low, FOREVER if high is None else high) for low, high in ranges]
        until = max((high for low, high in spans if low is None), default=None)
        while until is not None and (later := [high for low, high in spans if low is not None and low <= until < high]):
            until = max(later)
        return until


def matches(pattern: Pattern, row: Mapping[str, object]) -> bool:
    return all(_is_in(row[name], bounds) for name, bounds in pattern.items())


def _is_in(value: object, bounds: Sequence[Value | None]) -> bool:
    if value is None:
        return False
    value, bounds = ordered(value), [ordered(bound) for bound in bounds]
    if len(bounds) == 1:
        return value == bounds[0]
    low, high = bounds
    return (low is None or value >= low) and (high is None or value < high)  # type: ignore[operator]


def _holds(name: str, bounds: Sequence[Value | None], value: object) -> bool:
    if name != "ts":
        return _is_in(value, bounds)
    end = value["end"].timestamp() * 1e6  # type: ignore[index]
    return len(bounds) == 2 and bounds[0] is None and (bounds[1] is None or round(end) <= bounds[1])  # type: ignore[operator]


def ordered(value: object) -> object:
    """A value as Spark compares it: not a number is one, and the greatest of all."""
    return math.inf if value != value else value  # noqa: PLR0124


def _range(bounds: Sequence[Value | None]) -> Sequence[Value | None]:
    """A value as a range: of texts, the next one has a zero more; the greatest values have none."""
    if len(bounds) == 2:
        return bounds
    (value,) = bounds
    if value is True or value != value:  # noqa: PLR0124
        return (value, None)
    return (value, _next(value))


def _next(value: Value | None) -> Value:
    match value:
        case bool() | int():
            return type(value)(value + 1)
        case str():
            return f"{value}\0"
        case float():
            return math.nextafter(value, math.inf)
        case datetime():
            return value + timedelta(microseconds=1)
        case date():
            return value + timedelta(days=1)
    return Decimal(str(value)) + Decimal("0.01")


def _normal(pattern: Pattern, columns: Sequence[str]) -> dict[str, object]:
    values = [number for number, name in enumerate(columns) if len(pattern.get(name, ())) == 1]
    ranges = [number for number, name in enumerate(columns) if len(pattern.get(name, ())) == 2]
    row: dict[str, object] = {SHAPE: shape_of(values, ranges)}
    for name, bounds in pattern.items():
        row[name] = bounds[0]
        row[f"{name}#until"] = bounds[1] if len(bounds) == 2 else None
    return row


def _array(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Values of a type; times may be microseconds."""
    is_number = pa.types.is_timestamp(kind) and not any(isinstance(value, datetime) for value in values)
    return pa.array(values, pa.int64() if is_number else kind).cast(kind)


@st.composite
def punctuations(draw: st.DrawFn, node: StreamNode, epochs: int, start: int = 0) -> Punctuated:
    """Few values, as those of rows are; now and then the stream ends."""
    columns = tuple(name for name in node.schema.names if name == "k0" or draw(st.booleans()))
    some = [tuple(draw(st.lists(_patterns(node, columns, start + 6 * n), max_size=3))) for n in range(epochs)]
    return Punctuated(columns, tuple(some))


@st.composite
def _patterns(draw: st.DrawFn, node: StreamNode, columns: Sequence[str], now: int) -> Pattern:
    timed = [("k0", "ts")] * 2 if "ts" in columns else []
    chosen = draw(st.sampled_from([*[("k0",)] * 3, *timed, *((name,) for name in columns), columns, ()]))
    if not chosen and draw(st.integers(0, 3)):
        chosen = ("k0",)
    pattern = {}
    for name in chosen:
        values = _values(node, name, now)
        is_value = draw(st.booleans()) and (name != "ts" or chosen != ("k0", "ts"))
        pattern[name] = (draw(values),) if is_value else (draw(st.none() | values), draw(st.none() | values))
    return pattern


def _values(node: StreamNode, name: str, now: int) -> st.SearchStrategy[Value]:
    kind = node.schema.field(name).type
    if name == "ts":
        return st.integers(now - 10, now + 8)
    if name == "id":
        return st.integers(0, 40)
    return st.sampled_from(KEYS.get(kind, range(5)))
