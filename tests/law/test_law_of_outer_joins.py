"""The law with outer, semi and anti joins: each row alone comes once, and when the rules say so."""

import random
import tempfile
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.law.test_law_in_process import LAW, disturbance
from tests.support.draws import OuterCase, outer_cases
from tests.support.in_process import InProcess
from tests.support.oracle import difference, multiset
from tests.support.rules import expected_outer

from watersmeet.adapt.merging import choice as merging
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.planning import plan


def results_of(case: OuterCase, seed: int, *, disturb: bool, budget: bool, ends: bool) -> Counter[str]:
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
        plan_ = plan(case.query, type_of=_type)
        decides = any(operator.hash_decides for operator in plan_.operators)
        query = InProcess(
            plan_,
            folder,
            groups=chance.choice([1, 4, 16]),
            hash_bits=64 if decides or not disturb else chance.choice([64, 64, 2]),
            round_bytes=chance.choice([1, 100, 10**6]) if disturb else 10**6,
            parcels=chance.random() < 0.7,
            options=options,
            slice_bytes=chance.choice([1, 500, 10**6]),
        )
        got: Counter[str] = Counter()
        for tables in case.epochs:
            if disturb:
                disturbance(query, tables, chance)
            got += flat(query.epoch(tables, chance if disturb else None))
            while disturb and chance.random() < 0.3:
                got += flat(query.clean(chance.choice(["idle", "final", "asked"]), chance))
        for level in range(len(query.plan.levels)):
            while any(query.manifest.spilled(operator.id) for operator in query.plan.levels[level]):
                got += flat(query.clean("end", chance, level=level))
        if ends:
            query.loop.end_input()
        rows = query.clean("final", chance)
        return got + flat(rows)


def _type(sql: str, _: str) -> pa.DataType:
    return pa.bool_() if "%" in sql else pa.timestamp("us", "UTC") if "INTERVAL" in sql else pa.int64()


def flat(rows: pa.Table) -> Counter[str]:
    return multiset(rows.flatten())


def check(case: OuterCase, seed: int, *, budget: bool, disturb: bool = True, ends: bool = False) -> None:
    note(f"{case.how} on {case.on}, {list(case.nodes.values())}, seed {seed}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "FAN_IN", 2)
        patch.setattr(merging, "SETTLED_FAN_IN", 2)
        patch.setattr(merging, "CLOSED_FAN_IN", 2)
        got = results_of(case, seed, disturb=disturb, budget=budget, ends=ends)
        expected = expected_outer(case, has_ended=ends)
    assert got == expected, difference(got, expected)


@given(case=outer_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@LAW
def test_rows_without_a_match_come_once_and_when_they_are_final(case: OuterCase, seed: int, ends) -> None:
    check(case, seed, budget=False, disturb=False, ends=ends)


@given(case=outer_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@LAW
def test_moves_merges_repeated_tasks_and_crashes_change_no_outer_join(case: OuterCase, seed: int, ends) -> None:
    check(case, seed, budget=False, ends=ends)


@given(case=outer_cases(), seed=st.integers(0, 2**32), ends=st.booleans())
@LAW
def test_spills_and_cleanups_change_no_outer_join(case: OuterCase, seed: int, ends) -> None:
    check(case, seed, budget=True, ends=ends)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=outer_cases(), seed=st.integers(0, 2**32), budget=st.booleans(), ends=st.booleans())
@settings(LAW, max_examples=3000)
def test_the_law_of_outer_joins_holds_thousands_of_times(case: OuterCase, seed: int, budget, ends) -> None:
    check(case, seed, budget=budget, ends=ends)
