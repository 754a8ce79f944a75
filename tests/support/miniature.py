"""The engine in miniature: the real site tasks, manifests, effects and garbage collection, without Spark.

It does by hand what Spark does between site tasks: evaluate keys and filters (with DuckDB), hash, route and exchange.
So thousands of random plans and disturbances can be tried in the time Spark needs for a few.
"""

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pyarrow as pa

from tests.support.oracle import connection
from watersmeet.adapt.distribution import even
from watersmeet.engine.assembly import Assembly
from watersmeet.engine.caretaker import Caretaker
from watersmeet.engine.effects import read_effects
from watersmeet.engine.governor import Governor
from watersmeet.engine.layout import HASH, RUN, SITE, TAG, Layout, slot_name
from watersmeet.engine.memory import Memory, MemoryOptions
from watersmeet.engine.shortcut import one_task
from watersmeet.engine.site_task import SiteTask
from watersmeet.engine.spec import LevelSpec
from watersmeet.engine.topology import Topology
from watersmeet.model.ids import BatchId, SiteId
from watersmeet.model.plan import Column, Input, Operator, Plan
from watersmeet.operators.hashing import is_hashable, xxhash64
from watersmeet.planning.trace import traced
from watersmeet.state.changes import BeginCleaning, Change, FinishBatch, FinishCleaning, Reroute, apply_all
from watersmeet.state.garbage import Collector
from watersmeet.state.groups import Hashes, group_of
from watersmeet.state.manifest import Manifest, OperatorState
from watersmeet.state.versions import VersionStore
from watersmeet.storage.local import LocalStorage

FULL_HASH_BITS = 64
_PLAIN = re.compile(r"`(\w+)`\.`(\w+)`")
_names = (f"t{number}" for number in count())


