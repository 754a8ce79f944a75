"""The law with punctuations and unique keys: what they let go is never missed, and what breaks them is told."""

import random
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.law.test_law_of_aggregates import Grouped, grouped_cases
from tests.law.test_law_of_aggregates import check as check_aggregate
from tests.law.test_law_of_outer_joins import check as check_outer
from tests.law.test_law_of_outer_joins import type_of
from tests.law.test_law_of_time import check as check_inner
from tests.support.draws import OuterCase, TimedCase, promised_cases, without_broken_promises
from tests.support.in_process import InProcess
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
from tests.support.punctuations import Pattern, Punctuated

from watersmeet.adapt.merging import purging
from watersmeet.adapt.registry import Registry
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.operators.promises import patterns, ranges
from watersmeet.planning import plan
from watersmeet.site import expiry
from watersmeet.state.event_log import EventLog
from watersmeet.state.events import PurgeEvent

SEEDS = st.integers(0, 2**32)
QUIET = 4
RARELY = 0.2


@given(case=promised_cases(outer=False), seed=SEEDS, budget=st.booleans())
@LAW
def test_promises_change_no_inner_join(case: TimedCase, seed: int, budget) -> None:
    check_inner(case, seed, budget=budget)


@pytest.mark.long
@given(case=promised_cases(outer=False), seed=SEEDS, budget=st.booleans(), retention_us=st.integers(1, 12))
@LAW
def test_forgetting_promises_that_are_kept_changes_nothing(case: TimedCase, seed: int, budget, retention_us) -> None:
    check_inner(without_broken_promises(case), seed, budget=budget, retention_us=retention_us)


@given(case=promised_cases(outer=True), seed=SEEDS, budget=st.booleans(), ends=st.booleans())
@LAW
def test_promises_decide_rows_without_a_match(case: OuterCase, seed: int, budget, ends) -> None:
    check_outer(case, seed, budget=budget, ends=ends)


@given(case=promised_cases(outer=True), seed=SEEDS, ends=st.booleans())
@UNDISTURBED
def test_promises_decide_rows_in_the_epoch_after_them(case: OuterCase, seed: int, ends) -> None:
    check_outer(case, seed, budget=False, disturb=False, ends=ends)


@given(grouped=grouped_cases(promised=True), seed=SEEDS, ends=st.booleans())
@UNDISTURBED
def test_promises_make_groups_final_in_the_epoch_after_them(grouped: Grouped, seed: int, ends) -> None:
    check_aggregate(grouped, seed, budget=False, disturb=False, ends=ends)


@given(grouped=grouped_cases(promised=True), seed=SEEDS, budget=st.booleans(), ends=st.booleans())
@LAW
def test_promises_make_groups_final(grouped: Grouped, seed: int, budget, ends) -> None:
    check_aggregate(grouped, seed, budget=budget, ends=ends)


@given(case=promised_cases(outer=False), seed=SEEDS, budget=st.booleans())
@LAW
def test_looks_at_what_is_new_leave_no_row_of_an_inner_join_behind(case: TimedCase, seed: int, budget) -> None:
    assert found_by_another_look(case, seed, budget=budget) == 0


@given(case=promised_cases(outer=True), seed=SEEDS, budget=st.booleans())
@LAW
def test_looks_at_what_is_new_leave_no_row_of_an_outer_join_behind(case: OuterCase, seed: int, budget) -> None:
    assert found_by_another_look(case, seed, budget=budget) == 0


