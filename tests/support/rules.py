"""The written rules of event time, applied row by row: which rows are accepted, and which of them are joined."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tests.support.draws import TimedCase
from tests.support.oracle import joined
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