@dataclass
class Miniature:
    """A query on one process; call `epoch` with an epoch's rows and get its results."""

    plan: Plan
    folder: str
    groups: int = 16
    sites: int = 2
    hash_bits: int = 64
    retained: int = 2
    forget_pairs: bool = False
    round_bytes: int = 1 << 30
    parcels: bool = True
    options: MemoryOptions = field(default_factory=MemoryOptions)
    topology: Topology = field(init=False)

    def __post_init__(self) -> None:
        self.plan = traced(self.plan)
        self.topology = Topology(self.plan, parcels=self.parcels and self.hash_bits == FULL_HASH_BITS)
        self.driver = "driver1"
        self.reported: list[str] = []
        self.storage = LocalStorage(self.folder, durable=False)
        self.store = VersionStore(self.storage)
        states = {o.id: OperatorState(even(self.groups, self.sites)) for o in self.plan.operators}
        self.manifest = Manifest("miniature", {}, self.groups, self.sites, states)
        self.store.commit(self.manifest)
        self._begin()

    def _begin(self) -> None:
        self.collector = Collector(self.store, self.retained)
        self.collector.start()
        self.memory = Memory(self.plan, self.storage, self.groups, self.options)
        self.memory.begin(self.manifest)
        self.caretaker = Caretaker(self.memory)

    def epoch(self, tables: Mapping[str, pa.Table], chance: random.Random | None = None) -> pa.Table:
        """Run and commit an epoch; with a `chance`, tasks may be repeated."""
        results = self.attempt(tables, chance)
        self._commit([], FinishBatch(BatchId(self.manifest.batch + 1)))
        return results

    def begin_cleaning(self, level: int | None = None, *, closed_by: int | None = None, at_end: bool = False) -> bool:
        """Decide on a step of cleanup; False where nothing is missing."""
        operators = self.plan.operators if level is None else self.plan.levels[level]
        cleaning = self.caretaker.next_step(self.manifest, operators, closed_by, at_end=at_end)
        if cleaning is not None:
            self.manifest = apply_all(self.manifest, [BeginCleaning(cleaning)])
            self.store.commit(self.manifest)
        return cleaning is not None

    def clean(self, chance: random.Random | None = None) -> pa.Table:
        """Carry out and commit the step that was decided on."""
        results = self.attempt_cleaning(chance)
        assert self.manifest.cleaning is not None
        self._commit(self.caretaker.cleaned(self.manifest, self.manifest.cleaning), FinishCleaning())
        for operator in self.plan.operators:
            self.memory.weigh(self.manifest, operator)
        return results

    def revive(self) -> None:
        """At the end of a run, leave as much live as there is room for."""
        if changes := self.caretaker.revived(self.manifest):
            self.manifest = apply_all(self.manifest, [*changes, FinishCleaning()])
            self.store.commit(self.manifest)
            for operator in self.plan.operators:
                self.memory.weigh(self.manifest, operator)

    def attempt_cleaning(self, chance: random.Random | None = None) -> pa.Table:
        """Carry out a step without committing it."""
        assert self.manifest.cleaning is not None
        self.reported = []
        sizes = self.memory.group_bytes(self.manifest, self.manifest.cleaning.operator)
        levels = self._assembly().cleaning(self.manifest, tuple(range(self.sites)), sizes)
        return self._levels(levels, self._no_rows(levels[0]), chance)

    def _commit(self, changes: list[Change], finish: Change) -> None:
        effects = [each for _, each in sorted(read_effects(self.storage, self.reported).items())]
        told: list[Change] = [change for each in effects for change in each.changes]
        counted = self.memory.observe(self.manifest, effects)
        after = apply_all(self.manifest, [*told, *changes, *counted])
        spills, self.events = Governor(self.memory).decide(after)
        self.manifest = apply_all(after, [*spills, finish])
        self.store.commit(self.manifest)
        self.collector.committed(self.manifest)

    def attempt(self, tables: Mapping[str, pa.Table], chance: random.Random | None = None) -> pa.Table:
        """Run an epoch without committing it, as a driver that is killed before the commit."""
        self.reported = []
        levels = self._assembly().levels(self.manifest, tuple(range(self.sites)))
        return self._levels(levels, self._first_delta(tables), chance)

    def _assembly(self) -> Assembly:
        return Assembly(
            self.topology,
            self.storage,
            self.driver,
            forget_pairs=self.forget_pairs,
            round_bytes=self.round_bytes,
            ledger=self.memory.ledger if self.memory.is_limited else None,
        )

    def _no_rows(self, spec: LevelSpec) -> pa.Table:
        head = {TAG: pa.int32(), HASH: pa.int64(), SITE: pa.int64()}
        slots = {slot_name(slot): kind for slot, kind in enumerate(spec.incoming.slots)}
        return pa.schema({**head, **slots, RUN: pa.string()}).empty_table()

    def _levels(self, levels: Sequence[LevelSpec], delta: pa.Table, chance: random.Random | None) -> pa.Table:
        if chance and chance.random() < 0.4 and all(spec.packed for spec in levels[1:]):
            return self._shortcut(levels, delta, chance)
        for spec in levels:
            produced = self._run_level(spec, delta, chance)
            if spec.is_root:
                return self._filtered(produced, self.plan.root.filters)
            if spec.only_stores:
                return self.topology.row_schema().empty_table()
            delta = self._next_delta(produced, spec.level + 1)
        raise AssertionError

    def recover(self) -> None:
        """Forget everything, as a new driver, and read the last version."""
        latest = self.store.latest()
        assert latest is not None
        self.manifest = latest
        self.sites = latest.sites
        self.driver += "1"
        self._begin()

    def reroute(self, routing: Sequence[int], sites: int) -> None:
        """Move groups, committed with the next epoch."""
        self.sites = sites
        moved = tuple(SiteId(site % sites) for site in routing)
        self.manifest = apply_all(self.manifest, [Reroute(o.id, moved, sites) for o in self.plan.operators])

    def _run_level(self, spec: LevelSpec, delta: pa.Table, chance: random.Random | None) -> pa.Table:
        outputs = [spec.output.empty_table()]
        for site in range(self.sites):
            mine = delta.filter(pa.compute.equal(delta.column(SITE), site)).drop([SITE])
            size = chance.randint(1, 5) if chance else None
            for repeated in range(2 if chance and chance.random() < 0.2 else 1):
                task = SiteTask(spec, SiteId(site))
                batches = list(task.run(mine.to_batches(max_chunksize=size)))
                self.reported.append(task.effects_name)
                if not repeated:
                    outputs += [pa.Table.from_batches([batch]) for batch in batches]
        return pa.concat_tables(outputs)

    def _shortcut(self, levels: Sequence[LevelSpec], delta: pa.Table, chance: random.Random) -> pa.Table:
        """All levels and sites in one task, perhaps repeated."""
        for _ in range(2 if chance.random() < 0.2 else 1):
            task = one_task(levels, Reported(self.reported), None)
            batches = list(task(iter(delta.to_batches(max_chunksize=chance.randint(1, 5)))))
        if levels[-1].only_stores:
            return self.topology.row_schema().empty_table()
        rows = pa.Table.from_batches(batches, self.topology.row_schema())
        return self._filtered(rows, self.plan.root.filters)

    def _first_delta(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        layout, parts = self.topology.incoming(0), []
        for tag, source in self.topology.stream_tags().items():
            table = as_structs({source.name: tables[source.name]})
            rows = self._filtered(table, self.plan.stream(source.name).filters)
            parts.append(self._delta(rows, tag, source, layout))
        return pa.concat_tables(parts)

    def _next_delta(self, produced: pa.Table, level: int) -> pa.Table:
        if self.topology.packs(level):
            return produced
        above, below = self.topology.incoming(level), self.topology.outgoing(level - 1)
        assert below is not None
        pointer = produced.column(RUN).is_valid()
        parts = [self._passed_on(produced.filter(pointer), above)]
        for tag, (operator, source) in self.topology.fed_by_level(level - 1).items():
            mine = produced.filter(
                pa.compute.and_(pa.compute.equal(produced.column(TAG), tag), pa.compute.invert(pointer))
            )
            rows = self._filtered(named(mine, below, tag, operator), operator.filters)
            delta = self._delta(rows, tag, source, above)
            parts.append(delta.append_column(RUN, pa.nulls(delta.num_rows, pa.string())))
        return pa.concat_tables(parts)

    def _passed_on(self, pointers: pa.Table, layout: Layout) -> pa.Table:
        n = pointers.num_rows
        columns = {
            TAG: pointers.column(TAG),
            HASH: pa.nulls(n, pa.int64()),
            SITE: pointers.column(SITE).cast(pa.int64()),
            **{slot_name(slot): pa.nulls(n, kind) for slot, kind in enumerate(layout.slots)},
            RUN: pointers.column(RUN),
        }
        return pa.table(columns)

    def _delta(self, rows: pa.Table, tag: int, source: Input, layout: Layout) -> pa.Table:
        """Hash, drop null keys, route, and put the columns into their slots."""
        keys = [evaluate(rows, key.sql) for key in source.keys]
        valid = pa.array(
            [all(part is not None for part in key) for key in zip(*map(pa.Array.to_pylist, keys), strict=True)],
            pa.bool_(),
        )
        rows, keys = rows.filter(valid), [key.filter(valid) for key in keys]
        hashes = self._hashes(keys, [key.type for key in source.keys])
        operator = self.topology.inputs[tag][0]
        routing = np.array(self.manifest.operators[operator.id].routing)
        columns = {TAG: pa.array([tag] * len(hashes), pa.int32()), HASH: pa.array(hashes.view(np.int64))}
        columns[SITE] = pa.array(routing[group_of(hashes, self.groups)].astype(np.int64))
        values = {slot: value_of(rows, column, source, keys) for column, slot in layout.columns[tag]}
        for slot, kind in enumerate(layout.slots):
            columns[slot_name(slot)] = values[slot].cast(kind) if slot in values else pa.nulls(len(hashes), kind)
        return pa.table(columns)

    def _hashes(self, keys: Sequence[pa.Array], types: Sequence[pa.DataType]) -> Hashes:
        """Spark's hashes where site tasks compute them, too; any other will do elsewhere."""
        if self.topology.parcels and all(map(is_hashable, types)):
            return xxhash64([key.cast(kind) for key, kind in zip(keys, types, strict=True)])
        return np.array([self._hash(key) for key in zip(*map(pa.Array.to_pylist, keys), strict=True)], np.uint64)

    def _hash(self, key: tuple[object, ...]) -> int:
        full = int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest())
        return full >> (64 - self.hash_bits) << (64 - self.hash_bits)

    def _filtered(self, rows: pa.Table, filters: Sequence[str]) -> pa.Table:
        for condition in filters:
            kept = evaluate(rows, condition)
            rows = rows.filter(kept.fill_null(fill_value=False))
        return rows


