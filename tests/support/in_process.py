"""A query in this process: the shipped driver over the local runner, with DuckDB for expressions."""

import hashlib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count

import msgspec
import numpy as np
import pyarrow as pa

from tests.support.oracle import connection
from tests.support.parking import Parking
from watersmeet.adapt.cleaning.draining import Draining
from watersmeet.adapt.cleaning.policy import missing_groups
from watersmeet.adapt.moving.policies import DEFAULT_ADAPTATION
from watersmeet.adapt.moving.put_off import can_be_parked
from watersmeet.adapt.policy import MemoryOptions, Moment
from watersmeet.adapt.ring.cost import Goal
from watersmeet.adapt.ring.relocation import Relocation
from watersmeet.driver.checkpoint import Expectation, open_checkpoint
from watersmeet.driver.loop import Loop
from watersmeet.driver.ports import Done, Step
from watersmeet.driver.start import DriverOptions, start_driver
from watersmeet.lab.simulator.chaos.world import hurry
from watersmeet.model.ids import EpochId, SiteId
from watersmeet.model.plan import Plan
from watersmeet.operators.hashing import is_hashable
from watersmeet.operators.ring.schemes import PSP, Scheme
from watersmeet.planning.group_columns import traced
from watersmeet.runners.local import LocalOffsets, LocalRunner, Tables, hash_whole_numbers
from watersmeet.site.effects import Effects
from watersmeet.site.result_files import ResultFormat
from watersmeet.site.spec import Function
from watersmeet.state import held, runs
from watersmeet.state.changes import AnnounceMove, MoveGroups, Reroute, SplitGroup
from watersmeet.state.groups import GroupSet, Hashes
from watersmeet.state.manifest import Manifest
from watersmeet.state.parts import whole_path
from watersmeet.state.splits import dealable
from watersmeet.storage.base import Storage
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

FULL_HASH_BITS = 64
_PLAIN = re.compile(r"`(\w+)`\.`(\w+)`")
_WALL_CLOCK = re.compile(r"UNIX_MICROS\(MAKE_TIMESTAMP\(YEAR\(([^()]+)\), .*?, 'UTC'\)\)")
_names = (f"t{number}" for number in count())


@dataclass(frozen=True)
class Moving:
    """Who moves groups. If sites are ``apart``, they tell of processes of their own, and of so many times their work.

    A policy that is ``hasty`` moves whenever anything is gained by it, every epoch. If executors ``come_and_go``, there
    are one to four of them after each step, and as many sites as soon as can be. With a folder for ``copies``, state is
    taken for remote, and hosts lose their copies at times.
    """

    adaptation: str = DEFAULT_ADAPTATION
    apart: bool = False
    hasty: bool = False
    times: float = 1.0
    come_and_go: bool = False
    copies: str | None = None


moving = Moving()
"""For queries that are not told; the law changes it for all of its queries."""


class Killed(BaseException):
    """The driver is killed here."""


