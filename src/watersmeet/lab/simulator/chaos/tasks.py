"""Site tasks on counts: they read runs and write runs as site tasks do, and tell the same effects.

1. Rows come to the sites that the specification of the step names: those of a group to its own site; of a group that is
   split, one input's are dealt out, and those of the others go to all of its sites, as copies.
2. A task stores what is its own as runs, closed ones where the level only stores.
3. Its results are the product of what it probes and what came, less the product of what it probes; in cleanup, the
   product of all generations, less those within each. They go to the level above, or to the sink.
4. It merges runs as it was told, and writes its effects.

What a task reads is what it is told of, and nothing is remembered but files that were read. So a step can be repeated,
by the same driver or by another, and what the driver tells wrongly is found in the end.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from watersmeet.driver.ports import Done, Step
from watersmeet.lab.simulator.chaos.cluster import Executors
from watersmeet.lab.simulator.chaos.query import Batch, Query
from watersmeet.lab.simulator.chaos.records import Ints, Records, read, serialised, together, write
from watersmeet.model.ids import EpochId, InputName, OperatorId, RunId, SiteId
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.site.effects import Effects, folder_of, read_effects
from watersmeet.site.spec import LevelSpec, MergeOrder
from watersmeet.state.changes import AddRun, MergeRuns
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import RunFile, Slice
from watersmeet.state.runs import RunName, run_name
from watersmeet.state.stored import to_json
from watersmeet.state.vectors import Vector
from watersmeet.storage.base import Storage

Arriving = dict[tuple[OperatorId, InputName], Records]


class ChaosError(Exception):
    """Something that has to hold does not."""


@dataclass
class ChaosRunner:
    """Carries out steps for one driver; the ``results`` of every step are the sink's, by the root's key.

    Of the tasks in ``torn``, a first attempt leaves half a file, and is repeated.
    """

    storage: Storage
    query: Query
    executors: Executors
    results: dict[EpochId, Ints]
    torn: dict[str, int] = field(default_factory=dict)
    chance: random.Random = field(default_factory=random.Random)
    came_bytes: int = 0
    _read: dict[str, Records] = field(default_factory=dict)

    def run(self, step: Step[Batch]) -> Done:
        """Carry out a step."""
        self.executors.place(step.manifest.sites, step.manifest.placement)
        arriving: Arriving = self._first(step)
        names: list[str] = []
        given = np.zeros(self.query.keys, np.int64)
        for spec in step.levels:
            made: Arriving = {}
            for site in spec.sites:
                task = SiteTask(self, spec, site, step)
                names.append(task.run(arriving, made))
            if spec.is_root:
                given += sum((each.table(self.query.keys, 1)[:, 0] for each in made.values()), np.zeros_like(given))
            arriving |= made
        if step.has_results:
            self._give(step.epoch, given)
        effects = [each for _, each in sorted(read_effects(self.storage, names).items())]
        told = (change for each in effects for change in each.changes)
        self.came_bytes = sum(each.run.bytes for each in told if isinstance(each, AddRun) and not each.closed)
        return Done(effects, executors=tuple(self.executors.names), slots=len(self.executors.names))

    def cancel(self) -> None:
        """Nothing runs beside the one who asks."""

    def close(self) -> None:
        """Nothing is held."""

    def opened(self, run: RunFile) -> Records:
        """A run's rows; a file is read once."""
        if run.path not in self._read:
            self._read[run.path] = read(self.storage, run)
        return self._read[run.path]

    def tears(self, kind: str) -> bool:
        """Whether the next file of a kind is to be torn."""
        self.torn[kind] = self.torn.get(kind, 0) - 1
        return self.torn[kind] >= 0

    def _first(self, step: Step[Batch]) -> Arriving:
        operators = step.manifest.plan.operators
        inputs = [(each.id, source.name) for each in operators for source in each.inputs if source.operator is None]
        return {} if step.batch is None else {(name, source): step.batch[source] for name, source in inputs}

    def _give(self, epoch: EpochId, given: Ints) -> None:
        """The results of a step that is repeated take the place of the earlier ones, and must be the same."""
        before = self.results.get(epoch)
        if before is not None and not np.array_equal(before, given):
            raise ChaosError(f"step {epoch} is repeated with {given.sum()} results instead of {before.sum()}")
        self.results[epoch] = given