@dataclass(frozen=True)
class Reported:
    """Takes names of effects to a list."""

    names: list[str]

    def add(self, name: str) -> None:
        self.names.append(name)


def as_structs(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Streams as struct columns, the way expressions see them."""
    return pa.table({name: table.to_struct_array() for name, table in tables.items()})


def named(rows: pa.Table, layout: Layout, tag: int, operator: Operator) -> pa.Table:
    """Slots under their columns' names."""
    by_stream: dict[str, dict[str, pa.ChunkedArray]] = {}
    for column in operator.output:
        slot = dict(layout.columns[tag])[column]
        by_stream.setdefault(column.stream, {})[column.field] = rows.column(slot_name(slot))
    return as_structs({stream: pa.table(fields) for stream, fields in by_stream.items()})


def evaluate(rows: pa.Table, sql: str) -> pa.Array:
    """An expression over struct columns."""
    plain = _PLAIN.fullmatch(sql)
    if plain:
        column = rows.column(plain[1]).combine_chunks()
        return pa.array([], column.type.field(plain[2]).type) if not len(column) else column.field(plain[2])
    name = next(_names)
    connection().register(name, rows)
    text = sql.replace("`", '"').replace("STRING", "VARCHAR")
    result = connection().sql(f"SELECT {text} AS x FROM {name}").to_arrow_table().column("x").combine_chunks()
    connection().unregister(name)
    return result


def value_of(rows: pa.Table, column: Column, source: Input, keys: Sequence[pa.Array]) -> pa.Array:
    for key, values in zip(source.keys, keys, strict=True):
        if key.column == column and column.field.startswith("#"):
            return values
    return evaluate(rows, f"`{column.stream}`.`{column.field}`")
