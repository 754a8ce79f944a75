"""A site task: one level of the plan, at one site, in one step, as a function of the rows that arrive.

1. Receive: let in the rows that keep their stream's promises, and sort those of every input by hash, in rounds if they
   are many.
2. Keep: write each input's rows as a new run, but for those that nothing can come for any more. Rows for a higher
   level are only kept; a *pointer* to their run goes up in their stead, so that a row crosses into Python once and is
   shuffled once. All sites of a ring are told of its runs, and so are the sites that share a group.
3. Produce: every operator of the level yields the results its new rows complete, as its kind knows how to; aggregates
   and rings when all rows have come, so that a group comes once, and rows meet all others.
4. Clean: in a step of cleanup, no rows arrive, and the results are those missing of some groups.
5. Settle: rows of which no match can come any more come out alone, if they have none.
6. Merge: runs the driver chose become one, while Spark still reads the last results.
7. Tell: write the effects. Without them, nothing the task did has happened.

It never changes a file, and repeating it is harmless.
"""

import os
import socket
import time
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet.model.ids import SiteId
from watersmeet.operators.calls import calls
from watersmeet.operators.costs import Costs
from watersmeet.operators.join.probe import RunView, Side
from watersmeet.operators.kinds import TaskOptions, aggregate_of, ring_of, task_of
from watersmeet.operators.promises.stores import PROMISES
from watersmeet.operators.results import Results
from watersmeet.operators.ring.task import RingTask
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.site.admission import Admission
from watersmeet.site.cleaning import SiteCleanup
from watersmeet.site.counts import Counts, packed
from watersmeet.site.crash import executor_pid, reach
from watersmeet.site.effects import Effects, write_effects
from watersmeet.site.expiry import NewRowTimes
from watersmeet.site.fetching import fetch_ahead, fetch_together, missing_bytes
from watersmeet.site.keeping import Keeper
from watersmeet.site.meeting import RingRows
from watersmeet.site.messages import Kind
from watersmeet.site.receive import Receiver, Round
from watersmeet.site.ring_cleaning import ring_results
from watersmeet.site.settling import Settling, arrived_rows, of_open_groups
from watersmeet.site.sharing import views_of
from watersmeet.site.spec import LevelSpec, SiteSlice
from watersmeet.site.travel import pointers
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import RunFile
from watersmeet.state.parts import Wanted
from watersmeet.state.rows import SortedRows, merge_rows, no_rows
from watersmeet.state.runs import forget_runs, open_run

if TYPE_CHECKING:
    from watersmeet.site.rejected import RejectedRows
    from watersmeet.site.result_writer import ResultWriter


