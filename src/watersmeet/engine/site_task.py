"""A site task: one level of the plan, at one site, in one epoch, as a function of the rows that arrive.

1. Receive: sort the arriving rows of every input by hash, in rounds if they are many.
2. Keep: write each input's rows as a new run. Rows for a higher level are only kept; a *pointer* to their run goes
   up in their stead, so that a row crosses into Python once and is shuffled once.
3. Join: every operator of the level yields the results its new rows complete.
4. Clean: in a step of cleanup, no rows arrive, and the results are those missing of some groups (`site_cleaning`).
5. Merge: runs the driver chose become one, while Spark still reads the last results.
6. Tell: write the effects. Without them, nothing the task did has happened.

It never changes a file, and repeating it is harmless.
"""

import os
import socket
import time
import uuid
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from watersmeet.engine.crash import executor_pid, reach
from watersmeet.engine.effects import Effects, write_effects
from watersmeet.engine.emit import Emitter
from watersmeet.engine.receive import Receiver, Round
from watersmeet.engine.site_cleaning import SiteCleaning
from watersmeet.engine.site_merging import merge
from watersmeet.engine.spec import InputSpec, LevelSpec, MergeOrder, OperatorSpec, SiteSlice
from watersmeet.engine.tally import ByGroup, Tally
from watersmeet.model.ids import OperatorId, RunId, SiteId
from watersmeet.operators.join import Join, Joined
from watersmeet.operators.probe import RunView, Side
from watersmeet.state.changes import AddRun, MergeRuns
from watersmeet.state.groups import members
from watersmeet.state.manifest import RunFile, Slice
from watersmeet.state.rows import SortedRows, no_rows
from watersmeet.state.runs import forget_runs, open_run, run_name, write_run

if TYPE_CHECKING:
    from watersmeet.engine.direct_files import DirectWriter