@dataclass
class SiteTask:
    """The work of one site at one level."""

    runner: ChaosRunner
    spec: LevelSpec
    site: SiteId
    step: Step[Batch]
    changes: list[AddRun | MergeRuns] = field(default_factory=list)
    rows_in: dict[str, int] = field(default_factory=dict)
    local: dict[OperatorId, Ints] = field(default_factory=dict)
    cleaned: tuple[int, int] = (0, 0)

    @property
    def _keys(self) -> int:
        return self.runner.query.keys

    def run(self, arriving: Arriving, made: Arriving) -> str:
        """Do it; what it yields is added to what was ``made``. Gives the name of the effects."""
        for operator in self.spec.operators:
            product = self._joined(operator, arriving) + self._missing(operator)
            self.local[operator.id] = np.bincount(
                self._group_of_keys(), product.sum(axis=1), minlength=self.spec.groups
            ).astype(np.int64)
            self._hand_on(operator, product, made)
        for order in self.spec.sites[self.site].merges:
            self._merge(order)
        return self._tell()

    def _joined(self, operator: OperatorSpec, arriving: Arriving) -> Ints:
        """What new rows yield, with each other and with what is live."""
        stored, deltas = [], []
        for source in operator.inputs:
            own, copies = self._received(source, arriving.get((operator.id, source.name), Records.none()))
            self.rows_in[f"{operator.id}/{source.name}"] = own.rows
            if own.rows:
                run = self._write(source, own, "rows")
                self.changes.append(AddRun(run, closed=self.spec.only_stores))
            deltas.append(self._table(source, [own, copies]))
            stored.append(self._table(source, self._live(operator, source)))
        if self.spec.only_stores or not any(delta.any() for delta in deltas):
            return self.runner.query.joined([np.zeros_like(each) for each in stored])
        after = [old + new for old, new in zip(stored, deltas, strict=True)]
        return self.runner.query.joined(after) - self.runner.query.joined(stored)

    def _received(self, source: InputSpec, rows: Records) -> tuple[Records, Records]:
        """Of the rows that come: those that are stored here, and copies of what others store."""
        manifest = self.step.manifest
        of_row = rows.groups(self.spec.groups)
        own, none = [rows.within(np.asarray(manifest.operators[source.operator].routing)[of_row] == self.site)], []
        for split in self.spec.splits.get(source.operator, ()):
            if self.site in split.sites:
                some, number = rows.within(of_row == split.group), split.sites.index(self.site)
                if split.input == source.name:
                    own = [each.within(each.groups(self.spec.groups) != split.group) for each in own]
                    own.append(some.share(number, len(split.sites)))
                elif number:
                    none.append(some)
        return together(own, self._keys), together(none, self._keys)

    def _live(self, operator: OperatorSpec, source: InputSpec) -> Iterator[Records]:
        """What is probed of an input: of groups whose rows are dealt out, a part."""
        here = self.spec.sites[self.site]
        parts = self.spec.parts(source, self.site)
        for run, part in here.live[operator.id]:
            if run.input == source.name:
                groups = part.groups & here.own[operator.id]
                dealt = GroupSet.of(group for group, _, _ in parts)
                yield self._rows_of(run, groups - dealt)
                for group, number, count in parts:
                    if group in groups:
                        yield self._rows_of(run, GroupSet.of([group])).share(number, count)

    def _missing(self, operator: OperatorSpec) -> Ints:
        """What cleanup yields: all combinations of rows that are not of one generation."""
        order = self.spec.sites[self.site].cleaning
        if order is None or order.operator != operator.id:
            return self.runner.query.joined([self._table(source, []) for source in operator.inputs])
        groups = GroupSet.of(order.groups)
        whole = self._product(operator, order.slices, groups)
        numbers = {part.generation for _, part in order.slices}
        found = whole - sum(
            self._product(operator, [pair for pair in order.slices if pair[1].generation == each], groups)
            for each in numbers
        )
        self.cleaned = int(found.sum()), int(sum(order.sizes))
        return found

    def _product(self, operator: OperatorSpec, slices: Sequence[tuple[RunFile, Slice]], groups: GroupSet) -> Ints:
        tables = []
        for source in operator.inputs:
            some = (pair for pair in slices if pair[0].input == source.name)
            tables.append(self._table(source, [self._rows_of(run, part.groups & groups) for run, part in some]))
        return self.runner.query.joined(tables)

    def _hand_on(self, operator: OperatorSpec, product: Ints, made: Arriving) -> None:
        """Results are rows of the operator above, by the key they carry."""
        above = [each for each in self.spec.inputs.values() if each.name == InputName(operator.id)]
        table = product.sum(axis=0)[:, None] if above else product
        key = (above[0].operator, above[0].name) if above else (operator.id, InputName(""))
        made[key] = together([made.get(key, Records.none()), Records.of(table)], self._keys)

    def _merge(self, order: MergeOrder) -> None:
        if order.look is not None:
            return
        rows = together([self._rows_of(run, part.groups & order.groups) for run, part in order.runs], self._keys)
        run = self._write(order.source, rows, f"merged{len(self.changes)}")
        ids = tuple(run.id for run, _ in order.runs)
        self.changes.append(MergeRuns(ids, order.groups, run, order.generation, order.reason, since=order.since))

    def _write(self, source: InputSpec, rows: Records, what: str) -> RunFile:
        """Write a run; where it is to be torn, there is half of one besides, of an attempt that died."""
        if self.runner.tears("run"):
            dead = self._run_name(source, f"{what}-dead")
            self.runner.storage.create(dead.path, serialised(rows)[: len(serialised(rows)) // 2])
        return write(self.runner.storage, self._run_name(source, what), rows, self.spec.groups)

    def _run_name(self, source: InputSpec, what: str) -> RunName:
        attempt = f"{self.spec.driver}-{source.operator}-{source.name}-{what}"
        return RunName(RunId(run_name(self.spec.epoch, self.site, attempt)), source.operator, source.name)

    def _tell(self) -> str:
        name = f"{folder_of(self.spec.driver)}/{self.spec.epoch:012d}-{self.spec.level}-{self.site}"
        data = to_json(self._effects())
        if self.runner.tears("effects"):
            self.runner.storage.create(f"{name}-dead.json", data[: len(data) // 2])
        self.runner.storage.create(f"{name}.json", data)
        return f"{name}.json"

    def _effects(self) -> Effects:
        """What was done. All results are told as the query's, whatever becomes of them above: only policies look."""
        executor = self.runner.executors.sites[self.site]
        tuples = sum(self.rows_in.values()) + sum(float(each.sum()) for each in self.local.values())
        packed = {name: Vector.of(each) for name, each in self.local.items() if each.any()}
        number = int(executor[1:])
        return Effects(
            level=self.spec.level,
            site=self.site,
            changes=tuple(self.changes),
            rows_in=self.rows_in,
            rows_out={name: int(each.sum()) for name, each in self.local.items()},
            busy_ms=self.runner.executors.busy_ms(self.site, tuples, self.step.manifest.batch + 1),
            host=f"host{number}",
            executor=number,
            worker=self.site,
            local=packed,
            traced=packed,
            cleaned_results=self.cleaned[0],
            cleaned_bytes=self.cleaned[1],
        )

    def _rows_of(self, run: RunFile, groups: GroupSet) -> Records:
        rows = self.runner.opened(run)
        return rows.within(groups.mask(self.spec.groups)[rows.groups(self.spec.groups)])

    def _table(self, source: InputSpec, parts: Sequence[Records] | Iterator[Records]) -> Ints:
        columns = self.runner.query.columns(source.name)
        return sum((each.table(self._keys, columns) for each in parts), np.zeros((self._keys, columns), np.int64))

    def _group_of_keys(self) -> Ints:
        every = np.arange(self._keys)
        return Records(np.stack([every, every, every])).groups(self.spec.groups)