class SiteTask:
    """One attempt at a level's work for one site."""

    def __init__(self, spec: LevelSpec, site: SiteId) -> None:
        self._spec, self._site = spec, site
        self._keeper = Keeper(spec, site)
        self._counts = Counts(spec.groups)
        self._costs = {each.id: Costs.of(each.tests, spec.costs.get(each.id, ())) for each in spec.operators}
        self._options = TaskOptions(spec.groups, spec.forget_pairs, calls(spec.functions), self._costs)
        self._earlier: dict[int, list[RunFile]] = {}
        self._copied: dict[int, list[SortedRows]] = {}
        self._cleaned_results, self._cleaned_bytes = 0, 0
        self._busy_s, self._receive_s = 0.0, 0.0
        self.rounds = 0
        self.effects_name = ""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume the messages of this site and yield the level's output."""
        for batch in batches:
            yield from self.take(batch)
        yield from self.end()

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Consume some messages."""
        return self._rounds(self._receiver.take(batch), is_last=False)

    def end(self) -> Iterator[pa.RecordBatch]:
        """All rows have come: yield the rest, and tell what was done."""
        yield from self._rounds(self._receiver.rest())
        yield from self._timed(self._tell_groups())
        yield from self._timed(self._meet())
        yield from self._timed(self._clean())
        yield from self._timed(self._settle())
        started = time.monotonic()
        self._keeper.finish(self._live_paths)
        self._busy_s += time.monotonic() - started
        self._reach("before-effects")
        self._tell()
        self._reach("after-effects")

    def _rounds(self, rounds: Iterator[Round], *, is_last: bool = True) -> Iterator[pa.RecordBatch]:
        while True:
            started = time.monotonic()
            arrived = next(rounds, None)
            self._linger(started)
            self._receive_s += time.monotonic() - started
            if arrived is None:
                return
            yield from self._timed(self._round(arrived, is_last=is_last))

    def _round(self, arrived: Round, *, is_last: bool) -> Iterator[pa.RecordBatch]:
        self.rounds += 1
        rows_in = {tag: self._reduced(self._spec.inputs[tag], rows) for tag, rows in arrived.rows.items()}
        kept = {tag: self._keeper.keep(self._spec.inputs[tag], rows) for tag, rows in rows_in.items()}
        self._reach("after-runs")
        runs = {tag: run for tag, run in kept.items() if run is not None} | arrived.pointers
        above = [(tag, run) for tag, run in runs.items() if self._is_above(tag)]
        yield from pointers(self._spec.outgoing.schema, above, self._spec.site_keys[self._site])
        yield from self._send_probes(kept, arrived.probe_runs)
        yield from self._send_unmatched(arrived.unmatched)
        here = {tag: run for tag, run in runs.items() if not self._is_above(tag)}
        deltas = {tag: rows for tag, rows in rows_in.items() if not self._is_above(tag)}
        deltas |= {tag: self._open(run) for tag, run in here.items() if tag not in deltas}
        self._collect(arrived, deltas, is_last=is_last)
        copies = self._copies(arrived, is_last=is_last)
        deltas |= {tag: merge_rows([*some, *([deltas[tag]] if tag in deltas else ())]) for tag, some in copies.items()}
        for operator in () if self._spec.only_stores else self._spec.operators:
            if operator.aggregate is None and operator.kind != "ring":
                yield from self._produce(operator, deltas)
                yield from self._give_unmatched(operator, arrived.unmatched)
        for tag, run in here.items():
            self._earlier.setdefault(tag, []).append(run)
        for tag, some in copies.items():
            self._copied.setdefault(tag, []).extend(some)

    def _tell_groups(self) -> Iterator[pa.RecordBatch]:
        """What aggregates tell of groups that have changed: once a step, when all rows have come."""
        for operator in () if self._spec.only_stores else self._spec.operators:
            if operator.aggregate is not None:
                tag = operator.inputs[0].tag
                for rows in arrived_rows(self._spec, self._earlier.pop(tag, [])):
                    yield from self._produce(operator, {tag: rows})

    def _send_probes(
        self, kept: dict[int, RunFile | None], arrived: tuple[tuple[int, RunFile], ...]
    ) -> Iterator[pa.RecordBatch]:
        """Tell all others who join runs that were written here, at a level above, and go on with what was told."""
        schema, keys = self._spec.outgoing.schema, self._spec.site_keys
        told = [(tag, run) for tag, run in arrived if self._is_above(tag)]
        yield from pointers(schema, told, keys[self._site], Kind.PROBE)
        written = {tag: run for tag, run in kept.items() if run is not None and self._is_above(tag)}
        for tag, run in written.items():
            for site in self._spec.readers(self._spec.inputs[tag], run):
                if site != self._site:
                    yield from pointers(schema, [(tag, run)], keys[site], Kind.PROBE)

    def _collect(self, arrived: Round, deltas: dict[int, SortedRows], *, is_last: bool) -> None:
        """Keep what comes for rings until all has come; what is not the last of it is put into files."""
        rows = [(tag, each, self._ring_rows.store) for tag, each in deltas.items() if self._goes_everywhere(tag)]
        probes = ((tag, each) for tag, each in arrived.probes.items() if len(each) and self._goes_everywhere(tag))
        rows += [(tag, each, self._ring_rows.probe) for tag, each in probes]
        for tag, each, add in rows:
            stays = is_last or tag in arrived.pointers
            add(tag, each if stays else self._open(self._keeper.write(self._spec.inputs[tag], each)))
        for tag, run in arrived.probe_runs:
            if not self._is_above(tag) and self._goes_everywhere(tag):
                self._ring_rows.probe(tag, self._open(run))

    def _copies(self, arrived: Round, *, is_last: bool) -> dict[int, list[SortedRows]]:
        """Rows of groups that sites share, which another site stores; what later rounds need is put into files."""
        found: dict[int, list[SortedRows]] = {}
        for tag, rows in arrived.probes.items():
            if len(rows) and not self._goes_everywhere(tag):
                stays = is_last or self._spec.only_stores
                found[tag] = [rows if stays else self._open(self._keeper.write(self._spec.inputs[tag], rows))]
        for tag, run in arrived.probe_runs:
            if not self._is_above(tag) and not self._goes_everywhere(tag):
                groups = self._spec.stored_elsewhere(self._spec.inputs[tag], self._site)
                found.setdefault(tag, []).extend(self._open(run).of_groups(groups & run.groups, self._spec.groups))
        return {tag: some for tag, some in found.items() if some}

    def _open(self, run: RunFile) -> SortedRows:
        return open_run(self._spec.storage, run)

    def _goes_everywhere(self, tag: int) -> bool:
        return self._spec.inputs[tag].go_everywhere

    def _meet(self) -> Iterator[pa.RecordBatch]:
        """All rows have come: the results of rings."""
        for operator in () if self._spec.only_stores else self._spec.operators:
            if operator.kind == "ring":
                task = ring_of(operator, self._options)
                for probing, rows, met in self._ring_rows.visits(operator):
                    for results in task.probe(probing, rows, met):
                        yield from self._give(operator, results)
                        self._reach("mid-output")
                self._counts.produced(operator, task.output)

    def _send_unmatched(self, unmatched: dict[int, SortedRows]) -> Iterator[pa.RecordBatch]:
        """Rows that come out alone at a higher level go there as files, which are no part of the state."""
        written = []
        for tag, rows in unmatched.items():
            if self._is_above(tag):
                written.append((tag, self._keeper.write(self._spec.inputs[tag], rows)))
        key = self._spec.site_keys[self._site]
        yield from pointers(self._spec.outgoing.schema, written, key, Kind.UNMATCHED_POINTER)

    def _timed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the time it takes to make batches, not the time Spark takes to read them."""
        while True:
            started = time.monotonic()
            batch = next(batches, None)
            self._linger(started)
            self._busy_s += time.monotonic() - started
            if batch is None:
                return
            yield batch

    def _linger(self, started: float) -> None:
        """Take as many times as long as a test wants of this site."""
        if self._site in self._spec.slow:
            time.sleep((self._spec.slow[self._site] - 1) * (time.monotonic() - started))

    def _forget_dead_runs(self) -> None:
        """Let go of runs that no site of this level has any more, so that their disk space can be freed."""
        operators = {PROMISES, *(operator.id for operator in self._spec.operators)}
        cleaning = {run.path for each in self._spec.sites.values() if each.cleaning for run, _ in each.cleaning.slices}
        forget_runs(self._spec.storage, operators, self._live_paths | cleaning, self._spec.epoch)

    @cached_property
    def _live_paths(self) -> frozenset[str]:
        sites = self._spec.sites.values()
        promises = (run.path for _, runs in self._spec.stores.values() for run in runs)
        return frozenset(run.path for each in sites for pairs in each.live.values() for run, _ in pairs) | {*promises}

    @cached_property
    def _slice(self) -> SiteSlice:
        return self._spec.sites[self._site]

    @cached_property
    def _receiver(self) -> Receiver:
        """The task begins with the first rows, or with their end."""
        self._reach("task-start")
        self._forget_dead_runs()
        if self._slice.coming:
            fetch_ahead(self._spec.storage, self._slice.coming)
        return Receiver(self._spec, self._admission, self._site)

    @cached_property
    def _ring_rows(self) -> RingRows:
        return RingRows(self._spec, self._slice, self._site)

    @cached_property
    def _settling(self) -> Settling:
        return Settling(self._spec, self._slice, self._keeper.reader)

    @cached_property
    def _admission(self) -> Admission:
        return Admission(
            self._spec.admissions, self._spec.incoming, self._keeper.reader, self._keeper.promises, self._rejected
        )

    @cached_property
    def _rejected(self) -> "RejectedRows | None":
        path = self._spec.rejected_path
        if path is None:
            return None
        from watersmeet.site.rejected import RejectedRows  # noqa: PLC0415 -- few queries need what it loads

        return RejectedRows(path, self._spec.query, self._spec.epoch, self._site)

    @cached_property
    def _writer(self) -> "ResultWriter | None":
        form = self._spec.files
        if form is None or form.path is None:
            return None
        from watersmeet.site.result_writer import ResultWriter  # noqa: PLC0415 -- few queries need what it loads

        return ResultWriter(form, self._spec.epoch, self._site)

    def _is_above(self, tag: int) -> bool:
        return self._spec.inputs[tag].level > self._spec.level

    def _reduced(self, source: InputSpec, rows: SortedRows) -> SortedRows:
        """What an aggregate makes of rows that arrive; they are what they are for all others."""
        self._counts.kept(source, rows)
        operator = next((each for each in self._spec.operators if each.id == source.operator), None)
        if operator is None or operator.aggregate is None:
            return rows
        return aggregate_of(operator, self._spec.groups).reduce(rows)

    def _produce(self, operator: OperatorSpec, deltas: dict[int, SortedRows]) -> Iterator[pa.RecordBatch]:
        task = task_of(operator, self._options)
        if operator.aggregate is not None:
            spilled = self._slice.spilled.get(operator.id, GroupSet())
            deltas = {tag: of_open_groups(rows, spilled, self._spec.groups) for tag, rows in deltas.items()}
        reach = NewRowTimes.of(operator, deltas) if operator.is_windowed and operator.how != "semi" else None
        sides = [self._side(source, deltas.get(source.tag), reach) for source in operator.inputs]
        at_once = self._settling.at_once(operator, task, deltas, lambda other: self._side(other, None, None))
        for results in chain(task.produce(sides), at_once):
            yield from self._give(operator, results)
            self._reach("mid-output")
        self._counts.produced(operator, task.output)

    def _give_unmatched(self, operator: OperatorSpec, unmatched: dict[int, SortedRows]) -> Iterator[pa.RecordBatch]:
        """Rows with a null key, which match nothing."""
        task = task_of(operator, self._options)
        for number in operator.preserved:
            rows = unmatched.get(operator.inputs[number].tag)
            for results in () if rows is None else task.unmatched(number, rows):
                yield from self._give(operator, results)
        self._counts.produced(operator, task.output)

    def _settle(self) -> Iterator[pa.RecordBatch]:
        """What stored rows give whose end has come."""
        for operator in () if self._spec.only_stores else self._spec.operators:
            task = task_of(operator, self._options)
            for results in self._settling.stored(operator, task):
                yield from self._give(operator, results)
                self._reach("mid-output")
            self._counts.produced(operator, task.output)

    def _clean(self) -> Iterator[pa.RecordBatch]:
        order = self._slice.cleaning
        operator = next((each for each in self._spec.operators if order and each.id == order.operator), None)
        if order is None or operator is None:
            return
        task = task_of(operator, self._options)
        cleanup = SiteCleanup(
            self._spec.storage, self._spec.groups, order, operator, self._spec.decisions, self._keeper.reader
        )
        missing = ring_results(cleanup, task) if isinstance(task, RingTask) else cleanup.results(task)
        for results in missing:
            yield from self._give(operator, results)
            self._reach("mid-cleanup")
        self._spec.storage.forget({run.path for run, _ in order.slices} - self._live_paths)
        self._cleaned_results = self._counts.cleaned(operator, task.output)
        self._cleaned_bytes = cleanup.read_bytes

    def _give(self, operator: OperatorSpec, results: Results) -> Iterator[pa.RecordBatch]:
        """Results go up to the next level or to Spark, or are written or dropped here."""
        if self._spec.files is None:
            yield self._spec.outgoing.send(operator, results, self._spec.site_keys)
        elif self._writer is not None:
            self._writer.write(results)

    def _side(self, source: InputSpec, delta: SortedRows | None, reach: NewRowTimes | None) -> Side:
        live = [pair for pair in self._slice.live[source.operator] if pair[0].input == source.name]
        if reach is not None:
            live = [pair for pair in live if reach.meets(source, pair[0])]
        own = self._slice.own.get(source.operator)
        if own is not None:
            needed = [(run, Wanted(part.groups & own, self._spec.groups)) for run, part in live]
            fetch_together(self._spec.storage, needed)
        views = [view for pair in live for view in views_of(self._spec, source, self._site, *pair)]
        views += [RunView(self._open(run)) for run in self._earlier.get(source.tag, [])]
        views += [RunView(rows) for rows in self._copied.get(source.tag, [])]
        return Side(tuple(views), no_rows(source.schema) if delta is None else delta)

    def _tell(self) -> None:
        effects = Effects(
            level=self._spec.level,
            site=self._site,
            changes=tuple(self._keeper.changes),
            rows_in=self._counts.rows_in,
            rows_out=self._counts.rows_out,
            busy_ms=self._busy_s * 1000,
            receive_ms=self._receive_s * 1000,
            promises_ms=self._keeper.promises_s * 1000,
            host=socket.gethostname(),
            executor=_executor(),
            worker=os.getpid(),
            files=self._files(),
            local=packed(self._counts.local),
            traced=packed(self._counts.traced),
            inter_bytes=packed(self._counts.inter_bytes),
            cleaned_results=self._cleaned_results,
            cleaned_bytes=self._cleaned_bytes,
            latest=self._admission.latest,
            rejected=self._admission.rejected,
            rejected_files=() if self._rejected is None else self._rejected.close(),
            not_stored=self._keeper.not_stored,
            ended=tuple(sorted(self._keeper.promises.ended)),
            promised_until=self._keeper.promises.until,
            to_fetch=missing_bytes(self._spec.storage, self._slice.coming),
            costs={each.id: told for each in self._spec.operators if (told := self._costs[each.id].told(each.tests))},
        )
        self.effects_name = write_effects(self._spec.storage, self._spec.driver, self._spec.epoch, effects)
        if self._spec.is_limited:  # Arrow would keep what it has freed for next time, on top of the budget
            pa.default_memory_pool().release_unused()

    def _files(self) -> tuple[str, ...]:
        return self._writer.close() if self._spec.files is not None and self._writer is not None else ()

    def _reach(self, point: str) -> None:
        reach(self._spec.crash, point, self._spec.epoch)


@lru_cache
def _executor() -> int:
    return executor_pid()
