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
from tests.support.miniature import Miniature
from tests.support.oracle import difference, joined, multiset

from watersmeet.adapt import cleaning, merging
from watersmeet.engine.memory import MemoryOptions
from watersmeet.planning import plan

LAW = settings(max_examples=examples(250), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def results_of(case: Case, seed: int, *, disturb: bool, forget_pairs: bool = False) -> Counter[str]:
    chance = random.Random(seed)
    bits = chance.choice([64, 64, 2]) if disturb else 64
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = plan(case.query)
        bits = 64 if any(operator.hash_decides for operator in query.operators) else bits
        groups, parcels = chance.choice([1, 4, 16]), chance.random() < 0.7
        mini = Miniature(query, folder, groups, hash_bits=bits, forget_pairs=forget_pairs, parcels=parcels)
        mini.round_bytes = chance.choice([1, 100, 10**6]) if disturb else 10**6
        got: Counter[str] = Counter()
        for tables in case.epochs:
            if disturb:
                disturbance(mini, tables, chance)
            got += flat(mini.epoch(tables, chance if disturb else None), case)
        return got


def disturbance(mini: Miniature, tables: dict[str, pa.Table], chance: random.Random) -> None:
    """Before an epoch: perhaps a crash after all its work but before its commit, perhaps groups that move."""
    if chance.random() < 0.3:
        mini.attempt(tables, chance)
        mini.recover()
    if chance.random() < 0.4:
        move(mini, chance)


def change_budget(mini: Miniature, chance: random.Random) -> None:
    """The next driver may have another budget, or none; it reads what this one has spilled."""
    mini.options = replace(mini.options, budget_bytes=chance.choice([None, 1, 100, 1000, 10**6]))


def move(mini: Miniature, chance: random.Random) -> None:
    sites = chance.randint(1, 3)
    mini.reroute([chance.randrange(sites) for _ in range(mini.groups)], sites)


STRATEGIES = ["adaptive", "global-output-with-penalty", "global-output", "local-output", "bottom-up", "lru", "random"]


def results_within_a_budget(case: Case, seed: int) -> Counter[str]:
    """Spill to a random budget by a random strategy, clean at random moments, crash in both, clean up at the end."""
    chance = random.Random(seed)
    options = MemoryOptions(
        budget_bytes=chance.choice([1, 200, 1000, 5000]),
        strategy=chance.choice(STRATEGIES),
        fraction=chance.choice([0.05, 0.3, 1.0]),
        seed=seed,
    )
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        query = plan(case.query)
        bits = 64 if any(operator.hash_decides for operator in query.operators) else chance.choice([64, 2])
        groups = chance.choice([1, 4, 16])
        rounds = chance.choice([1, 100, 10**6])
        parcels = chance.random() < 0.7
        mini = Miniature(query, folder, groups, 2, bits, options=options, round_bytes=rounds, parcels=parcels)
        mini.caretaker.slice_bytes = chance.choice([1, 500, 10**6])
        got: Counter[str] = Counter()
        for tables in case.epochs:
            attempt = flat(mini.attempt(tables, chance), case) if chance.random() < 0.2 else None
            disturbance(mini, tables, chance)
            results = flat(mini.epoch(tables, chance), case)
            assert attempt in (None, results), "an epoch that is repeated has other results"
            got += results
            closed_by = chance.choice([None, mini.manifest.version, mini.manifest.version // 2])
            while chance.random() < 0.4 and mini.begin_cleaning(closed_by=closed_by):
                got += cleaned(mini, case, chance)
            if chance.random() < 0.15:  # the run ends here, and another goes on
                got += all_cleaned(mini, case, chance)
                mini.recover()
        if chance.random() < 0.5:
            change_budget(mini, chance)
            mini.recover()
        return got + all_cleaned(mini, case, chance)


def all_cleaned(mini: Miniature, case: Case, chance: random.Random) -> Counter[str]:
    """The end of a run: all that is missing, bottom-up, and what there is room for live again."""
    got: Counter[str] = Counter()
    for level in range(len(mini.plan.levels)):
        while mini.begin_cleaning(level, at_end=chance.random() < 0.7):
            got += cleaned(mini, case, chance)
    assert mini.caretaker.missing_groups(mini.manifest) == 0
    mini.revive()
    assert mini.caretaker.missing_groups(mini.manifest) == 0
    return got


def cleaned(mini: Miniature, case: Case, chance: random.Random) -> Counter[str]:
    """A step of cleanup, perhaps cut off and repeated by another driver with another number of sites."""
    attempt = None
    if chance.random() < 0.3:
        attempt = flat(mini.attempt_cleaning(chance), case)
        change_budget(mini, chance)
        mini.recover()
        move(mini, chance)
    results = flat(mini.clean(chance), case)
    assert attempt in (None, results), "a step that is repeated has other results"
    return results


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
