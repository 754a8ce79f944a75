"""How the laws run a drawn query in this process: with which options, disturbed by what, and cleaned up when."""

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from tests.support.draws import Case
from tests.support.examples import examples
from tests.support.in_process import InProcess
from tests.support.oracle import multiset
from watersmeet.adapt.merging import choice as merging
from watersmeet.adapt.merging import purging
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.registry import LISTENERS, THRESHOLDS, Registry
from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.model.plan import Plan

LAW = settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
UNDISTURBED = settings(LAW, max_examples=LAW.max_examples // 4)
"""Where nothing is disturbed: what is found there, the disturbed runs find, too, though not as plainly."""

UNLIMITED = MemoryOptions()

Drawn = TypeVar("Drawn")
Flat = Callable[[pa.Table], Counter[str]]
"""Rows of a step as a multiset."""


@contextmanager
def started(
    plan: Plan, chance: random.Random, options: MemoryOptions = UNLIMITED, *, disturb: bool = True, **more: object
) -> Iterator[InProcess]:
    """A query of some groups, whose rows travel in some way; disturbed, hashes may collide and rounds are short."""
    decides = any(operator.hash_decides or operator.kind == "aggregate" for operator in plan.operators)
    drawn = {
        "groups": chance.choice([1, 4, 16]),
        "hash_bits": 64 if decides or not disturb else chance.choice([64, 64, 2]),
        "round_bytes": chance.choice([1, 100, 10**6]) if disturb else 10**6,
        "parcels": chance.random() < 0.7,
        "slice_bytes": chance.choice([1, 500, 10**6]),
    }
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        closing(InProcess(plan, folder, options=options, **{**drawn, **more})) as query,
    ):
        yield query


def too_little_memory(chance: random.Random) -> MemoryOptions:
    """Some budget that is too small, and some strategy."""
    return MemoryOptions(
        budget_bytes=chance.choice([1, 200, 1000, 5000]),
        strategy=chance.choice(sorted(STRATEGIES)),
        fraction=chance.choice([0.05, 0.3, 1.0]),
        seed=chance.randrange(2**32),
        generations_max=chance.choice([0, 1, 64]),
    )


