"""Joins without an equality, for the law: comparisons, bands, disjunctions and what only Spark can evaluate."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.support.draws import NAMES, TimedCase
from watersmeet.model.query import JoinNode, Node, Query, StreamNode
from watersmeet.planning.predicates import predicate_name

PREDICATE, OF_THREE = predicate_name(1, "close"), predicate_name(2, "beyond")
_BETWEEN_TWO = (
    PREDICATE + "({a}.x, {b}.x)",
    "ABS({a}.x - {b}.x) < 2",
    "ABS({a}.x - {b}.y) <= 1",
    "2 > ABS({b}.f - {a}.f)",
    "ABS({a}.f - {b}.f) <= 0.5",
    "ABS({a}.x - {b}.f) < 1.5",
    "{a}.x - {b}.y >= 1",
    "{a}.f - {b}.f > 0.5",
    "NOT ABS({a}.x - {b}.x) <= 1",
    "ABS({a}.x - {b}.x) >= 2",
    "{a}.x < {b}.x",
    "{a}.x <= {b}.y AND {b}.x <= {a}.y",
    "{a}.f > {b}.f AND {a}.x >= {b}.x",
    "{a}.x BETWEEN {b}.x - 1 AND {b}.x + 1",
    "{a}.x <> {b}.x",
    "{a}.t < {b}.t",
    "startswith({a}.t, {b}.t)",
    "LEFT({a}.t, LENGTH({b}.t)) = {b}.t",
    "{a}.t LIKE CONCAT({b}.t, '%')",
    "({a}.x = {b}.x OR {a}.y < {b}.y)",
    "({a}.x < {b}.x OR {a}.f IS NULL)",
    "NOT ({a}.x > {b}.y AND {a}.x IS NOT NULL)",
    "{a}.x + {b}.x > 4",
    "({a}.x * {b}.y) % 3 = 1",
    "{a}.x - {b}.x = 2",
    "{a}.x IN ({b}.x, {b}.y)",
    "({a}.x = {b}.x OR {a}.y = {b}.y)",
    "({a}.x = {b}.y AND {a}.t < {b}.t OR {a}.f = {b}.f OR {a}.d > {b}.d AND {a}.x <> {b}.y)",
    "ABS({a}.x - {b}.x) < {a}.y",
    "ABS({a}.f - {b}.f) <= {b}.f",
    "{a}.x + {b}.f - {b}.y <= 3",
    "ABS({a}.f + {b}.f - {a}.y) < 2 * 3",
    "ABS({a}.d - {b}.d) < 0.05",
    "ABS({a}.d - {b}.d) <= {a}.f",
    "{a}.d BETWEEN {b}.d AND {b}.y",
    "{a}.d + {b}.d = 0.04",
    "{a}.d <= {b}.d",
    "ABS({a}.g - {b}.g) < 0.5",
    "{a}.g - {b}.x > {b}.y",
    "{a}.t BETWEEN {b}.t AND 'b'",
    "SQRT(POW({a}.f - {b}.f, 2) + POW({a}.x - {b}.x, 2)) < 2",
    "ABS({a}.x - {b}.x) + ABS({a}.y - {b}.y) <= 2",
    "{a}.x * {b}.f > {a}.y",
    "{a}.x / {b}.y < 1",
    "{a}.g * {b}.g = {a}.f",
    "{a}.ts < {b}.ts",
    "{b}.ts BETWEEN {a}.ts - INTERVAL 3 MICROSECONDS AND {a}.ts + INTERVAL 2 MICROSECONDS",
)


@st.composite
def ring_cases(
    draw: st.DrawFn, most_streams: int = 5, most_epochs: int = 4, most_rows: int = 6, *, ends: bool = False
) -> TimedCase:
    """Streams with or without windows, or all with; each is connected with one before it, mostly not by an equality."""
    names = NAMES[: draw(st.integers(2, most_streams))]
    schema = pa.schema(
        [
            ("x", pa.int64()),
            ("y", pa.int32()),
            ("f", pa.float64()),
            ("g", pa.float32()),
            ("d", pa.decimal128(10, 2)),
            ("t", pa.string()),
            ("id", pa.int64()),
        ]
    )
    time = pa.field("ts", pa.timestamp("us", "UTC"))
    nodes = [
        StreamNode(
            name,
            schema.append(time),
            "ts",
            draw(st.sampled_from([3, 10, 30] if ends else [None, 3, 10, 30])),
            draw(st.sampled_from([0, 2, 5] if ends else [None, 0, 2, 5])),
        )
        for name in names
    ]
    node, conditions = draw(_joined(nodes))
    ids, rng = iter(range(10**6)), np.random.default_rng(draw(st.integers(0, 2**32)))
    epochs = tuple(
        {name: _table(rng, schema.append(time), most_rows, ids, 6 * epoch) for name in names}
        for epoch in range(draw(st.integers(1, most_epochs)))
    )
    return TimedCase(Query(node), conditions, epochs)


@st.composite
def _joined(draw: st.DrawFn, nodes: list[StreamNode]) -> tuple[Node, tuple[str, ...]]:
    """One join of all, or one after the other."""
    links = [draw(_links([each.name for each in nodes[:n]], nodes[n].name)) for n in range(1, len(nodes))]
    conditions = tuple(text for link in links for text in link)
    if draw(st.booleans()):
        return JoinNode(tuple(nodes), " AND ".join(conditions)), conditions
    node: Node = nodes[0]
    for stream, link in zip(nodes[1:], links, strict=True):
        node = JoinNode((node, stream), " AND ".join(link))
    return node, conditions


@st.composite
def _links(draw: st.DrawFn, before: list[str], last: str) -> tuple[str, ...]:
    texts = []
    if draw(st.integers(0, 11)) == 0:
        return f"{before[0]}.x < 3", f"{last}.x > 1"
    for _ in range(draw(st.integers(1, 2))):
        pair = draw(st.permutations([draw(st.sampled_from(before)), last]))
        texts.append(draw(st.sampled_from(_BETWEEN_TWO)).format(a=pair[0], b=pair[1]))
    if draw(st.integers(0, 5)) == 0:
        texts.append(f"{before[0]}.y = {last}.y")
    if len(before) > 1 and draw(st.integers(0, 3)) == 0:
        texts.append(f"{before[0]}.x + {before[1]}.x > {last}.x")
    if len(before) > 1 and draw(st.integers(0, 3)) == 0:
        texts.append(f"{OF_THREE}({before[0]}.x, {before[1]}.x, {last}.x)")
    return tuple(dict.fromkeys(texts))


def _table(rng: np.random.Generator, schema: pa.Schema, most_rows: int, ids: Iterator[int], now: int) -> pa.Table:
    """Few distinct values, so that conditions hold often; some rows are late, some values null."""
    rows = int(rng.integers(0, most_rows + 1))

    def drawn(values: Sequence[object]) -> list[object]:
        return [None if rng.random() < 0.1 else values[number] for number in rng.integers(0, len(values), rows)]

    moments = now + rng.integers(0, 8, rows) - np.where(rng.random(rows) < 0.15, 15, 0)
    columns = {
        "x": drawn([0, 1, 2, 3, 5]),
        "y": drawn([0, 1, 2, 3, 5]),
        "f": drawn([0.0, -0.0, 0.5, 1.0, 2.5, float("nan"), float("inf")]),
        "g": drawn([0.0, -0.0, 0.1, 0.6, 2.5, float("nan"), float("-inf")]),
        "d": drawn([Decimal(each) for each in ("0.00", "0.01", "-0.04", "0.05", "1.00", "3.00")]),
        "t": drawn(["a", "b", "ab", "", "a%", "_b"]),
        "id": [next(ids) for _ in range(rows)],
        "ts": pa.array(moments, mask=rng.random(rows) < 0.05).cast(schema.field("ts").type),
    }
    return pa.table(columns, schema=schema)
