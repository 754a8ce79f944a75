"""The law, without Spark: whatever happens on the way, the results are those of a batch join, each once."""

import random
import tempfile
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.support.draws import Case, cases
from tests.support.examples import examples
from tests.support.in_process import InProcess
from tests.support.oracle import difference, joined, multiset

from watersmeet.adapt.cleaning import choice as cleaning
from watersmeet.adapt.merging import choice as merging
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.driver.switches import thrown
from watersmeet.planning import plan

LAW = settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def results_of(case: Case, seed: int, *, disturb: bool, forget_pairs: bool = False) -> Counter[str]:
    chance = random.Random(seed)
    bits = chance.choice([64, 64, 2]) if disturb else 64
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, thrown(forget_pairs=forget_pairs):
        plan_ = plan(case.query)
        bits = 64 if any(operator.hash_decides for operator in plan_.operators) else bits
        groups, parcels = chance.choice([1, 4, 16]), chance.random() < 0.7
        rounds = chance.choice([1, 100, 10**6]) if disturb else 10**6
        query = InProcess(plan_, folder, groups, hash_bits=bits, parcels=parcels, round_bytes=rounds)
        got: Counter[str] = Counter()
        for tables in case.epochs:
            if disturb:
                disturbance(query, tables, chance)
            got += flat(query.epoch(tables, chance if disturb else None), case)
        return got


def disturbance(query: InProcess, tables: dict[str, pa.Table], chance: random.Random) -> None:
    """Before an epoch: perhaps a crash after all its work but before its commit, perhaps groups that move."""
    if chance.random() < 0.3:
        query.attempt(tables, chance)
    if chance.random() < 0.4:
        move(query, chance)
    if chance.random() < 0.3:
        before, after = (chance.randrange(query.sites) for _ in range(2))
        query.move([group for group in range(query.groups) if chance.random() < 0.5], before, after)


def change_budget(query: InProcess, chance: random.Random) -> None:
    """The next driver may have another budget, or none; it reads what this one has spilled."""
    query.options = replace(query.options, budget_bytes=chance.choice([None, 1, 100, 1000, 10**6]))


def move(query: InProcess, chance: random.Random) -> None:
    sites = chance.randint(1, 3)
    query.reroute([chance.randrange(sites) for _ in range(query.groups)], sites)


def results_within_a_budget(case: Case, seed: int) -> Counter[str]:
    """Spill to a random budget by a random strategy, clean at random moments, crash in both, clean up at the end."""
    chance = random.Random(seed)
    options = MemoryOptions(
        budget_bytes=chance.choice([1, 200, 1000, 5000]),
        strategy=chance.choice(sorted(STRATEGIES)),
        fraction=chance.choice([0.05, 0.3, 1.0]),
        seed=seed,
        generations_max=chance.choice([0, 1, 64]),
    )
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        plan_ = plan(case.query)
        bits = 64 if any(operator.hash_decides for operator in plan_.operators) else chance.choice([64, 2])
        query = InProcess(
            plan_,
            folder,
            groups=chance.choice([1, 4, 16]),
            hash_bits=bits,
            round_bytes=chance.choice([1, 100, 10**6]),
            parcels=chance.random() < 0.7,
            options=options,
            slice_bytes=chance.choice([1, 500, 10**6]),
        )
        got: Counter[str] = Counter()
        for tables in case.epochs:
            attempt = query.attempt(tables, chance) if chance.random() < 0.2 else None
            disturbance(query, tables, chance)
            got += repeated_alike(attempt, query.epoch(tables, chance), case)
            got += cleaned_at_random(query, case, chance)
        if chance.random() < 0.5:
            change_budget(query, chance)
            query.recover()
        return got + all_cleaned(query, case, chance)


def repeated_alike(attempt: pa.Table | None, results: pa.Table, case: Case) -> Counter[str]:
    got = flat(results, case)
    assert attempt is None or not flat(attempt, case) - got, "a step that is repeated has other results"
    return got