def found_by_another_look(case: TimedCase, seed: int, *, budget: bool) -> int:
    """How many rows can go by promises that only a driver finds which knows of no look before; merges find some."""
    chance = random.Random(seed)
    options = too_little_memory(chance) if budget else UNLIMITED
    nothing = {name: table.slice(0, 0) for name, table in case.epochs[0].items()}
    merges_some = merged_early if chance.random() < RARELY else pytest.MonkeyPatch.context
    with merges_some() as patch, started(plan(case.query, type_of=type_of), chance, options) as query:
        patch.setattr(purging, "SMALL_BYTES", 0)
        patch.setattr(purging, "WAIT_MOST", 1)
        for _ in steps_to_the_end(query, case.epochs, chance, disturb=True, ends=False):
            purge_all(query)
        for _ in range(QUIET):
            purge_all(query)
            query.epoch(nothing)
        before = purged(query)
        query.recover()
        purge_all(query)
        query.epoch(nothing)
        return purged(query) - before


def purge_all(query: InProcess) -> None:
    """Whatever can go is enough for a run to be written anew."""
    coordinator = query.loop.stepper.coordinator
    coordinator.change_registry(Registry().with_threshold("PurgeThresholdReached", 1e-9), "a test changes it")


def purged(query: InProcess) -> int:
    told = EventLog(query.loop.stepper.checkpoint.store).all()
    return sum(each.before.rows - each.after.rows for each in told if isinstance(each, PurgeEvent))


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=promised_cases(outer=False), seed=SEEDS, budget=st.booleans())
@settings(LAW, max_examples=1000)
def test_the_law_of_promises_holds_a_thousand_times(case: TimedCase, seed: int, budget) -> None:
    check_inner(case, seed, budget=budget)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=promised_cases(outer=True), seed=SEEDS, budget=st.booleans(), ends=st.booleans())
@settings(LAW, max_examples=1000)
def test_the_law_of_promised_matches_holds_a_thousand_times(case: OuterCase, seed: int, budget, ends) -> None:
    check_outer(case, seed, budget=budget, ends=ends)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(grouped=grouped_cases(promised=True), seed=SEEDS, budget=st.booleans(), ends=st.booleans())
@settings(LAW, max_examples=1000)
def test_the_law_of_promised_groups_holds_a_thousand_times(grouped: Grouped, seed: int, budget, ends) -> None:
    check_aggregate(grouped, seed, budget=budget, ends=ends)


def test_ranges_that_are_a_number_too_long_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ranges.Ranges.since
    case = st.just(pairs_of_neighbouring_keys())
    assert not is_found(case, lambda each: is_broken(check_inner, each), 1)
    monkeypatch.setattr(ranges.Ranges, "since", lambda self, values: real(self, values - 1))
    assert is_found(case, lambda each: is_broken(check_inner, each), 1)


def test_keys_that_are_promised_a_microsecond_too_long_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = patterns.Patterns.until
    case = st.just(a_match_at_the_end_of_what_is_promised({"k0": (1,), "ts": (None, 14)}))
    assert not is_found(case, lambda each: is_broken(check_outer, each), 1)
    monkeypatch.setattr(patterns.Patterns, "until", lambda self, column: real(self, column) + 1)
    assert is_found(case, lambda each: is_broken(check_outer, each), 1)


def test_ranges_of_time_that_do_not_continue_each_other_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ranges.Ranges.reached
    case = st.just(a_match_at_the_end_of_what_is_promised({"ts": (None, 14)}))
    assert not is_found(case, lambda each: is_broken(check_outer, each), 1)
    monkeypatch.setattr(ranges.Ranges, "reached", lambda some, start: real(some, start + 1))
    assert is_found(case, lambda each: is_broken(check_outer, each), 1)


def pairs_of_neighbouring_keys() -> TimedCase:
    """B promises a key. The next one has a row of A then, and gets its match later."""
    schema = pa.schema([("k0", pa.int64()), ("id", pa.int64())])
    rows = [{"A": [2], "B": []}, {"A": [], "B": []}, {"A": [], "B": [2]}]
    promises = {"B": Punctuated(("k0",), (({"k0": (1,)},), (), ()))}
    epochs = tuple(
        {name: pa.table({"k0": keys, "id": keys}, schema=schema) for name, keys in epoch.items()}
        | {"B#promises": promises["B"].table(number, schema)}
        for number, epoch in enumerate(rows)
    )
    nodes = StreamNode("A", schema), StreamNode("B", schema, punctuated=("k0",))
    return TimedCase(Query(JoinNode(nodes, "A.k0 = B.k0")), ("A.k0 = B.k0",), epochs, promises)