@dataclass
class InProcess:
    """A query that can be killed and started again."""

    plan: Plan
    folder: str
    groups: int = 16
    sites: int = 2
    hash_bits: int = FULL_HASH_BITS
    retained: int = 2
    round_bytes: int = 1 << 30
    parcels: bool = True
    options: MemoryOptions = field(default_factory=MemoryOptions)
    slice_bytes: int | None = None
    files: ResultFormat | None = None
    rejected_path: str | None = None
    retention_us: int | None = None
    functions: Mapping[str, Function] = field(default_factory=dict)
    ring_scheme: Scheme = PSP
    ring_goal: Goal | None = None
    ring_relocation: Relocation = "aggressive"
    offsets: LocalOffsets = field(default_factory=LocalOffsets)
    moving: Moving = field(default_factory=lambda: moving)
    weights: tuple[float, ...] = ()
    parking: Parking = field(default_factory=Parking)
    loop: Loop[Tables] = field(init=False)

    def __post_init__(self) -> None:
        self.plan = traced(self.plan)
        self.drivers = 0
        self._start()

    def _start(self) -> None:
        self.drivers += 1
        driver = f"driver{self.drivers}-{next(_names)}"
        follow = self.moving.come_and_go
        expected = Expectation("query", self.plan, self.groups, self.groups, self.sites, self.weights, follow)
        checkpoint = open_checkpoint(self.folder, expected, self.offsets, driver, self._storage)
        self.runner = FileRunner(checkpoint.storage, evaluate, self._hashes)
        self.runner.moving = self.moving
        parcels = self.parcels and self.hash_bits == FULL_HASH_BITS
        options = DriverOptions(
            driver,
            expected,
            self.options,
            self.retained,
            self.files,
            round_bytes=self.round_bytes,
            parcels=parcels,
            rejected_path=self.rejected_path,
            retention_us=self.retention_us,
            adaptation=self.moving.adaptation,
            functions=self.functions,
            ring_scheme=self.ring_scheme,
            ring_goal=self.ring_goal,
            ring_relocation=self.ring_relocation,
        )
        self.loop = start_driver(checkpoint, self.runner, options)
        coordinator = self.loop.stepper.coordinator
        coordinator.policies = [*coordinator.policies, self.parking]
        for policy in coordinator.policies if self.moving.hasty else ():
            hurry(policy)
        if self.slice_bytes is not None:
            self.loop.stepper.coordinator.cleaning.slice_bytes = self.slice_bytes

    def _storage(self, storage: LocalStorage) -> Storage:
        copies = self.moving.copies
        return LocalStorage(storage.root, durable=False) if copies is None else FsspecStorage(storage.url, copies)

    def close(self) -> None:
        """Let go of the checkpoint: its lock is an open file, of which a process has few."""
        self.loop.close()

    @property
    def manifest(self) -> Manifest:
        return self.loop.manifest

    def epoch(self, tables: Tables, chance: random.Random | None = None) -> pa.Table:
        """Join a batch; gives what the sink got, also from the cleanup that could not wait."""
        return self._results(lambda: self.loop.batch(tables, self._next_batch()), chance)

    def attempt(self, tables: Tables, chance: random.Random | None = None) -> pa.Table:
        """Join a batch with a driver that is killed before the commit, and start another."""
        return self._killed(lambda: self.loop.batch(tables, self._next_batch()), chance)

    def clean(self, moment: Moment, chance: random.Random | None, level: int | None = None, closed_by=None) -> pa.Table:
        """A step of cleanup."""
        operators = () if level is None else tuple(o.id for o in self.manifest.plan.levels[level])
        return self._results(lambda: self.loop.clean(moment, operators, closed_by), chance)

    def attempt_cleaning(self, chance: random.Random | None) -> pa.Table:
        """A step of cleanup with a driver that is killed before it can commit it."""
        return self._killed(lambda: self.loop.clean("idle"), chance, passes=1)

    @property
    def is_missing(self) -> bool:
        return missing_groups(self.manifest) > 0

    def recover(self) -> None:
        """Another driver goes on with the last version."""
        self.loop.close()
        self._start()

    def reroute(self, routing: Sequence[int], sites: int) -> None:
        """Move groups, committed with the next version."""
        moved = tuple(SiteId(site % sites) for site in routing)
        self.sites = sites
        self.loop.stepper.adapt([Reroute({o.id: moved for o in self.plan.operators}, sites, "a test moves groups")])

    def move(self, groups: Sequence[int], before: int, after: int) -> None:
        """Move some groups of all operators from a site to another, with the next version; if remote, announce it."""
        sites, chosen = self.loop.stepper.view("step").manifest.sites, GroupSet.of(groups)
        way = SiteId(before % sites), SiteId(after % sites)
        kind = MoveGroups if self.moving.copies is None else AnnounceMove
        self.loop.stepper.adapt([kind(o.id, chosen, *way, reason="a test moves groups") for o in self.plan.operators])

    def split(self, chance: random.Random) -> None:
        """Split some groups of all operators over some of their sites, or make them whole, with the next version."""
        manifest = self.loop.stepper.view("step").manifest
        for operator in self.plan.operators:
            state, inputs = manifest.operators[operator.id], dealable(operator)
            for group in range(manifest.groups) if inputs and manifest.sites > 1 else ():
                if chance.random() < 0.6:
                    own = state.routing[group]
                    others = [SiteId(site) for site in range(manifest.sites) if site != own]
                    sites = (own, *chance.sample(others, chance.randint(0, len(others))))
                    before = next((each.sites for each in state.splits if each.group == group), (own,))
                    change = SplitGroup(operator.id, group, chance.choice(inputs), before, sites, reason="a test does")
                    self.loop.stepper.adapt([change])

    def park(self, chance: random.Random) -> None:
        """Park some groups of all operators after the next epoch, and hold some, unless every change must be told."""
        if not can_be_parked(self.plan):
            return
        some = [[group for group in range(self.groups) if chance.random() < 0.5] for _ in self.plan.operators]
        self.parking.groups = dict(zip([operator.id for operator in self.plan.operators], some, strict=True))
        held = {name: GroupSet.of(some) for name, some in self.parking.groups.items() if chance.random() < 0.7}
        self.loop.stepper.coordinator.cleaning.draining = Draining(held)

    def _next_batch(self) -> int:
        self.offsets.last = max(self.offsets.last, self.manifest.batch + 1)
        return self.manifest.batch + 1

    def _results(self, do: Callable[[], object], chance: random.Random | None) -> pa.Table:
        self.runner.chance, self.runner.results = chance, {}
        do()
        return _together(self.runner.results, self.manifest)

    def _killed(self, do: Callable[[], object], chance: random.Random | None, passes: int = 0) -> pa.Table:
        """Kill the driver the first time it is about to commit, or after it has passed so many commits."""
        passed = 0

        def reach(point: str, _: int) -> None:
            nonlocal passed
            if point == "before-commit":
                passed += 1
                if passed > passes:
                    raise Killed

        self.loop.stepper.reach = reach
        self.runner.chance, self.runner.results = chance, {}
        with suppress(Killed):
            do()
        results = _together(self.runner.results, self.manifest)
        self.recover()
        return results

    def _hashes(self, keys: Sequence[pa.Array], types: Sequence[pa.DataType]) -> Hashes:
        """Spark's hashes where site tasks compute them, too; any other will do elsewhere."""
        hashes_groups = any(each.kind == "aggregate" for each in self.plan.operators)
        if (self.parcels or hashes_groups) and self.hash_bits == FULL_HASH_BITS and all(map(is_hashable, types)):
            return hash_whole_numbers(keys, types)
        told = [key.cast(kind) for key, kind in zip(keys, types, strict=True)]  # UTC has many names
        if hashes_groups and len(told) == 1 and self.hash_bits == FULL_HASH_BITS:  # as the planner has Spark do
            return evaluate(pa.table({"key": told[0]}), "xxhash64(key)").to_numpy().view(np.uint64)
        rows = zip(*map(pa.Array.to_pylist, told), strict=True)
        return np.array([_hash(key, self.hash_bits) for key in rows], np.uint64)


