"""What hypothesis draws: queries of nested joins over random streams, and the rows of their epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from msgspec import structs

from tests.support.punctuations import KEYS, Punctuated, ordered, punctuations
from watersmeet.model.query import FilterNode, JoinNode, Node, Query, StreamNode
from watersmeet.planning.tree import streams_of

KEY_TYPES = (pa.int64(), pa.int32(), pa.string(), pa.float64(), pa.bool_())
NAMES = "ABCDEF"


@dataclass(frozen=True)
class Case:
    """A query, its conditions, and the rows of its epochs by stream."""

    query: Query
    conditions: tuple[str, ...]
    epochs: tuple[dict[str, pa.Table], ...]

    @property
    def streams(self) -> dict[str, list[pa.Table]]:
        names = [name for name in self.epochs[0] if "#" not in name]
        return {name: [epoch[name] for epoch in self.epochs] for name in names}


@st.composite
def cases(draw: st.DrawFn, most_streams: int = 5, most_epochs: int = 4, most_rows: int = 5) -> Case:
    names = NAMES[: draw(st.integers(2, most_streams))]
    kinds = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=2))
    fields = [(f"k{number}", kind) for number, kind in enumerate(kinds)]
    schemas = {name: pa.schema([*fields, ("id", pa.int64())]) for name in names}
    node, conditions = draw(_trees([StreamNode(name, schemas[name]) for name in names], [name for name, _ in fields]))
    ids = iter(range(10**6))
    epochs = tuple(
        {name: draw(_tables(schemas[name], most_rows, ids)) for name in names}
        for _ in range(draw(st.integers(1, most_epochs)))
    )
    return Case(Query(node), conditions, epochs)


@st.composite
def _trees(draw: st.DrawFn, streams: list[StreamNode], fields: list[str]) -> tuple[Node, tuple[str, ...]]:
    """Cut the streams into parts, join each part, and join the parts."""
    if len(streams) == 1:
        return streams[0], ()
    cuts = draw(st.sets(st.integers(1, len(streams) - 1), min_size=1))
    bounds = [0, *sorted(cuts), len(streams)]
    parts = [streams[low:high] for low, high in pairwise(bounds)]
    trees = [draw(_trees(part, fields)) for part in parts]
    own = [draw(_links(streams[: bounds[n]], parts[n], fields)) for n in range(1, len(parts))]
    on = tuple(condition for conditions in own for condition in conditions)
    below = tuple(condition for _, conditions in trees for condition in conditions)
    return JoinNode(tuple(tree for tree, _ in trees), " AND ".join(on)), (*below, *on)


@st.composite
def _links(draw: st.DrawFn, left: list[StreamNode], right: list[StreamNode], fields: list[str]) -> tuple[str, ...]:
    """One or two equalities between streams that are already connected and a part that is not yet."""
    conditions = []
    for _ in range(draw(st.integers(1, 2))):
        a, b = draw(st.sampled_from(left)), draw(st.sampled_from(right))
        field = draw(st.sampled_from(fields))
        conditions.append(f"{a.name}.{field} = {b.name}.{field}")
    return tuple(dict.fromkeys(conditions))


@st.composite
def _tables(draw: st.DrawFn, schema: pa.Schema, most_rows: int, ids: object) -> pa.Table:
    rows = draw(st.integers(0, most_rows))
    columns = {
        field.name: draw(st.lists(_values(field.type), min_size=rows, max_size=rows))
        for field in schema
        if field.name != "id"
    }
    columns["id"] = [next(ids) for _ in range(rows)]
    return pa.table(columns, schema=schema)


def _values(kind: pa.DataType) -> st.SearchStrategy[object]:
    """Few distinct values, so that keys meet; some are null."""
    if pa.types.is_boolean(kind):
        return st.sampled_from([True, False, None])
    if pa.types.is_floating(kind):
        return st.sampled_from([0.0, -0.0, 1.5, float("nan"), None])
    if pa.types.is_string(kind):
        return st.sampled_from(["a", "b", "", None])
    return st.sampled_from([*KEYS.get(kind, [1, 2, 3]), None])


@st.composite
def skewed_cases(draw: st.DrawFn) -> Case:
    """A tree of three operators whose keys are skewed, with many rows that are the same."""
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    epochs = tuple({name: _skewed(rng, name) for name in "ABCDE"} for _ in range(3))
    abc = JoinNode(tuple(StreamNode(name, epochs[0][name].schema) for name in "ABC"), "A.k = B.k AND B.k = C.k")
    abcd = JoinNode((abc, StreamNode("D", epochs[0]["D"].schema)), "C.t = D.t")
    node = JoinNode((abcd, StreamNode("E", epochs[0]["E"].schema)), "D.k = E.k AND D.t = E.t")
    return Case(Query(node), ("A.k = B.k", "B.k = C.k", "C.t = D.t", "D.k = E.k", "D.t = E.t"), epochs)


def _skewed(rng: np.random.Generator, name: str) -> pa.Table:
    """A third of the rows have one key, some keys are null, the others spread widely."""
    rows = 8 if name in "DE" else 16
    keys = np.where(rng.random(rows) < 0.35, 7, rng.integers(0, 60, rows))
    texts = pa.array([f"t{value % 20}" for value in keys], mask=rng.random(rows) < 0.1)
    return pa.table({"k": pa.array(keys, mask=rng.random(rows) < 0.1), "t": texts})


@dataclass(frozen=True)
class TimedCase(Case):
    """A case whose streams have event times, windows and watermarks, and perhaps punctuations."""

    promises: Mapping[str, Punctuated] = field(default_factory=dict)

    @property
    def nodes(self) -> dict[str, StreamNode]:
        return {node.name: node for node in streams_of(self.query.node)}


@st.composite
def timed_cases(
    draw: st.DrawFn,
    most_streams: int = 4,
    most_epochs: int = 5,
    most_rows: int = 5,
    zone: str | None = "",
    kinds: Sequence[pa.DataType] = (pa.int64(), pa.string()),
) -> TimedCase:
    """Times are few microseconds, so that they meet the edges of windows; most rows are in order, some are late."""
    names = NAMES[: draw(st.integers(2, most_streams))]
    kind = draw(st.sampled_from(kinds))
    zone = draw(st.sampled_from([None, "UTC"])) if zone == "" else zone
    nodes, schemas = [], {}
    for name in names:
        has_time = draw(st.integers(0, 5)) > 0
        fields = [("k0", kind), ("id", pa.int64()), *([("ts", pa.timestamp("us", zone))] if has_time else [])]
        schemas[name] = pa.schema(fields)
        window = draw(st.sampled_from([None, 1, 2, 5, 10, 30])) if has_time else None
        delay = draw(st.sampled_from([None, 0, 2, 5])) if has_time else None
        nodes.append(StreamNode(name, schemas[name], "ts" if has_time else None, window, delay))
    node, conditions = draw(_trees(nodes, ["k0"]))
    if draw(st.booleans()):
        node, conditions = FilterNode(node, f"{names[0]}.id % 3 <> 1"), (*conditions, f"{names[0]}.id % 3 <> 1")
    timed = [each.name for each in nodes if each.time]
    for condition in draw(st.lists(_between_times(timed), max_size=3)) if len(timed) > 1 else ():
        node, conditions = FilterNode(node, condition), (*conditions, condition)
    ids = iter(range(10**6))
    start = draw(st.sampled_from([0, -20, 10**15]))
    epochs = tuple(
        {name: draw(_timed_tables(schemas[name], most_rows, ids, start + 6 * epoch)) for name in names}
        for epoch in range(draw(st.integers(1, most_epochs)))
    )
    return TimedCase(Query(node), conditions, epochs)


@st.composite
def _between_times(draw: st.DrawFn, streams: list[str]) -> str:
    """A condition on the times of two streams, which bounds them on one side or on both."""
    a, b = draw(st.permutations(streams))[:2]
    low, length = draw(st.integers(-6, 6)), draw(st.integers(0, 9))
    shape = draw(st.sampled_from(["{b} BETWEEN {a} {low} AND {a} {high}", "{b} > {a} {low}", "{a} {high} >= {b}"]))
    signs = {name: ("-" if us < 0 else "+", abs(us)) for name, us in {"low": low, "high": low + length}.items()}
    micros = {name: f"{sign} INTERVAL {us} MICROSECONDS" for name, (sign, us) in signs.items()}
    if draw(st.integers(0, 3)) == 0:  # the same in another way
        micros = {name: f"+ INTERVAL '{sign}{us}' MICROSECONDS" for name, (sign, us) in signs.items()}
    return shape.format(a=f"{a}.ts", b=f"{b}.ts", **micros)


@st.composite
def _timed_tables(draw: st.DrawFn, schema: pa.Schema, most_rows: int, ids: object, now: int) -> pa.Table:
    rows = draw(st.integers(0, most_rows))
    columns = {"k0": draw(st.lists(_values(schema.field("k0").type), min_size=rows, max_size=rows))}
    columns["id"] = [next(ids) for _ in range(rows)]
    if "ts" in schema.names:
        edges = st.sampled_from([now, now + 1, now + 2, now + 5])
        moments = st.one_of(edges, st.integers(now, now + 8), st.integers(now - 25, now + 8), st.none())
        columns["ts"] = pa.array(draw(st.lists(moments, min_size=rows, max_size=rows)), pa.int64())
        columns["ts"] = columns["ts"].cast(schema.field("ts").type)
    return pa.table(columns, schema=schema)


@dataclass(frozen=True)
class OuterCase(TimedCase):
    """A case whose last step is an outer, semi or anti join, perhaps on times that are ``within`` some microseconds.

    These are how much earlier and later the time of the last stream may be.
    """

    how: str = "left"
    on: str = ""
    left: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    reach: Mapping[tuple[str, str], int] = field(default_factory=dict)
    within: tuple[int, int] | None = None


_APART = (
    "{b}.ts BETWEEN {a}.ts - INTERVAL 2 MICROSECONDS AND {a}.ts + INTERVAL 4 MICROSECONDS",
    "NOT ({b}.ts NOT BETWEEN {a}.ts - INTERVAL 2 MICROSECONDS AND {a}.ts + INTERVAL 4 MICROSECONDS)",
    "NOT ({b}.ts + INTERVAL 2 MICROSECONDS < {a}.ts OR {b}.ts > {a}.ts + INTERVAL 4 MICROSECONDS)",
)
"""The same condition in several ways."""

_TESTS = ("{a}.id < {b}.id + 3", "{a}.id % 3 <> 0", "{a}.id + {b}.id > 5", "ABS(2 * {a}.id - {b}.id * {a}.id) < 9")
"""Conditions of an outer join besides equalities: some are of one side, some are computed of both."""


@st.composite
def outer_cases(
    draw: st.DrawFn,
    most_left: int = 2,
    most_epochs: int = 5,
    most_rows: int = 5,
    kinds: Sequence[pa.DataType] = (pa.int64(), pa.string()),
    *,
    equal_times: bool = True,
) -> OuterCase:
    """One or two streams joined, and one more by an outer, semi or anti join, perhaps on a condition between times."""
    names = NAMES[: draw(st.integers(1, most_left)) + 1]
    kind = draw(st.sampled_from(kinds))
    nodes, schemas = [], {}
    for name in names:
        has_time = draw(st.integers(0, 7)) > 0
        fields = [("k0", kind), ("id", pa.int64()), *([("ts", pa.timestamp("us", "UTC"))] if has_time else [])]
        schemas[name] = pa.schema(fields)
        window = draw(st.sampled_from([None, 1, 3, 8])) if has_time else None
        delay = draw(st.sampled_from([None, 0, 0, 2, 5])) if has_time else None
        nodes.append(StreamNode(name, schemas[name], "ts" if has_time else None, window, delay))
    left, inner = draw(_trees(nodes[:-1], ["k0"]))
    reach = {}
    if len(names[:-1]) > 1 and nodes[0].time and nodes[1].time and draw(st.booleans()):
        a, b = names[:2]
        within = f"{b}.ts BETWEEN {a}.ts AND {a}.ts + INTERVAL 3 MICROSECONDS"
        left, inner, reach = FilterNode(left, within), (*inner, within), {(a, b): 3, (b, a): 0}
    first, last = draw(st.sampled_from(nodes[:-1])), nodes[-1]
    texts = [f"{first.name}.k0 = {last.name}.k0"]
    apart = [None, None, (2, 4), (0, 0)] if equal_times else [None, (2, 4)]
    within = draw(st.sampled_from(apart)) if first.time and last.time else None
    if within is not None:
        text = draw(st.sampled_from(_APART)) if within == (2, 4) else "{b}.ts = {a}.ts"
        texts.append(text.format(a=first.name, b=last.name))
    texts += draw(st.lists(st.sampled_from([text.format(a=first.name, b=last.name) for text in _TESTS]), max_size=1))
    texts += draw(st.lists(st.just(f"{last.name}.id % 4 <> 0"), max_size=1))
    how = draw(st.sampled_from(["left", "right", "full", "semi", "anti"]))
    on = " AND ".join(texts)
    shown = names if how in ("left", "right", "full") else names[:-1]
    needed = tuple(f"{name}.{field}" for name in shown for field in schemas[name].names)
    ids = iter(range(10**6))
    epochs = tuple(
        {name: draw(_timed_tables(schemas[name], most_rows, ids, 6 * epoch)) for name in names}
        for epoch in range(draw(st.integers(1, most_epochs)))
    )
    node = JoinNode((left, last), on, how)
    return OuterCase(Query(node, needed), (), epochs, {}, how, on, tuple(names[:-1]), inner, reach, within)


@st.composite
def promised_cases(draw: st.DrawFn, *, outer: bool) -> TimedCase:
    """A case in which some streams have punctuations, and the keys of some are unique.

    Equal times would be a part of the key, of which the rules that are written down here for promises know one part.
    """
    kinds = [pa.int64(), pa.int64(), pa.string(), *KEYS]
    case = draw(outer_cases(kinds=kinds, equal_times=False) if outer else timed_cases(most_streams=3, kinds=kinds))
    chosen = {name: draw(st.integers(0, 3)) for name in case.nodes}
    promises = {
        name: draw(punctuations(node, len(case.epochs))) for name, node in case.nodes.items() if chosen[name] > 1
    }
    unique = tuple(name for name, number in chosen.items() if number in (1, 3))
    nodes = {
        name: structs.replace(
            node,
            punctuated=promises[name].columns if name in promises else None,
            unique=("k0",) if name in unique else (),
        )
        for name, node in case.nodes.items()
    }
    seen: dict[str, set[object]] = {name: set() for name in unique}
    epochs = []
    for number, epoch in enumerate(case.epochs):
        tables = {name: _without(table, seen.get(name, set())) for name, table in epoch.items()}
        for name in unique:
            seen[name] |= {ordered(key) for key in tables[name].column("k0").to_pylist() if key is not None}
        more = {f"{name}#promises": each.table(number, nodes[name].schema) for name, each in promises.items()}
        epochs.append({**tables, **more})
    query = structs.replace(case.query, node=_with_nodes(case.query.node, nodes))
    return replace(case, query=query, epochs=tuple(epochs), promises=promises)


def without_broken_promises(case: TimedCase) -> TimedCase:
    """The case without the rows that break a punctuation."""
    epochs = []
    for number, epoch in enumerate(case.epochs):
        tables = dict(epoch)
        for name, promises in case.promises.items():
            plain = tables[name]
            if "ts" in plain.column_names:
                times = plain.column("ts").cast(pa.int64())
                plain = plain.set_column(plain.schema.get_field_index("ts"), "ts", times)
            kept = [not promises.broken_by(row, number) for row in plain.to_pylist()]
            tables[name] = tables[name].filter(pa.array(kept, pa.bool_()))
        epochs.append(tables)
    return replace(case, epochs=tuple(epochs))


def _without(table: pa.Table, seen: set[object]) -> pa.Table:
    return table.filter(pa.array([ordered(key) not in seen for key in table.column("k0").to_pylist()], pa.bool_()))


def _with_nodes(node: Node, nodes: Mapping[str, StreamNode]) -> Node:
    if isinstance(node, StreamNode):
        return nodes[node.name]
    if isinstance(node, JoinNode):
        return structs.replace(node, inputs=tuple(_with_nodes(each, nodes) for each in node.inputs))
    return structs.replace(node, input=_with_nodes(node.input, nodes))