@contextmanager
def merged_early() -> Iterator[pytest.MonkeyPatch]:
    """Two runs are enough for a merge, and nothing is so small that it is looked at again and again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(purging, "SMALL_BYTES", 0)
        for limit in ("FAN_IN", "SETTLED_FAN_IN", "CLOSED_FAN_IN"):
            patch.setattr(merging, limit, 2)
        yield patch


def disturbance(query: InProcess, tables: dict[str, pa.Table], chance: random.Random) -> None:
    """Before an epoch: perhaps a crash before its commit or another registry, groups that move, are split or parked."""
    if chance.random() < 0.3:
        query.attempt(tables, chance)
    if chance.random() < 0.4:
        change_registry(query, chance)
    if chance.random() < 0.4:
        move(query, chance)
    if chance.random() < 0.3:
        before, after = (chance.randrange(query.sites) for _ in range(2))
        query.move([group for group in range(query.groups) if chance.random() < 0.5], before, after)
    if chance.random() < 0.4:
        query.split(chance)
    if chance.random() < 0.3:
        query.park(chance)


def change_registry(query: InProcess, chance: random.Random) -> None:
    """Other components run at other events; which results there are must not depend on that."""
    registry = Registry(frozenset(pair for pair in LISTENERS if chance.random() < 0.7))
    for event in THRESHOLDS:
        registry = registry.with_threshold(event, chance.choice([0.01, 0.3, 0.99]))
    query.loop.stepper.coordinator.change_registry(registry, "a test changes it")


def move(query: InProcess, chance: random.Random) -> None:
    sites = chance.randint(1, 3)
    query.reroute([chance.randrange(sites) for _ in range(query.groups)], sites)


def change_budget(query: InProcess, chance: random.Random) -> None:
    """The next driver may have another budget, or none; it reads what this one has spilled."""
    query.options = replace(query.options, budget_bytes=chance.choice([None, 1, 100, 1000, 10**6]))


def repeated_alike(attempt: pa.Table | None, results: pa.Table, flat: Flat) -> Counter[str]:
    got = flat(results)
    assert attempt is None or not flat(attempt) - got, "a step that is repeated has other results"
    return got


def cleaned_at_random(query: InProcess, flat: Flat, chance: random.Random) -> Counter[str]:
    got: Counter[str] = Counter()
    closed_by = chance.choice([None, query.manifest.version, query.manifest.version // 2])
    while chance.random() < 0.4 and query.is_missing:
        got += _cleaned(query, flat, chance, closed_by=closed_by)
    if chance.random() < 0.15:  # the run ends here, and another goes on
        got += all_cleaned(query, flat, chance)
        query.recover()
    return got


def all_cleaned(query: InProcess, flat: Flat, chance: random.Random) -> Counter[str]:
    """The end of a run: all that is missing, bottom-up, and what there is room for live again."""
    got: Counter[str] = Counter()
    for level in _levels_with_spilled(query):
        got += _cleaned(query, flat, chance, moment="end" if chance.random() < 0.7 else "asked", level=level)
    assert not query.is_missing
    query.loop.revive()
    assert not query.is_missing
    return got


def _cleaned(
    query: InProcess, flat: Flat, chance: random.Random, *, moment="idle", level=None, closed_by=None
) -> Counter[str]:
    """A step of cleanup, perhaps cut off and repeated by another driver with another number of sites."""
    attempt = None
    if chance.random() < 0.3:
        attempt = query.attempt_cleaning(chance)
        change_budget(query, chance)
        query.recover()
        move(query, chance)
    return repeated_alike(attempt, query.clean(moment, chance, level, closed_by), flat)


def _levels_with_spilled(query: InProcess) -> Iterator[int]:
    """The lowest level where something is missing, again and again until there is none."""
    for level in range(len(query.plan.levels)):
        while any(query.manifest.spilled(operator.id) for operator in query.plan.levels[level]):
            yield level


def steps_to_the_end(
    query: InProcess, epochs: tuple[dict[str, pa.Table], ...], chance: random.Random, *, disturb: bool, ends: bool
) -> Iterator[tuple[int, pa.Table]]:
    """What each step gives of a query that also gives rows when they are final; all input ends, if it ``ends``.

    Each comes with the number of the epoch it is or comes after.
    """
    number = 0
    for number, tables in enumerate(epochs):
        if disturb:
            disturbance(query, tables, chance)
        yield number, query.epoch(tables, chance if disturb else None)
        while disturb and chance.random() < 0.3:
            yield number, query.clean(chance.choice(["idle", "final", "asked", "drain"]), chance)
    for level in _levels_with_spilled(query):
        yield number, query.clean("end", chance, level=level)
    if ends:
        query.loop.end_input()
    yield from ((number, table) for table in _to_the_last(query, chance))


def _to_the_last(query: InProcess, chance: random.Random) -> Iterator[pa.Table]:
    """Rows that come alone out of one operator may be what the next above waits for, or has spilled groups for."""
    for _ in range(2 * len(query.plan.levels)):
        yield query.clean("final", chance)
        for level in _levels_with_spilled(query):
            yield query.clean("end", chance, level=level)


def flattened(rows: pa.Table) -> Counter[str]:
    return multiset(rows.flatten())


def by_stream(case: Case) -> Flat:
    """All columns of every stream, as `tests.support.oracle.joined` has them."""
    columns = [(name, field) for name, tables in case.streams.items() for field in tables[0].column_names]

    def flat(rows: pa.Table) -> Counter[str]:
        return multiset(pa.table({f"{name}.{field}": pc.struct_field(rows[name], field) for name, field in columns}))

    return flat


class FoundError(Exception):
    """A drawn case is what was looked for."""


def is_found(drawn: SearchStrategy[Drawn], is_so: Callable[[Drawn], bool], most: int = 1000) -> bool:
    """Whether one of some drawn cases is so: a law that never fails must be able to fail."""

    @given(drawn)
    @settings(LAW, max_examples=most, database=None, phases=[Phase.generate])
    def search(case: Drawn) -> None:
        if is_so(case):
            raise FoundError

    try:
        search()
    except FoundError:
        return True
    return False