class FileRunner(LocalRunner):
    """Tells of the files of results that tasks have written, if they were told to."""

    moving = Moving()

    def run(self, step: Step[Tables]) -> Done:
        if self.moving.copies is not None and self._happens(0.7):
            lose_copies(self.storage, but_parts=self._happens(0.5))
        done, form = super().run(step), step.levels[-1].files
        if self.moving.apart:
            done = replace(done, effects=[self._apart(each) for each in done.effects])
        if self.moving.come_and_go and self.chance is not None:
            known = tuple(self.chance.sample("abcd", self.chance.randint(1, 4)))
            done = replace(done, executors=known, slots=len(known))
        if form is None or form.path is None:
            return done
        names = [(name, form.file_name(step.epoch, each.site)) for each in done.effects for name in each.files]
        return replace(done, path=form.path, names=tuple(names))

    def _apart(self, effects: Effects) -> Effects:
        busy_ms, host = effects.busy_ms * self.moving.times, f"host{effects.site}"
        return msgspec.structs.replace(effects, busy_ms=busy_ms, executor=effects.site, worker=effects.site, host=host)


def lose_copies(storage: Storage, *, but_parts: bool = False) -> None:
    """As on a host that has never seen any run, or nothing but parts of some."""
    storage.forget(path for path in storage.copied("") if not (but_parts and path != whole_path(path)))
    for known in (runs._mapped, runs._checked, held._mapped):  # noqa: SLF001
        known.clear()


def _together(results: Mapping[EpochId, pa.Table], manifest: Manifest) -> pa.Table:
    from watersmeet.driver.topology import Topology  # noqa: PLC0415

    return pa.concat_tables([Topology(manifest.plan).row_schema().empty_table(), *results.values()])


def _hash(key: tuple[object, ...], bits: int) -> int:
    key = tuple(0.0 if isinstance(part, float) and not part else part for part in key)
    full = int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest())
    return full >> (64 - bits) << (64 - bits)


def evaluate(rows: pa.Table, sql: str) -> pa.Array:
    """An expression over struct columns."""
    plain = _PLAIN.fullmatch(sql)
    if plain:
        column = rows.column(plain[1]).combine_chunks()
        return pa.array([], column.type.field(plain[2]).type) if not len(column) else column.field(plain[2])
    name = next(_names)
    connection().register(name, rows)
    text = (
        _WALL_CLOCK.sub(r"epoch_us(\1)", sql)
        .replace("`", '"')
        .replace("STRING", "VARCHAR")
        .replace("NAMED_STRUCT('start', ", "WINDOW_OF(")
        .replace("'end', ", "")
    )
    result = connection().sql(f"SELECT {text} AS x FROM {name}").to_arrow_table().column("x").combine_chunks()
    connection().unregister(name)
    return result
