"""The written rules of event time, applied row by row: which rows are accepted, and which of them are joined."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tests.support.draws import OuterCase, TimedCase
from tests.support.oracle import connection, joined, multiset, registered
from tests.support.punctuations import Punctuated
from watersmeet.model.query import StreamNode

FOREVER = 1 << 62


def expected_results(case: TimedCase) -> Counter[str]:
    """What a batch join of the accepted rows gives, of those whose lives overlap."""
    accepted, _ = accepted_rows(case.nodes, case.epochs, case.promises)
    return joined(accepted, [*case.conditions, *lives_overlap(case.nodes.values())])


def accepted_rows(
    nodes: Mapping[str, StreamNode],
    epochs: Sequence[Mapping[str, pa.Table]],
    promises: Mapping[str, Punctuated] | None = None,
) -> tuple[dict[str, list[pa.Table]], list[Counter[tuple[str, str]]]]:
    """The rows of each stream that keep its promises, and how many of each epoch do not, by stream and reason."""
    accepted: dict[str, list[pa.Table]] = {name: [] for name in nodes}
    rejected: list[Counter[tuple[str, str]]] = []
    latest: dict[str, int] = {}
    for number, epoch in enumerate(epochs):
        count: Counter[tuple[str, str]] = Counter()
        for name, node in nodes.items():
            table, own = epoch[name], (promises or {}).get(name)
            if node.time is None and own is None:
                accepted[name].append(table)
                continue
            plain = table.set_column(table.schema.get_field_index("ts"), "ts", _micros(table)) if node.time else table
            reasons = [_reason(node, row, latest.get(name), own, number) for row in plain.to_pylist()]
            count.update((name, reason) for reason in reasons if reason)
            accepted[name].append(table.filter(pa.array([reason is None for reason in reasons], pa.bool_())))
        for name in (name for name, node in nodes.items() if node.time is not None):
            times = accepted[name][-1].column("ts").cast(pa.int64()).to_pylist()
            if times:
                latest[name] = max([*times, latest.get(name, times[0])])
        rejected.append(count)
    return accepted, rejected


def _micros(table: pa.Table) -> pa.ChunkedArray:
    return table.column("ts").cast(pa.int64())


def _reason(
    node: StreamNode, row: Mapping[str, object], latest: int | None, promises: Punctuated | None, epoch: int
) -> str | None:
    if promises is not None and promises.has_ended(epoch):
        return "punctuated"
    if node.time is not None:
        time = row["ts"]
        if time is None:
            return "null time"
        if node.delay_us is not None and latest is not None and time < latest - node.delay_us:
            return "late"
    return "punctuated" if promises is not None and promises.broken_by(row, epoch) else None


def lives_overlap(nodes: Sequence[StreamNode]) -> list[str]:
    """The latest begins before any ends."""
    timed = [node for node in nodes if node.time]
    ends = [f"epoch_us({each.name}.{each.time}) + {each.window_us}" for each in timed if each.window_us is not None]
    begins = [f"epoch_us({each.name}.{each.time})" for each in timed]
    return [f"greatest({', '.join(begins)}) < least({', '.join(ends)})"] if ends else []


def expected_outer(case: OuterCase, *, has_ended: bool) -> Counter[str]:
    """What an outer join of all accepted rows gives, but for rows alone of which a match may still come."""
    accepted, _ = accepted_rows(case.nodes, case.epochs, case.promises)
    with registered(accepted):
        return multiset(connection().sql(outer_sql(case, accepted, has_ended=has_ended)).to_arrow_table())


def outer_sql(case: OuterCase, accepted: Mapping[str, Sequence[pa.Table]], *, has_ended: bool) -> str:
    """The outer join of accepted rows, each column named as its stream and itself: ``A_id``."""
    last = next(name for name in case.nodes if name not in case.left)
    left = [case.nodes[name] for name in case.left]
    inner = " AND ".join([*case.inner, *lives_overlap(left)]) or "true"
    columns = ", ".join(f"{name} AS {name}" for name in case.left)
    connection().execute(
        f"CREATE OR REPLACE TEMP TABLE L AS SELECT {columns} FROM {', '.join(case.left)} WHERE {inner}"
    )
    connection().execute(f"CREATE OR REPLACE TEMP TABLE R AS SELECT {last} AS {last} FROM {last}")
    on = " AND ".join([f"({case.on})", *lives_overlap(list(case.nodes.values()))])
    latest = {name: _latest(tables) for name, tables in accepted.items()}
    due = {side: "true" if has_ended else _due(case, latest, side) for side in "LR"}
    matched = {"L": f"EXISTS (SELECT 1 FROM R WHERE {on})", "R": f"EXISTS (SELECT 1 FROM L WHERE {on})"}
    pairs = f"SELECT {_fields(case, [*case.left, last])} FROM L, R WHERE {on}"
    nulls = {"L": [last], "R": case.left}
    shown = {side: _fields(case, [*case.left, last], nulls[side]) for side in "LR"}
    alone = {side: f"SELECT {shown[side]} FROM {side} WHERE NOT {matched[side]} AND {due[side]}" for side in "LR"}
    only_left = _fields(case, case.left)
    return {
        "left": f"{pairs} UNION ALL {alone['L']}",
        "right": f"{pairs} UNION ALL {alone['R']}",
        "full": f"{pairs} UNION ALL {alone['L']} UNION ALL {alone['R']}",
        "semi": f"SELECT {only_left} FROM L WHERE {matched['L']}",
        "anti": f"SELECT {only_left} FROM L WHERE NOT {matched['L']} AND {due['L']}",
    }[case.how]


def _fields(case: OuterCase, names: Sequence[str], nulls: Sequence[str] = ()) -> str:
    columns = [(name, field.name) for name in names for field in case.nodes[name].schema]
    return ", ".join(f"{'NULL' if name in nulls else f'{name}.{field}'} AS {name}_{field}" for name, field in columns)


def _latest(tables: Sequence[pa.Table]) -> int | None:
    table = pa.concat_tables(tables)
    return pc.max(table.column("ts").cast(pa.int64())).as_py() if "ts" in table.column_names else None


def _due(case: OuterCase, latest: Mapping[str, int | None], side: str) -> str:
    """Whether no match can come any more: by a null key, the other side's watermark and lives, or the condition."""
    last = next(name for name in case.nodes if name not in case.left)
    own = list(case.left) if side == "L" else [last]
    other = [last] if side == "L" else list(case.left)
    first = case.on.split(".")[0]
    key = f"{first if side == 'L' else last}.k0"
    always = f"{key} IS NULL OR {is_promised(case, key, other)} OR {is_passed_on(case, key, other, latest)}"
    marks = [_mark(case, name, latest[name]) for name in other]
    known = [mark for mark in marks if mark is not None]
    if len(known) < len(marks):
        return f"({always})"
    mark = min(known)
    if mark == FOREVER:
        return "true"
    timed = [case.nodes[name] for name in own if case.nodes[name].time]
    ends = [f"epoch_us({each.name}.ts) + {each.window_us}" for each in timed if each.window_us is not None]
    conditions = [f"least({', '.join(ends)}) <= {mark}"] if ends and all(case.nodes[n].time for n in other) else []
    if "BETWEEN" in case.on and len(case.left) == 1:
        later = 4 if side == "L" else 2
        conditions.append(f"epoch_us({own[0]}.ts) + {later} < {mark}")
    return " OR ".join([always, *conditions]).join("()")