def cleaned_at_random(query: InProcess, case: Case, chance: random.Random) -> Counter[str]:
    got: Counter[str] = Counter()
    closed_by = chance.choice([None, query.manifest.version, query.manifest.version // 2])
    while chance.random() < 0.4 and query.is_missing:
        got += cleaned(query, case, chance, closed_by=closed_by)
    if chance.random() < 0.15:  # the run ends here, and another goes on
        got += all_cleaned(query, case, chance)
        query.recover()
    return got


def all_cleaned(query: InProcess, case: Case, chance: random.Random) -> Counter[str]:
    """The end of a run: all that is missing, bottom-up, and what there is room for live again."""
    got: Counter[str] = Counter()
    for level in range(len(query.plan.levels)):
        while any(query.manifest.spilled(operator.id) for operator in query.plan.levels[level]):
            got += cleaned(query, case, chance, moment="end" if chance.random() < 0.7 else "asked", level=level)
    assert not query.is_missing
    query.loop.revive()
    assert not query.is_missing
    return got


def cleaned(
    query: InProcess, case: Case, chance: random.Random, *, moment="idle", level=None, closed_by=None
) -> Counter[str]:
    """A step of cleanup, perhaps cut off and repeated by another driver with another number of sites."""
    attempt = None
    if chance.random() < 0.3:
        attempt = query.attempt_cleaning(chance)
        change_budget(query, chance)
        query.recover()
        move(query, chance)
    return repeated_alike(attempt, query.clean(moment, chance, level, closed_by), case)


def flat(rows: pa.Table, case: Case) -> Counter[str]:
    columns = {
        f"{name}.{field}": pa.compute.struct_field(rows.column(name), field)
        for name, tables in case.streams.items()
        for field in tables[0].column_names
    }
    return multiset(pa.table(columns))


def broken(case: Case, seed: int, *, disturb: bool) -> str | None:
    got = results_of(case, seed, disturb=disturb)
    expected = joined(case.streams, case.conditions)
    return None if got == expected else difference(got, expected)


@given(case=cases(), seed=st.integers(0, 2**32))
@LAW
def test_every_result_of_a_batch_join_comes_once(case: Case, seed: int) -> None:
    note(f"on {case.conditions}, seed {seed}")
    assert broken(case, seed, disturb=False) is None


@given(case=cases(), seed=st.integers(0, 2**32))
@LAW
def test_moves_merges_repeated_tasks_and_crashes_change_no_result(case: Case, seed: int) -> None:
    note(f"on {case.conditions}, seed {seed}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "FAN_IN", 2)
        patch.setattr(merging, "CLOSED_FAN_IN", 2)
        assert broken(case, seed, disturb=True) is None


@given(case=cases(), seed=st.integers(0, 2**32))
@LAW
def test_spills_and_cleanups_within_any_budget_change_no_result(case: Case, seed: int) -> None:
    note(f"on {case.conditions}, seed {seed}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "FAN_IN", 2)
        patch.setattr(merging, "CLOSED_FAN_IN", 2)
        patch.setattr(cleaning, "GATHER_LEAST_BYTES", random.Random(seed).choice([200, *[1 << 16] * 4]))
        got, expected = results_within_a_budget(case, seed), joined(case.streams, case.conditions)
        assert got == expected, difference(got, expected)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(case=cases(), seed=st.integers(0, 2**32))
@settings(LAW, max_examples=3000)
def test_the_law_holds_thousands_of_times(case: Case, seed: int) -> None:
    note(f"on {case.conditions}, seed {seed}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "FAN_IN", 2)
        patch.setattr(merging, "CLOSED_FAN_IN", 2)
        assert broken(case, seed, disturb=True) is None
        got, expected = results_within_a_budget(case, seed), joined(case.streams, case.conditions)
        assert got == expected, difference(got, expected)


def test_a_kernel_that_never_joins_new_rows_with_new_rows_is_caught() -> None:
    caught = []

    @given(case=cases(most_streams=3))
    @settings(LAW, max_examples=50, database=None)
    def law(case: Case) -> None:
        expected = joined(case.streams, case.conditions)
        if results_of(case, 0, disturb=False, forget_pairs=True) != expected:
            caught.append(case)

    law()
    assert caught