def a_match_at_the_end_of_what_is_promised(pattern: Pattern) -> OuterCase:
    """A.left(B) with one row of A; B promises that none comes before a time, and brings its match with just that."""
    schema = pa.schema([("k0", pa.int64()), ("id", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    rows = [{"A": [10], "B": []}, {"A": [], "B": []}, {"A": [], "B": [14]}]
    promises = {"B": Punctuated(("k0", "ts"), ((pattern,), (), ()))}
    epochs = tuple(
        {name: at_times(schema, times) for name, times in epoch.items()}
        | {"B#promises": promises["B"].table(number, schema)}
        for number, epoch in enumerate(rows)
    )
    on = "A.k0 = B.k0 AND B.ts BETWEEN A.ts - INTERVAL 2 MICROSECONDS AND A.ts + INTERVAL 4 MICROSECONDS"
    nodes = StreamNode("A", schema, "ts"), StreamNode("B", schema, "ts", punctuated=("k0", "ts"))
    shown = tuple(f"{name}.{field}" for name in "AB" for field in schema.names)
    query = Query(JoinNode(nodes, on, "left"), shown)
    return OuterCase(query, (), epochs, promises, how="left", on=on, left=("A",), within=(2, 4))


def at_times(schema: pa.Schema, times: list[int]) -> pa.Table:
    """Rows of key 1 at some microseconds."""
    columns = [pa.array([1] * len(times), pa.int64()), *[pa.array(times, pa.int64())] * 2]
    return pa.table([each.cast(kind) for each, kind in zip(columns, schema.types, strict=True)], schema=schema)


def test_rows_that_others_still_ask_for_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The possible matches of a row that is not decided yet stay, even if no further row of its kind comes."""
    real = expiry.End._are_promised  # noqa: SLF001

    def hasty(self, rows, *, arriving):
        return real(replace(self, purge=self.purge and replace(self.purge, asked=None)), rows, arriving=arriving)

    case = st.just(matched_rows_that_are_decided_late())
    assert not is_found(case, lambda each: is_broken(check_outer, each), 1)
    monkeypatch.setattr(expiry.End, "_are_promised", hasty)
    assert is_found(case, lambda each: is_broken(check_outer, each), 1)


def matched_rows_that_are_decided_late() -> OuterCase:
    """A.left(B) with one pair. A promises its key first, so only the question of A's row keeps B's row in the state."""
    rows = [{"A": [1], "B": [1]}, {"A": [2], "B": [3]}, {"A": [2], "B": [3]}, {"A": [], "B": []}]
    promises = {
        "A": Punctuated(("k0",), (({"k0": (1,)},), (), (), ())),
        "B": Punctuated(("k0",), (({"k0": (4,)},), (), ({"k0": (1,)},), ())),
    }
    schema = pa.schema([("k0", pa.int64()), ("id", pa.int64())])
    nodes = [StreamNode(name, schema, punctuated=("k0",)) for name in "AB"]
    epochs = tuple(
        {name: pa.table({"k0": keys, "id": keys}, schema=schema) for name, keys in epoch.items()}
        | {f"{name}#promises": promises[name].table(number, schema) for name in "AB"}
        for number, epoch in enumerate(rows)
    )
    on = "A.k0 = B.k0"
    query = Query(JoinNode(tuple(nodes), on, "left"), ("A.k0", "A.id", "B.k0", "B.id"))
    return OuterCase(query, (), epochs, promises, how="left", on=on, left=("A",))


def is_broken(check: Callable[..., None], case: TimedCase) -> bool:
    try:
        check(case, 0, budget=False)
    except AssertionError:
        return True
    return False
