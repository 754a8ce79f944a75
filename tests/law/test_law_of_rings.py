"""The law of rings: joins on any condition, whatever is moved, merged, repeated or killed, are a batch join's."""

import random
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.law.test_law_of_time import rejected_by
from tests.support.draws import TimedCase
from tests.support.in_process import Moving
from tests.support.law_runs import (
    LAW,
    UNDISTURBED,
    all_cleaned,
    by_stream,
    cleaned_at_random,
    disturbance,
    is_found,
    merged_early,
    repeated_alike,
    started,
    too_little_memory,
)
from tests.support.oracle import difference
from tests.support.ring_draws import OF_THREE, PREDICATE, ring_cases
from tests.support.rules import accepted_rows, expected_results

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.ring import length, relocation, smoothing
from watersmeet.operators.ring import index, task
from watersmeet.operators.ring.schemes import NAMES, Scheme
from watersmeet.planning import plan
from watersmeet.site import ring_cleaning
from watersmeet.site.meeting import RingRows


def close(left: pa.Array, right: pa.Array) -> pa.Array:
    """A predicate: nulls are nothing it knows of."""
    return pc.less_equal(pc.abs(pc.subtract(left, right)), 1)


def beyond(first: pa.Array, second: pa.Array, third: pa.Array) -> pa.Array:
    """A predicate of three streams: it is asked where the last of them comes."""
    return pc.greater(pc.add(first, second), third)


FUNCTIONS = {PREDICATE: (close, ("left", "right")), OF_THREE: (beyond, ("first", "second", "third"))}


def results_of(case: TimedCase, seed: int, *, disturb: bool, budgeted: float = 0.6) -> Counter[str]:
    chance, got, flat = random.Random(seed), Counter[str](), by_stream(case)
    options = too_little_memory(chance) if disturb and chance.random() < budgeted else MemoryOptions()
    ring = {
        "sites": chance.choice([1, 2, 3, 4]) if disturb else 2,
        "functions": FUNCTIONS,
        "ring_scheme": Scheme(chance.choice(NAMES), chance.choice([1, 2, 3])),
        "ring_goal": chance.choice([None, "latency", "output"]),
        "ring_relocation": chance.choice(["aggressive", "passive"]),
        "moving": Moving(
            chance.choice(["auto", "none", "flux"]), apart=chance.random() < 0.5, hasty=chance.random() < 0.5
        ),
    }
    _, rejected = accepted_rows(case.nodes, case.epochs)
    with started(plan(case.query, type_of, endless=True), chance, options, disturb=disturb, **ring) as query:
        for tables, told in zip(case.epochs, rejected, strict=True):
            attempt = query.attempt(tables, chance) if disturb and chance.random() < 0.2 else None
            if disturb:
                disturbance(query, tables, chance)
            got += repeated_alike(attempt, query.epoch(tables, chance if disturb else None), flat)
            assert rejected_by(query) == told
            if disturb:
                got += cleaned_at_random(query, flat, chance)
        return got + all_cleaned(query, flat, chance)


def type_of(sql: str, stream: str) -> pa.DataType:
    """What Spark would say of the few expressions that are drawn."""
    del stream
    return pa.timestamp("us", "UTC") if "INTERVAL" in sql else pa.int64()


def check(case: TimedCase, seed: int, *, disturb: bool = True) -> None:
    note(f"on {case.conditions}, {list(case.nodes.values())}, seed {seed}")
    chance = random.Random(seed)
    with merged_early() as patch:
        for limit in ("HOLD", "LEARN"):
            patch.setattr(length, limit, 1)
        patch.setattr(length, "GAIN", chance.choice([-0.9, 9]))  # another length whenever it is thought best, or never
        patch.setattr(relocation, "STEPS", chance.choice([2, 8]))
        patch.setattr(smoothing, "TOLERANCE", 0.0)
        patch.setattr(index, "TREE_COST", chance.choice([0, 0, 4]))
        patch.setattr(task, "PAIRS_LIMIT", chance.choice([1, 7, 1 << 18]))
        patch.setattr(task, "PART_BYTES", chance.choice([1, 100, 1 << 25]))
        got, expected = results_of(case, seed, disturb=disturb), expected_results(case)
    assert got == expected, difference(got, expected)


@given(case=ring_cases(), seed=st.integers(0, 2**32))
@UNDISTURBED
def test_rows_are_joined_on_any_condition(case: TimedCase, seed: int) -> None:
    check(case, seed, disturb=False)


@given(case=ring_cases(), seed=st.integers(0, 2**32))
@LAW
def test_moves_merges_repeated_tasks_and_crashes_change_no_ring(case: TimedCase, seed: int) -> None:
    check(case, seed)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=ring_cases(), seed=st.integers(0, 2**32))
@settings(LAW, max_examples=3000)
def test_the_law_of_rings_holds_thousands_of_times(case: TimedCase, seed: int) -> None:
    check(case, seed)


def test_probes_that_are_met_as_if_they_were_stored_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def everything(self, source, _):
        return self._all_new(source)

    monkeypatch.setattr(RingRows, "_of_groups", everything)
    assert is_found(ring_cases(), lambda case: results_of(case, 0, disturb=False) != expected_results(case))


@pytest.mark.long
def test_rows_of_rings_that_are_taken_to_have_met_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a join: only rows of one group are brought together."""
    monkeypatch.setattr(
        ring_cleaning, "_wanted", lambda cleanup, _mine, _theirs, groups: cleanup.order.cleaned & groups
    )
    drawn = st.tuples(ring_cases(), st.integers(0, 99))
    assert is_found(drawn, lambda pair: results_of(*pair, disturb=True, budgeted=1) != expected_results(pair[0]))
