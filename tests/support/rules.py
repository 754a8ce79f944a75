"""The written rules of event time, applied row by row: which rows are accepted, and which of them are joined."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tests.support.draws import OuterCase, TimedCase
from tests.support.oracle import connection, joined, multiset, registered
from watersmeet.model.query import StreamNode


def expected_results(case: TimedCase) -> Counter[str]:
    """What a batch join of the accepted rows gives, of those whose lives overlap."""
    accepted, _ = accepted_rows(case.nodes, case.epochs)
    return joined(accepted, [*case.conditions, *lives_overlap(case.nodes.values())])


def accepted_rows(
    nodes: Mapping[str, StreamNode], epochs: Sequence[Mapping[str, pa.Table]]
) -> tuple[dict[str, list[pa.Table]], list[Counter[tuple[str, str]]]]:
    """The rows of each stream that keep its promises, and how many of each epoch do not, by stream and reason."""
    accepted: dict[str, list[pa.Table]] = {name: [] for name in nodes}
    rejected: list[Counter[tuple[str, str]]] = []
    latest: dict[str, int] = {}
    for epoch in epochs:
        count: Counter[tuple[str, str]] = Counter()
        for name, node in nodes.items():
            table = epoch[name]
            if node.time is None:
                accepted[name].append(table)
                continue
            times = table.column(node.time).cast(pa.int64()).to_pylist()
            reasons = [_reason(node, time, latest.get(name)) for time in times]
            count.update((name, reason) for reason in reasons if reason)
            accepted[name].append(table.filter(pa.array([reason is None for reason in reasons], pa.bool_())))
        for name in (name for name, node in nodes.items() if node.time is not None):
            times = accepted[name][-1].column("ts").cast(pa.int64()).to_pylist()
            if times:
                latest[name] = max([*times, latest.get(name, times[0])])
        rejected.append(count)
    return accepted, rejected


def _reason(node: StreamNode, time: int | None, latest: int | None) -> str | None:
    if time is None:
        return "null time"
    is_late = node.delay_us is not None and latest is not None and time < latest - node.delay_us
    return "late" if is_late else None


def lives_overlap(nodes: Sequence[StreamNode]) -> list[str]:
    """The latest begins before any ends."""
    timed = [node for node in nodes if node.time]
    ends = [f"epoch_us({each.name}.{each.time}) + {each.window_us}" for each in timed if each.window_us is not None]
    begins = [f"epoch_us({each.name}.{each.time})" for each in timed]
    return [f"greatest({', '.join(begins)}) < least({', '.join(ends)})"] if ends else []


def expected_outer(case: OuterCase, *, has_ended: bool) -> Counter[str]:
    """What an outer join of all accepted rows gives, but for rows alone of which a match may still come."""
    accepted, _ = accepted_rows(case.nodes, case.epochs)
    with registered(accepted):
        return _outer(case, accepted, has_ended=has_ended)


def _outer(case: OuterCase, accepted: Mapping[str, Sequence[pa.Table]], *, has_ended: bool) -> Counter[str]:
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
    query = {
        "left": f"{pairs} UNION ALL {alone['L']}",
        "right": f"{pairs} UNION ALL {alone['R']}",
        "full": f"{pairs} UNION ALL {alone['L']} UNION ALL {alone['R']}",
        "semi": f"SELECT {only_left} FROM L WHERE {matched['L']}",
        "anti": f"SELECT {only_left} FROM L WHERE NOT {matched['L']} AND {due['L']}",
    }[case.how]
    return multiset(connection().sql(query).to_arrow_table())


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
    null_key = f"{first if side == 'L' else last}.k0 IS NULL"
    marks = []
    for name in other:
        node = case.nodes[name]
        if node.delay_us is None or latest[name] is None:
            return null_key
        marks.append(latest[name] - node.delay_us)
    mark = min(marks)
    timed = [case.nodes[name] for name in own if case.nodes[name].time]
    ends = [f"epoch_us({each.name}.ts) + {each.window_us}" for each in timed if each.window_us is not None]
    conditions = [f"least({', '.join(ends)}) <= {mark}"] if ends and all(case.nodes[n].time for n in other) else []
    if "BETWEEN" in case.on and len(case.left) == 1:
        later = 4 if side == "L" else 2
        conditions.append(f"epoch_us({own[0]}.ts) + {later} < {mark}")
    return " OR ".join([null_key, *conditions]).join("()")