class SiteTask:
    """One attempt at a level's work for one site."""

    def __init__(self, spec: LevelSpec, site: SiteId) -> None:
        self._spec, self._site = spec, site
        self._changes: list[AddRun | MergeRuns] = []
        self._tally = Tally(spec.groups, spec.weighs)
        self._cleaning: SiteCleaning | None = None
        self._earlier: dict[int, list[RunFile]] = {}
        self._cleaned_results = 0
        self._busy_s = 0.0
        self.effects_name = ""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume the rows of this site and yield the level's output."""
        for batch in batches:
            yield from self.take(batch)
        yield from self.end()

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Consume some rows."""
        return self._rounds(self._receiver.take(batch))

    def end(self) -> Iterator[pa.RecordBatch]:
        """All rows have come: yield the rest, and tell what was done."""
        yield from self._rounds(self._receiver.rest())
        yield from self._timed(self._clean())
        started = time.monotonic()
        for order in self._slice.merges:
            self._merge(order)
        self._busy_s += time.monotonic() - started
        self._reach("before-effects")
        self._tell()
        self._reach("after-effects")

    def _rounds(self, rounds: Iterable[Round]) -> Iterator[pa.RecordBatch]:
        for arrived in rounds:
            yield from self._timed(self._round(arrived))

    def _round(self, arrived: Round) -> Iterator[pa.RecordBatch]:
        kept = {tag: self._keep(self._spec.inputs[tag], rows) for tag, rows in arrived.rows.items()}
        self._reach("after-runs")
        runs = kept | arrived.pointers
        yield from self._emitter.pointers([run for tag, run in runs.items() if self._is_above(tag)], self._slice.key)
        here = {tag: run for tag, run in runs.items() if not self._is_above(tag)}
        deltas = {tag: arrived.rows.get(tag) or open_run(self._spec.storage, run) for tag, run in here.items()}
        for operator in () if self._spec.only_stores else self._spec.operators:
            yield from self._join(operator, deltas)
        for tag, run in here.items():
            self._earlier.setdefault(tag, []).append(run)

    def _timed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the time it takes to make batches, not the time Spark takes to read them."""
        while True:
            started = time.monotonic()
            batch = next(batches, None)
            self._busy_s += time.monotonic() - started
            if batch is None:
                return
            yield batch

    def _forget_dead_runs(self) -> None:
        """Let go of runs that no site of this level has any more, so that their disk space can be freed."""
        operators = {operator.id for operator in self._spec.operators}
        cleaning = {run.path for each in self._spec.sites.values() if each.cleaning for run, _ in each.cleaning.slices}
        forget_runs(self._spec.storage, operators, self._live_paths | cleaning, self._spec.epoch)

    @cached_property
    def _live_paths(self) -> frozenset[str]:
        sites = self._spec.sites.values()
        return frozenset(run.path for each in sites for pairs in each.live.values() for run, _ in pairs)

    @cached_property
    def _slice(self) -> SiteSlice:
        return self._spec.sites[self._site]

    @cached_property
    def _receiver(self) -> Receiver:
        """The task begins with the first rows, or with their end."""
        self._reach("task-start")
        self._forget_dead_runs()
        return Receiver(self._spec)

    @cached_property
    def _emitter(self) -> Emitter:
        return Emitter(self._spec)

    @cached_property
    def _writer(self) -> "DirectWriter":
        from watersmeet.engine.direct_files import DirectWriter  # noqa: PLC0415 -- few queries need what it loads

        if self._spec.direct is None:
            raise ValueError(self._spec.level)
        return DirectWriter(self._spec.direct, self._spec.epoch, self._site)

    def _is_above(self, tag: int) -> bool:
        return self._spec.inputs[tag].level > self._spec.level

    def _keep(self, source: InputSpec, rows: SortedRows) -> RunFile:
        run = write_run(self._spec.storage, self._name(), source.operator, source.name, rows, self._spec.groups)
        self._changes.append(AddRun(run, closed=self._spec.only_stores))
        self._tally.kept(source, rows)
        self._tally.wrote(run, rows)
        return run

    def _join(self, operator: OperatorSpec, deltas: dict[int, SortedRows]) -> Iterator[pa.RecordBatch]:
        join = self._join_of(operator)
        sides = [self._side(source, deltas.get(source.tag)) for source in operator.inputs]
        for joined in join.results(sides):
            yield from self._give(operator, joined)
            self._reach("mid-output")
        self._tally.produced(operator, join.output)

    def _clean(self) -> Iterator[pa.RecordBatch]:
        order = self._slice.cleaning
        operator = next((each for each in self._spec.operators if order and each.id == order.operator), None)
        if order is None or operator is None:
            return
        join = self._join_of(operator)
        self._cleaning = SiteCleaning(self._spec.storage, self._spec.groups, order, operator)
        for joined in self._cleaning.results(join):
            yield from self._give(operator, joined)
            self._reach("mid-cleanup")
        self._spec.storage.forget({run.path for run, _ in order.slices} - self._live_paths)
        self._cleaned_results = int(join.output.by_group.sum())
        self._tally.rows_out[operator.id] = self._tally.rows_out.get(operator.id, 0) + self._cleaned_results

    def _join_of(self, operator: OperatorSpec) -> Join:
        keys = None if operator.hash_decides else tuple(source.key_columns for source in operator.inputs)
        return Join(
            self._spec.groups, keys, operator.group_column, operator.traced, forget_pairs=self._spec.forget_pairs
        )

    def _give(self, operator: OperatorSpec, joined: Joined) -> Iterator[pa.RecordBatch]:
        """Results go to Spark, or are dealt with here."""
        if self._spec.direct is None:
            yield self._emitter.results(operator, joined)
        elif self._spec.direct.path is not None:
            self._writer.write(self._emitter.direct(joined))

    def _side(self, source: InputSpec, delta: SortedRows | None) -> Side:
        live = (pair for pair in self._slice.live[source.operator] if pair[0].input == source.name)
        views = [self._view(run, part) for run, part in live]
        views += [RunView(open_run(self._spec.storage, run)) for run in self._earlier.get(source.tag, [])]
        return Side(tuple(views), no_rows(source.schema) if delta is None else delta)

    def _view(self, run: RunFile, part: Slice) -> RunView:
        rows = open_run(self._spec.storage, run, part.groups)
        if part.groups == run.groups:
            return RunView(rows)
        counts_for = np.zeros(self._spec.groups, dtype=np.bool_)
        counts_for[list(members(part.groups))] = True
        return RunView(rows, counts_for)

    def _merge(self, order: MergeOrder) -> None:
        change, rows = merge(self._spec.storage, order, self._spec.groups, self._name(), self._live_paths)
        self._tally.wrote(change.run, rows)
        self._changes.append(change)

    def _name(self) -> RunId:
        return RunId(run_name(self._spec.epoch, self._site, uuid.uuid4().hex[:12]))

    def _tell(self) -> None:
        effects = Effects(
            level=self._spec.level,
            site=self._site,
            changes=tuple(self._changes),
            rows_in=self._tally.rows_in,
            rows_out=self._tally.rows_out,
            busy_ms=self._busy_s * 1000,
            host=socket.gethostname(),
            executor=_executor(),
            worker=os.getpid(),
            files=self._writer.close() if "_writer" in vars(self) else (),
            sizes=self._tally.sizes,
            local=_tuples(self._tally.local),
            traced=_tuples(self._tally.traced),
            inter_bytes=_tuples(self._tally.inter_bytes),
            cleaned_results=self._cleaned_results,
            cleaned_bytes=self._cleaning.read_bytes if self._cleaning else 0,
        )
        self.effects_name = write_effects(self._spec.storage, self._spec.driver, self._spec.epoch, effects)
        if self._spec.weighs:  # Arrow would keep what it has freed for next time, on top of the budget
            pa.default_memory_pool().release_unused()

    def _reach(self, point: str) -> None:
        reach(self._spec.crash, point, self._spec.epoch)


def _tuples(counts: ByGroup) -> dict[OperatorId, tuple[int, ...]]:
    return {operator: tuple(by_group.tolist()) for operator, by_group in counts.items()}


@lru_cache
def _executor() -> int:
    return executor_pid()
