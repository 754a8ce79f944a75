"""The law with aggregates over the latest rows of each group: epoch by epoch, they are what the written rule says."""

from collections import Counter
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.law.test_law_of_aggregates import (
    SLIDES,
    Grouped,
    _told,
    _window,
    grouped_cases,
    merging_often,
    results_of,
    rows_of,
)
from tests.support.in_process import InProcess
from tests.support.law_runs import LAW
from tests.support.oracle import connection
from tests.support.rules import accepted_rows, lives_overlap

from watersmeet.adapt.merging import choice as merging
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, History, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.sizes import rows_and_bytes

Row = tuple[str, ...]
HISTORIES = [History(rows=rows) for rows in (1, 2, 3, 7)] + [History(time_us=us) for us in (1, 2, 5, 12, 40)]


@dataclass(frozen=True)
class Latest(Grouped):
    """A case whose groups are told of over their latest rows."""

    @property
    def keys(self) -> list[str]:
        return [key.sql if "window" not in key.sql else _window(key.sql, key.type) for key in self.node.keys]

    @property
    def joined(self) -> str:
        """All rows of groups, with their times as `t`."""
        streams = self.case.nodes
        where = " AND ".join([*self.case.conditions, *lives_overlap(list(streams.values())), *self.sliding])
        times = ", ".join(f"epoch_us({each.name}.{each.time})" for each in streams.values() if each.time)
        rows = ", ".join(f"{name} AS {name}" for name in streams)
        return f"SELECT {rows}, earlier, greatest({times}) AS t FROM {', '.join(streams)}, {SLIDES} WHERE {where}"

    @property
    def sql(self) -> str:
        history, by = self.node.history, f"PARTITION BY {', '.join(self.keys) or '1'}"
        counts = f"rank() OVER ({by} ORDER BY t DESC) <= {history.rows}"
        if history.time_us is not None:
            counts = f"max(t) OVER ({by}) - t < {history.time_us}"
        told = [*self.keys, *(_told(each) for each in self.node.aggregates)]
        columns = ", ".join(f"{text} AS c{place}" for place, text in enumerate(told))
        return f"SELECT {columns} FROM (SELECT * FROM ({self.joined}) QUALIFY {counts}) {self._grouped}"

    @property
    def sizes(self) -> str:
        """How many rows each group has."""
        columns = ", ".join(f"{text} AS c{place}" for place, text in enumerate([*self.keys, "count(*)"]))
        return f"SELECT {columns} FROM ({self.joined}) {self._grouped}"

    @property
    def _grouped(self) -> str:
        return f"GROUP BY {', '.join(self.keys)}" if self.keys else "HAVING count(*) > 0"


@st.composite
def latest_cases(draw: st.DrawFn, *, windows: bool = True) -> Latest:
    drawn = grouped_cases(windows=windows, modes=("update",))
    grouped = draw(drawn.filter(lambda each: any(node.time for node in each.case.nodes.values())))
    history = draw(st.sampled_from(HISTORIES))
    return Latest(grouped.case, msgspec.structs.replace(grouped.node, history=history))


def told_by_epoch(latest: Latest) -> list[tuple[dict[Row, Row], set[Row]]]:
    """For each epoch what the rule says of every group so far, and which groups have changed."""
    accepted, _ = accepted_rows(latest.case.nodes, latest.case.epochs)
    width, before, told = len(latest.node.keys), set(), []
    for number in range(len(latest.case.epochs)):
        for name, tables in accepted.items():
            connection().register(name, pa.concat_tables(tables[: number + 1]))
        values = {row[:width]: row for row in rows_of(connection().sql(latest.sql).to_arrow_table())}
        sizes = set(rows_of(connection().sql(latest.sizes).to_arrow_table()))
        told.append((values, {row[:width] for row in sizes - before}))
        before = sizes
        for name in accepted:
            connection().unregister(name)
    return told


def check(latest: Latest, seed: int, *, budget: bool, disturb: bool = True) -> None:
    note(f"{latest.node.keys} over {latest.node.history} of {list(latest.case.nodes.values())}, seed {seed}")
    with merging_often(seed):
        steps = results_of(latest, seed, disturb=disturb, budget=budget, ends=False)
    told, width = told_by_epoch(latest), len(latest.node.keys)
    by_epoch = {number: [] for number in range(len(told))}
    for number, table in steps:
        by_epoch[number] += rows_of(table.flatten())
    if budget:
        rows = [row for each in by_epoch.values() for row in each]
        assert {row[:width]: row for row in rows} == told[-1][0], (rows, told[-1][0])
        if len(latest.case.nodes) == 1:  # what a join misses is not known to the aggregate above it
            assert all(told[number][0][row[:width]] == row for number, rows in by_epoch.items() for row in rows)
    else:
        expected = {number: Counter(values[key] for key in keys) for number, (values, keys) in enumerate(told)}
        assert {number: Counter(rows) for number, rows in by_epoch.items()} == expected


@given(latest=latest_cases(), seed=st.integers(0, 2**32))
@LAW
def test_every_epoch_tells_the_latest_rows_of_the_groups_that_changed(latest: Latest, seed: int) -> None:
    check(latest, seed, budget=False, disturb=False)


