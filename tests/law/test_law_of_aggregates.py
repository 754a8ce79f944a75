"""The law with aggregates: values equal DuckDB's, and each group comes when the rules say so."""

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.law.test_law_in_process import LAW, disturbance
from tests.support.draws import TimedCase, timed_cases
from tests.support.in_process import InProcess
from tests.support.oracle import connection, plain
from tests.support.rules import accepted_rows, lives_overlap

from watersmeet.adapt.merging import choice as merging
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, Mode, Query
from watersmeet.planning import plan
from watersmeet.planning.aggregates import WINDOW_TYPE

BIGINT, DOUBLE = pa.int64(), pa.float64()
TELLING = {
    "n": ("count", None, BIGINT),
    "total": ("sum", "{last}.id", BIGINT),
    "least": ("min", "{first}.id", BIGINT),
    "most": ("max", "{last}.id", BIGINT),
    "mean": ("avg", "{first}.id", DOUBLE),
    "spread": ("stddev", "{last}.id", DOUBLE),
    "kinds": ("count_distinct", "{last}.k0", BIGINT),
    "both": ("sum", "{first}.id + {last}.id", BIGINT),
}
SQL = {"count": "count(*)", "count_distinct": "count(DISTINCT {})", "stddev": "stddev_samp({})"}


@dataclass(frozen=True)
class Grouped:
    """A case, and how its rows are grouped and told of."""

    case: TimedCase
    node: AggregateNode

    @property
    def sql(self) -> str:
        """What DuckDB makes of the accepted rows."""
        keys = [key.sql if "window" not in key.sql else _window(key.sql) for key in self.node.keys]
        told = [_told(each) for each in self.node.aggregates]
        streams = self.case.nodes
        where = " AND ".join([*self.case.conditions, *lives_overlap(list(streams.values()))]) or "true"
        columns = ", ".join(f"{text} AS c{place}" for place, text in enumerate([*keys, *told]))
        by = f" GROUP BY {', '.join(keys)}" if keys else " HAVING count(*) > 0"
        return f"SELECT {columns} FROM {', '.join(streams)} WHERE {where}{by}"


def _window(sql: str) -> str:
    time = sql.split("(")[1].split(",", maxsplit=1)[0]
    start = f"epoch_us({time}) - pmod(epoch_us({time}), 4)"
    return f"{{'start': make_timestamptz({start}), 'end': make_timestamptz({start} + 4)}}"


def _told(each: Aggregate) -> str:
    text = SQL.get(each.function, f"{each.function}({{}})").format(each.sql)
    return f"CAST({text} AS BIGINT)" if each.function == "sum" else text


@st.composite
def grouped_cases(
    draw: st.DrawFn, *, windows: bool = True, modes: tuple[Mode, ...] = ("append", "update", "first")
) -> Grouped:
    case = draw(timed_cases(most_streams=3, most_rows=4, zone="UTC"))
    is_alone = draw(st.integers(0, 2)) == 0
    if is_alone:
        name = next(iter(case.nodes))
        case = TimedCase(Query(case.nodes[name]), (), tuple({name: epoch[name]} for epoch in case.epochs))
    names = list(case.nodes)
    first, last = names[0], names[-1]
    kinds = {name: node.schema for name, node in case.nodes.items()}
    choices = [GroupKey("k", f"{first}.k0", kinds[first].field("k0").type), GroupKey("last", f"{last}.id", BIGINT)]
    if case.nodes[first].time and windows:
        choices.append(GroupKey("window", f"window({first}.ts, '4 microseconds')", WINDOW_TYPE))
    keys = draw(st.lists(st.sampled_from(choices), max_size=2, unique_by=lambda key: key.name))
    mode = draw(st.sampled_from(modes))
    told = []
    for name in () if mode == "first" else draw(st.lists(st.sampled_from(sorted(TELLING)), min_size=1, unique=True)):
        function, text, kind = TELLING[name]
        sql = text.format(first=first, last=last) if text else None
        argument = kinds[last].field("k0").type if name == "kinds" else BIGINT if text else None
        told.append(Aggregate(name, function, kind, sql, argument))
    if mode == "first" and not keys:
        keys = choices[:1]
    return Grouped(case, AggregateNode(case.query.node, tuple(keys), tuple(told), mode))


def results_of(grouped: Grouped, seed: int, *, disturb: bool, budget: bool, ends: bool) -> list[tuple[int, pa.Table]]:
    """What each step gives, in order, each with the number of the epoch it is or comes after."""
    chance = random.Random(seed)
    options = MemoryOptions()
    if budget:
        options = MemoryOptions(
            budget_bytes=chance.choice([1, 200, 1000]),
            strategy=chance.choice(sorted(STRATEGIES)),
            fraction=chance.choice([0.05, 0.3, 1.0]),
            seed=seed,
            generations_max=chance.choice([0, 1, 64]),
        )
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = InProcess(
            plan(Query(grouped.node)),
            folder,
            groups=chance.choice([1, 4, 16]),
            round_bytes=chance.choice([1, 100, 10**6]) if disturb else 10**6,
            parcels=chance.random() < 0.7,
            options=options,
            slice_bytes=chance.choice([1, 500, 10**6]),
        )
        got: list[tuple[int, pa.Table]] = []
        number = 0
        for number, tables in enumerate(grouped.case.epochs):
            if disturb:
                disturbance(query, tables, chance)
            got.append((number, query.epoch(tables, chance if disturb else None)))
            while disturb and chance.random() < 0.3:
                got.append((number, query.clean(chance.choice(["idle", "final", "asked"]), chance)))
        for level in range(len(query.plan.levels)):
            while any(query.manifest.spilled(operator.id) for operator in query.plan.levels[level]):
                got.append((number, query.clean("end", chance, level=level)))
        if ends:
            query.loop.end_input()
        got.append((number, query.clean("final", chance)))
        return got