def _mark(case: OuterCase, name: str, latest: int | None) -> int | None:
    """The time before which no row of a stream comes any more."""
    node, promises = case.nodes[name], case.promises.get(name)
    late = None if node.delay_us is None or latest is None else latest - node.delay_us
    if promises is None:
        return late
    if promises.has_ended(len(case.epochs)):
        return FOREVER
    until = promises.until(len(case.epochs)) if node.time else None
    return max((time for time in (late, until) if time is not None), default=None)


def is_promised(case: TimedCase, key: str, streams: Sequence[str]) -> str:
    """Whether all of some streams have promised a key, by punctuations or because it is unique."""
    accepted, _ = accepted_rows(case.nodes, case.epochs, case.promises)
    every = {value for tables in accepted.values() for table in tables for value in table.column("k0").to_pylist()}
    promised = [
        f"'{value}'" if isinstance(value, str) else str(value)
        for value in sorted((value for value in every if value is not None), key=str)
        if all(_promises(case, name, value, accepted[name]) for name in streams)
    ]
    return f"{key} IN ({', '.join(promised)})" if promised else "false"


def is_passed_on(case: TimedCase, key: str, streams: Sequence[str], latest: Mapping[str, int | None]) -> str:
    """Whether one of two streams has promised a key, and all rows it had until then are over for the other."""
    if len(streams) == 1:
        return "false"
    accepted, _ = accepted_rows(case.nodes, case.epochs, case.promises)
    passed: set[object] = set()
    for name, other in (streams, streams[::-1]):
        window, mark = case.nodes[name].window_us, _mark(case, other, latest[other])
        for epochs in range(1, len(case.epochs) + 1) if case.nodes[name].time and mark is not None else ():
            own = accepted[name][:epochs]
            last = _latest(own)
            is_over = last is not None and _is_over(last, window if case.nodes[other].time else None, mark)
            values = {value for table in accepted.values() for each in table for value in each.column("k0").to_pylist()}
            passed |= {value for value in values if is_over and _promises(case, name, value, own)}
    texts = [f"'{value}'" if isinstance(value, str) else str(value) for value in passed if value is not None]
    return f"{key} IN ({', '.join(texts)})" if texts else "false"


def _is_over(last: int, window: int | None, mark: int) -> bool:
    return mark == FOREVER or (window is not None and last + window <= mark)


def _promises(case: TimedCase, name: str, value: object, accepted: Sequence[pa.Table]) -> bool:
    """Whether a stream has promised a key, by punctuations or because it is unique, in as many epochs as are given."""
    own = case.promises.get(name)
    is_promised = own is not None and own.promises_key(value, len(accepted))
    return is_promised or (
        bool(case.nodes[name].unique) and any(value in table.column("k0").to_pylist() for table in accepted)
    )
