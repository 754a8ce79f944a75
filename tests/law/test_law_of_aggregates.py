"""The law with aggregates: values equal DuckDB's, and each group comes when the rules say so."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.support.draws import OuterCase, TimedCase, outer_cases, promised_cases, timed_cases
from tests.support.law_runs import (
    LAW,
    UNDISTURBED,
    UNLIMITED,
    is_found,
    merged_early,
    started,
    steps_to_the_end,
    too_little_memory,
)
from tests.support.oracle import connection, plain, registered
from tests.support.punctuations import FOREVER
from tests.support.rules import accepted_rows, is_promised, lives_overlap, mark_of, outer_sql

from watersmeet.adapt.merging import choice as merging
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, Mode, Query
from watersmeet.planning import plan

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
        streams = self.case.nodes
        where = " AND ".join([*self.case.conditions, *lives_overlap(list(streams.values())), *self.sliding])
        return f"SELECT {self.columns} FROM {', '.join(streams)}, {SLIDES} WHERE {where}{self.by}"

    @property
    def sliding(self) -> list[str]:
        """That a row is in the window it was copied into; where none slides, there is one copy."""
        slides = [key for key in self.node.keys if key.name == "slide"]
        return [f"{_start(key.sql)} + {LENGTHS[SLIDING][0]} > epoch_us({_time(key.sql)})" for key in slides] or [
            "earlier = 0"
        ]

    @property
    def columns(self) -> str:
        """What is told of a group."""
        told = [_told(each) for each in self.node.aggregates]
        return ", ".join(f"{text} AS c{place}" for place, text in enumerate([*self._keys, *told]))

    @property
    def by(self) -> str:
        """How rows are grouped."""
        return f" GROUP BY {', '.join(self._keys)}" if self._keys else " HAVING count(*) > 0"

    @property
    def _keys(self) -> list[str]:
        return [key.sql if "window" not in key.sql else _window(key.sql, key.type) for key in self.node.keys]


NARROW = "window({}, '4 microseconds')"
WIDE = "window({}, '10 microseconds', '10 microseconds', '3 microseconds')"
SLIDING = "window({}, '10 microseconds', '4 microseconds', '3 microseconds')"
LENGTHS = {NARROW: (4, 0, 4), WIDE: (10, 3, 10), SLIDING: (10, 3, 4)}
SLIDES = "range(3) AS slides(earlier)"


def _time(sql: str) -> str:
    return sql.split("(")[1].split(",", maxsplit=1)[0]


def _start(sql: str) -> str:
    time = _time(sql)
    length, offset, slide = LENGTHS[sql.replace(time, "{}")]
    last = f"epoch_us({time}) - pmod(epoch_us({time}) - {offset}, {slide})"
    return last if slide == length else f"{last} - earlier * {slide}"


def _window(sql: str, kind: pa.DataType) -> str:
    length, _, _ = LENGTHS[sql.replace(_time(sql), "{}")]
    make = "make_timestamptz" if kind.field("start").type.tz else "make_timestamp"
    return f"{{'start': {make}({_start(sql)}), 'end': {make}({_start(sql)} + {length})}}"


def _told(each: Aggregate) -> str:
    text = SQL.get(each.function, f"{each.function}({{}})").format(each.sql)
    return f"CAST({text} AS BIGINT)" if each.function == "sum" else text


def _cases(*, promised: bool, outer: bool) -> st.SearchStrategy[TimedCase]:
    if promised:
        return promised_cases(outer=outer)
    return outer_cases(most_rows=4) if outer else timed_cases(most_streams=3, most_rows=4)


@st.composite
def grouped_cases(
    draw: st.DrawFn,
    *,
    windows: bool = True,
    promised: bool = False,
    outer: bool = False,
    modes: tuple[Mode, ...] = ("append", "update", "first"),
) -> Grouped:
    case = draw(_cases(promised=promised, outer=outer))
    is_alone = not outer and draw(st.integers(0, 2)) == 0
    if is_alone:
        name = next(iter(case.nodes))
        epochs = tuple({own: epoch[own] for own in epoch if own.split("#")[0] == name} for epoch in case.epochs)
        promises = {own: each for own, each in case.promises.items() if own == name}
        case = TimedCase(Query(case.nodes[name]), (), epochs, promises)
    names = list(case.left) if isinstance(case, OuterCase) and case.how in ("semi", "anti") else list(case.nodes)
    first, last = names[0], names[-1]
    kinds = {name: node.schema for name, node in case.nodes.items()}
    choices = [GroupKey("k", f"{first}.k0", kinds[first].field("k0").type), GroupKey("last", f"{last}.id", BIGINT)]
    if case.nodes[first].time and windows:
        kind, windows_of = kinds[first].field("ts").type, {"window": NARROW, "wide": WIDE, "slide": SLIDING}
        window = pa.struct([("start", kind), ("end", kind)])
        choices += [GroupKey(name, each.format(f"{first}.ts"), window) for name, each in windows_of.items()]
        choices.append(GroupKey("at", f"{first}.ts", kind))
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
    options = too_little_memory(chance) if budget else UNLIMITED
    with started(plan(Query(grouped.node), type_of=_type), chance, options, disturb=disturb) as query:
        return list(steps_to_the_end(query, grouped.case.epochs, chance, disturb=disturb, ends=ends))


def _type(sql: str, _: str) -> pa.DataType:
    return pa.bool_() if "%" in sql else pa.timestamp("us", "UTC") if "INTERVAL" in sql else BIGINT


def rows_of(table: pa.Table) -> list[tuple[str, ...]]:
    columns = [[_text(value) for value in plain(column).to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return str(value.timestamp())
    if isinstance(value, dict):
        return str({name: each.timestamp() for name, each in value.items()})
    if isinstance(value, float):
        return repr(round(value, 6) + 0.0)  # a group of -0.0 and 0.0 has either
    return repr(value)


def expected_rows(grouped: Grouped, *, has_ended: bool) -> Counter[tuple[str, ...]]:
    accepted, _ = accepted_rows(grouped.case.nodes, grouped.case.epochs, grouped.case.promises)
    with registered(accepted):
        sql = grouped.sql
        if isinstance(grouped.case, OuterCase):
            joined = outer_sql(grouped.case, accepted, has_ended=has_ended)
            times = [
                _flat(f"{key.sql[7:].split(',')[0]} IS NOT NULL") for key in grouped.node.keys if "window" in key.sql
            ]
            where = " AND ".join([*times, *map(_flat, grouped.sliding)])  # as in Spark
            sql = f"SELECT {_flat(grouped.columns)} FROM ({joined}), {SLIDES} WHERE {where}{_flat(grouped.by)}"
        return Counter(rows_of(connection().sql(sql).to_arrow_table()))


def _flat(sql: str) -> str:
    """The same of columns that are named as their stream and themselves."""
    return re.sub(r"\b([A-Z])\.(\w+)", r"\1_\2", sql)


def check(grouped: Grouped, seed: int, *, budget: bool, disturb: bool = True, ends: bool = True) -> None:
    note(f"{grouped.node.keys} {grouped.node.mode} of {list(grouped.case.nodes.values())}, seed {seed}")
    with merging_often(seed):
        steps = results_of(grouped, seed, disturb=disturb, budget=budget, ends=ends)
    is_whole = ends or grouped.node.mode == "append"  # rows alone may come later, and then groups do
    node = grouped.node
    expected, width = expected_rows(grouped, has_ended=is_whole), len(node.keys)
    got = [row for _, table in steps for row in rows_of(table.flatten())]
    if grouped.node.mode == "update":
        assert budget or all(once_each(table, width) for _, table in steps), "a group came twice in an epoch"
        latest = {row[:width]: row for row in got}
        assert Counter(latest.values()) == expected, (got, expected)
    elif ends or grouped.node.mode == "first":
        assert Counter(got) == expected, (got, expected)
    else:
        assert not Counter(got) - expected, "a group came before it was final, or twice"
        final = set() if isinstance(grouped.case, OuterCase) else {*due(grouped), *promised_groups(grouped)}
        assert final <= {row[:width] for row in got}, "a final group has not come"
    if not disturb and not budget and node.mode == "append" and not isinstance(grouped.case, OuterCase):
        check_epochs(grouped, [table for _, table in steps])


PROMISED = {"k": "k0", "last": "id", "window": "ts", "slide": "ts"}
"""The columns that punctuations name, by the keys of groups that they tell of."""


def check_epochs(grouped: Grouped, steps: list[pa.Table]) -> None:
    """A group comes at the latest in the epoch after the one that made it final, of a stream alone not before that.

    Whether it came too early is not asked of groups by a time itself, or by windows that begin elsewhere.
    """
    is_told = len(grouped.case.nodes) == 1 and all(key.name in PROMISED for key in grouped.node.keys)
    width, came = len(grouped.node.keys), list[set[tuple[str, ...]]]()
    for table in steps:
        came.append({row[:width] for row in rows_of(table.flatten())}.union(*came[-1:]))
    for number in range(len(grouped.case.epochs)):
        so_far = replace(grouped, case=replace(grouped.case, epochs=grouped.case.epochs[: number + 1]))
        late = {*due(so_far), *promised_groups(so_far)} - came[number + 1]
        assert not late, f"too late, after epoch {number + 1}: {late}"
        early = came[number] - {*due(so_far), *final_groups(so_far)} if is_told else set()
        assert not early, f"too early, in epoch {number}: {early}"


@contextmanager
def merging_often(seed: int) -> Iterator[None]:
    """Few runs are merged at once, and of what is large for half of the seeds, only some groups at a time."""
    with merged_early() as patch:
        if seed % 2:
            patch.setattr(merging, "MERGED_LIMIT_BYTES", 300)
        yield


def once_each(table: pa.Table, width: int) -> bool:
    keys = [row[:width] for row in rows_of(table.flatten())]
    return len(keys) == len(set(keys))


def due(grouped: Grouped) -> list[tuple[str, ...]]:
    """The groups that are final by the watermark of a stream by itself."""
    nodes = grouped.case.nodes
    (node, *others) = nodes.values()
    accepted, _ = accepted_rows(nodes, grouped.case.epochs, grouped.case.promises)
    mark = None if others else mark_of(grouped.case, node.name, accepted)
    if mark is None:
        return []
    ends = dict.fromkeys(("window", "wide", "slide"), "epoch_us(c{}['end']) <= {}")
    shown = {**ends, "at": "epoch_us(c{}) < {}"}
    names = [key.name for key in grouped.node.keys]
    over = [shown[name].format(place, mark) for place, name in enumerate(names) if name in shown]
    is_over = "true" if mark == FOREVER else " OR ".join(over) or "false"
    final = f"SELECT * FROM ({grouped.sql}) WHERE {is_over}"
    with registered(accepted):
        rows = connection().sql(final).to_arrow_table()
    return [row[: len(grouped.node.keys)] for row in rows_of(rows)]


def promised_groups(grouped: Grouped) -> list[tuple[str, ...]]:
    """The groups whose key all streams have promised."""
    place = next((place for place, key in enumerate(grouped.node.keys) if key.name == "k"), None)
    if place is None:
        return []
    accepted, _ = accepted_rows(grouped.case.nodes, grouped.case.epochs, grouped.case.promises)
    told = is_promised(grouped.case, f"c{place}", list(grouped.case.nodes))
    with registered(accepted):
        rows = connection().sql(f"SELECT * FROM ({grouped.sql}) WHERE {told}").to_arrow_table()
    return [row[: len(grouped.node.keys)] for row in rows_of(rows)]


def final_groups(grouped: Grouped) -> Iterator[tuple[str, ...]]:
    """The groups of a stream alone of which it has promised anything that names no more than their keys."""
    (node,) = grouped.case.nodes.values()
    names = [PROMISED[key.name] for key in grouped.node.keys]
    own, count = grouped.case.promises.get(node.name), len(grouped.case.epochs)
    accepted, _ = accepted_rows(grouped.case.nodes, grouped.case.epochs, grouped.case.promises)
    with registered(accepted):
        table = connection().sql(grouped.sql).to_arrow_table()
    for row, shown in zip(table.to_pylist(), rows_of(table), strict=True):
        key = {name: row[f"c{place}"] for place, name in enumerate(names)}
        is_known = bool(node.unique) and key.get("k0") is not None
        if is_known or (own is not None and own.promises_group(key, count)):
            yield shown[: len(names)]


@given(grouped=grouped_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@UNDISTURBED
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


@given(grouped=grouped_cases(outer=True), seed=st.integers(0, 2**32), ends=st.booleans())
@UNDISTURBED
def test_groups_of_outer_joins_have_the_values_of_a_batch_aggregate(grouped: Grouped, seed: int, ends) -> None:
    check(grouped, seed, budget=False, disturb=False, ends=ends)


@given(grouped=grouped_cases(outer=True), seed=st.integers(0, 2**32), budget=st.booleans(), ends=st.booleans())
@LAW
def test_disturbances_change_no_aggregate_of_an_outer_join(grouped: Grouped, seed: int, budget, ends) -> None:
    check(grouped, seed, budget=budget, ends=ends)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(grouped=grouped_cases(), seed=st.integers(0, 2**32), budget=st.booleans(), ends=st.booleans())
@settings(LAW, max_examples=3000)
def test_the_law_of_aggregates_holds_thousands_of_times(grouped: Grouped, seed: int, budget, ends) -> None:
    check(grouped, seed, budget=budget, ends=ends)


def test_the_law_spills_aggregates() -> None:
    def is_spilled(grouped: Grouped) -> bool:
        chance = random.Random(0)
        with started(plan(Query(grouped.node)), chance, MemoryOptions(budget_bytes=1)) as query:
            for tables in grouped.case.epochs:
                query.epoch(tables)
            return bool(query.manifest.spilled(query.plan.root.id))

    assert is_found(grouped_cases(), is_spilled, 100)
