"""The written rules of event time, applied row by row: which rows are accepted, and which of them are joined."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from tests.support.draws import OuterCase, TimedCase
from tests.support.oracle import connection, joined, multiset, registered
from tests.support.punctuations import FOREVER, Punctuated, ordered
from watersmeet.model.query import StreamNode


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
    excluded = [f"NOT ({text})" for text in case.on.split(" AND ") if "%" in text and text.split(".")[0] in own]
    always = [f"{key} IS NULL", *excluded, is_promised(case, key, other), is_passed_on(case, key, other, latest)]
    windows, condition = _ends(case, side, own)
    for value, until in _promised_before(case, other, latest):
        ends = [*(windows if any(case.nodes[name].time for name in other) else []), *condition]
        always += [f"({key} = {_text(value)} AND {end} <= {until})" for end in ends]
    marks = [_mark(case, name, latest[name]) for name in other]
    known = [mark for mark in marks if mark is not None]
    if len(known) < len(marks):
        return " OR ".join(always).join("()")
    mark = min(known)
    if mark == FOREVER:
        return "true"
    ends = [*(windows if all(case.nodes[name].time for name in other) else []), *condition]
    return " OR ".join([*always, *(f"{end} <= {mark}" for end in ends)]).join("()")


def _ends(case: OuterCase, side: str, own: Sequence[str]) -> tuple[list[str], list[str]]:
    """Before which time a match begins: by the windows, and by the condition between times."""
    first, last = case.on.split(".")[0], next(name for name in case.nodes if name not in case.left)
    timed = [case.nodes[name] for name in own if case.nodes[name].time]
    ends = [f"epoch_us({each.name}.ts) + {each.window_us}" for each in timed if each.window_us is not None]
    windows = [f"least({', '.join(ends)})"] if ends else []
    if case.within is None:
        return windows, []
    before, after = case.within
    timed_left = [name for name in case.left if case.nodes[name].time and name != first]
    later = (
        [after] if side == "L" else [before, *(before + case.reach.get((first, name), FOREVER) for name in timed_left)]
    )
    return windows, [f"epoch_us({first if side == 'L' else last}.ts) + {max(later) + 1}"]


def _promised_before(
    case: TimedCase, streams: Sequence[str], latest: Mapping[str, int | None]
) -> Iterator[tuple[object, int]]:
    """The keys of which all of some streams have promised that no row comes before a time; or one that is passed on."""
    accepted, _ = accepted_rows(case.nodes, case.epochs, case.promises)
    for value in _keys(accepted):
        times = [_until(case, name, value, accepted[name]) for name in streams]
        known = [time for time in times if time is not None]
        if len(known) == len(times):
            yield value, min(known)
    for name, number in _passed(case, streams, latest):
        for value in _keys(accepted):
            until = _until(case, name, value, accepted[name][:number])
            if until is not None:
                yield value, until


def _until(case: TimedCase, name: str, value: object, accepted: Sequence[pa.Table]) -> int | None:
    """The time before which a stream has promised a key, after as many epochs as are given."""
    if _promises(case, name, value, accepted):
        return FOREVER
    own = case.promises.get(name) if case.nodes[name].time else None
    return None if own is None else own.promises_key_until(value, len(accepted))


def _keys(accepted: Mapping[str, Sequence[pa.Table]]) -> list[object]:
    """All keys there are."""
    found = {value for tables in accepted.values() for table in tables for value in table.column("k0").to_pylist()}
    return sorted({ordered(value) for value in found if value is not None}, key=str)


def _text(value: object) -> str:
    match value:
        case str():
            return f"'{value}'"
        case float():
            return "CAST('nan' AS DOUBLE)" if value == math.inf else repr(value)
        case datetime():
            return f"TIMESTAMPTZ '{value.isoformat()}'"
        case date():
            return f"DATE '{value}'"
    return str(value)


def mark_of(case: TimedCase, name: str, accepted: Mapping[str, Sequence[pa.Table]]) -> int | None:
    """The time before which no row of a stream comes any more, if it has accepted some rows."""
    return _mark(case, name, _latest(accepted[name]))


def _mark(case: TimedCase, name: str, latest: int | None) -> int | None:
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
    promised = [
        _text(value)
        for value in _keys(accepted)
        if all(_until(case, name, value, accepted[name]) == FOREVER for name in streams)
    ]
    return f"{key} IN ({', '.join(promised)})" if promised else "false"


def is_passed_on(case: TimedCase, key: str, streams: Sequence[str], latest: Mapping[str, int | None]) -> str:
    """Whether one of two streams has promised a key, and all rows it had until then are over for the other."""
    accepted, _ = accepted_rows(case.nodes, case.epochs, case.promises)
    texts = {
        _text(value)
        for name, number in _passed(case, streams, latest)
        for value in _keys(accepted)
        if _until(case, name, value, accepted[name][:number]) == FOREVER
    }
    return f"{key} IN ({', '.join(texts)})" if texts else "false"


def _passed(case: TimedCase, streams: Sequence[str], latest: Mapping[str, int | None]) -> Iterator[tuple[str, int]]:
    """Of two streams, the epochs by whose end all rows of one had come that are over now for the other."""
    accepted, _ = accepted_rows(case.nodes, case.epochs, case.promises)
    for name, other in (streams, streams[::-1]) if len(streams) > 1 else ():
        window, mark = case.nodes[name].window_us, _mark(case, other, latest[other])
        for epochs in range(1, len(case.epochs) + 1) if case.nodes[name].time and mark is not None else ():
            last = _latest(accepted[name][:epochs])
            lengths = [window if case.nodes[other].time else None, case.reach.get((name, other), FOREVER) + 1]
            if last is not None and any(_is_over(last, length, mark) for length in lengths):
                yield name, epochs


def _is_over(last: int, window: int | None, mark: int) -> bool:
    return mark == FOREVER or (window is not None and last + window <= mark)


def _promises(case: TimedCase, name: str, value: object, accepted: Sequence[pa.Table]) -> bool:
    """Whether a stream has promised a key, by punctuations or because it is unique, in as many epochs as are given."""
    own = case.promises.get(name)
    is_promised = own is not None and own.promises_key(value, len(accepted))
    return is_promised or (
        bool(case.nodes[name].unique)
        and any(value in map(ordered, table.column("k0").to_pylist()) for table in accepted)
    )
