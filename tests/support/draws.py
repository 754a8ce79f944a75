"""What hypothesis draws: queries of nested joins over random streams, and the rows of their epochs."""

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from hypothesis import strategies as st

from watersmeet.model.query import JoinNode, Node, Query, StreamNode

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
        names = self.epochs[0]
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
    return st.sampled_from([1, 2, 3, None])