@given(latest=latest_cases(), seed=st.integers(0, 2**32))
@LAW
def test_moves_merges_rounds_repeated_tasks_and_crashes_change_nothing_of_it(latest: Latest, seed: int) -> None:
    check(latest, seed, budget=False)


@given(latest=latest_cases(), seed=st.integers(0, 2**32))
@LAW
def test_spills_and_cleanups_change_nothing_of_the_latest_rows(latest: Latest, seed: int) -> None:
    check(latest, seed, budget=True)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(latest=latest_cases(), seed=st.integers(0, 2**32), budget=st.booleans())
@settings(LAW, max_examples=3000)
def test_the_law_of_histories_holds_thousands_of_times(latest: Latest, seed: int, budget) -> None:
    check(latest, seed, budget=budget)


SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
COUNT = (Aggregate("n", "count", pa.int64()),)
LAST_TWO = History(rows=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("history", "delay", "most"),
    [(History(rows=10), None, 10), (History(time_us=20), None, 10), (History(time_us=20), 4, 12)],
    ids=["rows", "a range", "a range with a watermark"],
)
def test_state_holds_a_bounded_number_of_rows_however_long_a_stream_goes_on(tmp_path, history, delay, most):
    stream = StreamNode("A", SCHEMA, "ts", None, delay)
    node = AggregateNode(stream, (GroupKey("k", "A.k", pa.int64()),), COUNT, "update", history)
    query = InProcess(plan(Query(node)), str(tmp_path), options=MemoryOptions())
    rows, told = [], []
    for epoch in range(120):
        times = [2 * epoch, 2 * epoch, 2 * epoch + 1]
        tables = {"A": pa.table({"k": [1, 1, 2], "ts": pa.array(times).cast(SCHEMA.field("ts").type)}, SCHEMA)}
        told += rows_of(query.epoch(tables).flatten())
        rows.append(sum(run.rows for run in query.manifest.runs.values()))
    assert told[-2:] == ([("1", "10"), ("2", "10")] if history.rows else [("1", "20"), ("2", "10")])
    assert max(rows[40:]) <= 2 * (most + 8 * 8), rows  # of two groups; a run is merged with seven others
    assert max(rows[80:]) <= max(rows[40:80]), rows


def test_groups_that_get_no_rows_any_more_leave_the_state_of_a_range(tmp_path):
    stream = StreamNode("A", SCHEMA, "ts", None, 0)
    node = AggregateNode(stream, (GroupKey("k", "A.k", pa.int64()),), COUNT, "update", History(time_us=20))
    query = InProcess(plan(Query(node)), str(tmp_path), options=MemoryOptions())
    for epoch in range(100):
        times = pa.array([2 * epoch] * 3).cast(SCHEMA.field("ts").type)
        query.epoch({"A": pa.table({"k": [3 * epoch, 3 * epoch + 1, 3 * epoch + 2], "ts": times}, SCHEMA)})
    assert sum(run.rows for run in query.manifest.runs.values()) <= 3 * 20


@pytest.mark.parametrize(("time", "rows", "kept"), [(6, "2", True), (5, "1", False)])
def test_a_row_ends_when_no_row_can_come_that_it_is_in_one_range_with(tmp_path, time, rows, kept):
    stream = StreamNode("A", SCHEMA, "ts", None, 0)
    node = AggregateNode(stream, (GroupKey("k", "A.k", pa.int64()),), COUNT, "update", History(time_us=5))
    query = InProcess(plan(Query(node)), str(tmp_path), options=MemoryOptions())
    for key, moment in ((1, time), (2, 10), (1, 10)):
        times = pa.array([moment]).cast(SCHEMA.field("ts").type)
        last = query.epoch({"A": pa.table({"k": [key], "ts": times}, SCHEMA)})
        if key == 2:
            assert (sum(part_rows(query)) == 2) == kept
    assert rows_of(last.flatten()) == [("1", rows)]


@pytest.mark.long
def test_large_runs_are_merged_some_groups_at_a_time(tmp_path, monkeypatch):
    """A merge holds its result in memory; what many keys hold may be more than that, and must not grow for ever."""
    monkeypatch.setattr(merging, "FAN_IN", 4)
    monkeypatch.setattr(merging, "MERGED_LIMIT_BYTES", 8_000)
    node = AggregateNode(StreamNode("A", SCHEMA, "ts"), (GroupKey("k", "A.k", pa.int64()),), COUNT, "update", LAST_TWO)
    query = InProcess(plan(Query(node)), str(tmp_path), sites=1, options=MemoryOptions())
    rows, told = [], {}
    for epoch in range(100):
        keys, times = [(60 * epoch + each) % 300 for each in range(60)], pa.array([epoch] * 60)
        results = query.epoch({"A": pa.table({"k": keys, "ts": times.cast(SCHEMA.field("ts").type)}, SCHEMA)})
        told |= dict(rows_of(results.flatten()))
        rows.append(sum(part_rows(query)))
    assert Counter(told.values()) == {"2": 300}
    assert max(rows) <= 300 * 2 * 4, rows  # of 6,000 that came


def part_rows(query: InProcess) -> list[int]:
    rows, _ = rows_and_bytes(query.manifest, query.manifest.operators["aggregate1"].slices)
    return rows.tolist()