def rows_of(table: pa.Table) -> list[tuple[str, ...]]:
    columns = [[_text(value) for value in plain(column).to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _text(value: object) -> str:
    if isinstance(value, dict):
        return str({name: each.timestamp() for name, each in value.items()})
    return repr(round(value, 6)) if isinstance(value, float) else repr(value)


def expected_rows(grouped: Grouped) -> Counter[tuple[str, ...]]:
    accepted, _ = accepted_rows(grouped.case.nodes, grouped.case.epochs)
    for name, tables in accepted.items():
        connection().register(name, pa.concat_tables(tables))
    found = connection().sql(grouped.sql).to_arrow_table()
    for name in accepted:
        connection().unregister(name)
    return Counter(rows_of(found))


def check(grouped: Grouped, seed: int, *, budget: bool, disturb: bool = True, ends: bool = True) -> None:
    note(f"{grouped.node.keys} {grouped.node.mode} of {list(grouped.case.nodes.values())}, seed {seed}")
    with merging_often(seed):
        steps = results_of(grouped, seed, disturb=disturb, budget=budget, ends=ends)
    expected, width = expected_rows(grouped), len(grouped.node.keys)
    got = [row for _, table in steps for row in rows_of(table.flatten())]
    if grouped.node.mode == "update":
        assert budget or all(once_each(table, width) for _, table in steps), "a group came twice in an epoch"
        latest = {row[:width]: row for row in got}
        assert Counter(latest.values()) == expected, (got, expected)
    elif ends or grouped.node.mode == "first":
        assert Counter(got) == expected, (got, expected)
    else:
        assert not Counter(got) - expected, "a group came before it was final, or twice"
        assert set(due(grouped)) <= {row[:width] for row in got}, "a final group has not come"


@contextmanager
def merging_often(seed: int) -> Iterator[None]:
    """Few runs are merged at once, and of what is large for half of the seeds, only some groups at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "FAN_IN", 2)
        patch.setattr(merging, "SETTLED_FAN_IN", 2)
        patch.setattr(merging, "CLOSED_FAN_IN", 2)
        if seed % 2:
            patch.setattr(merging, "MERGED_LIMIT_BYTES", 300)
        yield


def once_each(table: pa.Table, width: int) -> bool:
    keys = [row[:width] for row in rows_of(table.flatten())]
    return len(keys) == len(set(keys))


def due(grouped: Grouped) -> list[tuple[str, ...]]:
    """The groups that are final by the watermark of a stream by itself."""
    nodes = grouped.case.nodes
    window = next((place for place, key in enumerate(grouped.node.keys) if key.name == "window"), None)
    (node, *others) = nodes.values()
    if others or window is None or node.delay_us is None:
        return []
    accepted, _ = accepted_rows(nodes, grouped.case.epochs)
    times = pa.concat_tables(accepted[node.name]).column("ts").cast(pa.int64()).to_pylist()
    mark = max(times, default=0) - node.delay_us
    connection().register(node.name, pa.concat_tables(accepted[node.name]))
    rows = (
        connection().sql(f"SELECT * FROM ({grouped.sql}) WHERE epoch_us(c{window}['end']) <= {mark}").to_arrow_table()
    )
    connection().unregister(node.name)
    return [row[: len(grouped.node.keys)] for row in rows_of(rows)]


@given(grouped=grouped_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@LAW
def test_groups_have_the_values_of_a_batch_aggregate(grouped: Grouped, seed: int, ends) -> None:
    check(grouped, seed, budget=False, disturb=False, ends=ends)


@given(grouped=grouped_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@LAW
def test_moves_merges_repeated_tasks_and_crashes_change_no_aggregate(grouped: Grouped, seed: int, ends) -> None:
    check(grouped, seed, budget=False, ends=ends)


@given(grouped=grouped_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@LAW
def test_spills_and_cleanups_change_no_aggregate(grouped: Grouped, seed: int, ends) -> None:
    check(grouped, seed, budget=True, ends=ends)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(grouped=grouped_cases(), seed=st.integers(0, 2**32), budget=st.booleans(), ends=st.booleans())
@settings(LAW, max_examples=3000)
def test_the_law_of_aggregates_holds_thousands_of_times(grouped: Grouped, seed: int, budget, ends) -> None:
    check(grouped, seed, budget=budget, ends=ends)
