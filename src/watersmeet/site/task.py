"""A site task: one level of the plan, at one site, in one step, as a function of the rows that arrive.

1. Receive: let in the rows that keep their stream's promises, and sort those of every input by hash, in rounds if they
   are many.
2. Keep: write each input's rows as a new run, but for those that nothing can come for any more. Rows for a higher
   level are only kept; a *pointer* to their run goes up in their stead, so that a row crosses into Python once and is
   shuffled once. All sites of a ring are told of its runs, and so are the sites that share a group.
3. Produce: every operator of the level yields the results its new rows complete, as its kind knows how to; aggregates
   and rings when all rows have come. In a step of cleanup, no rows arrive, and the results are those missing of some
   groups. Rows of which no match can come any more come out alone, if they have none. (`producing`)
4. Merge: runs the driver chose become one, while Spark still reads the last results.
5. Tell: write the effects. Without them, nothing the task did has happened.

It never changes a file, and repeating it is harmless.
"""

import os
import socket
import time
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet.model.ids import SiteId
from watersmeet.operators.promises.stores import PROMISES
from watersmeet.site.admission import Admission
from watersmeet.site.counts import packed
from watersmeet.site.crash import executor_pid, reach
from watersmeet.site.effects import Effects, write_effects
from watersmeet.site.fetching import fetch_ahead, missing_bytes
from watersmeet.site.keeping import Keeper
from watersmeet.site.messages import Kind
from watersmeet.site.producing import Producer
from watersmeet.site.receive import Receiver, Round
from watersmeet.site.spec import LevelSpec, SiteSlice
from watersmeet.site.travel import pointers
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows
from watersmeet.state.runs import forget_runs

if TYPE_CHECKING:
    from watersmeet.site.rejected import RejectedRows


class SiteTask:
    """One attempt at a level's work for one site."""

    def __init__(self, spec: LevelSpec, site: SiteId) -> None:
        self._spec, self._site = spec, site
        self._keeper = Keeper(spec, site)
        self._producer = Producer(spec, site, self._keeper)
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
        yield from self._timed(self._producer.of_groups())
        yield from self._timed(self._producer.of_rings())
        yield from self._timed(self._producer.of_cleanup())
        yield from self._timed(self._producer.of_ended())
        started = time.monotonic()
        self._keeper.finish(self._spec.live_paths)
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
        rows_in = {tag: self._producer.reduced(self._spec.inputs[tag], rows) for tag, rows in arrived.rows.items()}
        kept = {tag: self._keeper.keep(self._spec.inputs[tag], rows) for tag, rows in rows_in.items()}
        self._reach("after-runs")
        runs = {tag: run for tag, run in kept.items() if run is not None} | arrived.pointers
        above = [(tag, run) for tag, run in runs.items() if self._spec.is_above(tag)]
        yield from pointers(self._spec.outgoing.schema, above, self._spec.site_keys[self._site])
        yield from self._send_probes(kept, arrived.probe_runs)
        yield from self._send_unmatched(arrived.unmatched)
        rows_here = {tag: rows for tag, rows in rows_in.items() if not self._spec.is_above(tag)}
        runs_here = {tag: run for tag, run in runs.items() if not self._spec.is_above(tag)}
        yield from self._producer.of_round(arrived, rows_here, runs_here, is_last=is_last)

    def _send_probes(
        self, kept: dict[int, RunFile | None], arrived: tuple[tuple[int, RunFile], ...]
    ) -> Iterator[pa.RecordBatch]:
        """Tell all others who join runs that were written here, at a level above, and go on with what was told."""
        schema, keys = self._spec.outgoing.schema, self._spec.site_keys
        told = [(tag, run) for tag, run in arrived if self._spec.is_above(tag)]
        yield from pointers(schema, told, keys[self._site], Kind.PROBE)
        written = {tag: run for tag, run in kept.items() if run is not None and self._spec.is_above(tag)}
        for tag, run in written.items():
            for site in self._spec.readers(self._spec.inputs[tag], run):
                if site != self._site:
                    yield from pointers(schema, [(tag, run)], keys[site], Kind.PROBE)

    def _send_unmatched(self, unmatched: dict[int, SortedRows]) -> Iterator[pa.RecordBatch]:
        """Rows that come out alone at a higher level go there as files, which are no part of the state."""
        written = []
        for tag, rows in unmatched.items():
            if self._spec.is_above(tag):
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
        """Slow the site down, for tests."""
        if self._site in self._spec.slow:
            time.sleep((self._spec.slow[self._site] - 1) * (time.monotonic() - started))

    def _forget_dead_runs(self) -> None:
        """Let go of runs that no site of this level has any more, so that their disk space can be freed."""
        operators = {PROMISES, *(operator.id for operator in self._spec.operators)}
        cleaning = {run.path for each in self._spec.sites.values() if each.cleaning for run, _ in each.cleaning.slices}
        forget_runs(self._spec.storage, operators, self._spec.live_paths | cleaning, self._spec.epoch)

    @property
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

        return RejectedRows(path, self._spec.query, self._spec.epoch, self._spec.batch, self._site)

    def _tell(self) -> None:
        made, costs = self._producer.counts, self._producer.costs
        effects = Effects(
            level=self._spec.level,
            site=self._site,
            changes=tuple(self._keeper.changes),
            rows_in=made.rows_in,
            rows_out=made.rows_out,
            busy_ms=self._busy_s * 1000,
            receive_ms=self._receive_s * 1000,
            promises_ms=self._keeper.promises_s * 1000,
            host=socket.gethostname(),
            executor=_executor(),
            worker=os.getpid(),
            files=self._producer.files(),
            local=packed(made.local),
            traced=packed(made.traced),
            inter_bytes=packed(made.inter_bytes),
            cleaned_results=self._producer.cleaned_results,
            cleaned_bytes=self._producer.cleaned_bytes,
            latest=self._admission.latest,
            rejected=self._admission.rejected,
            rejected_files=() if self._rejected is None else self._rejected.close(),
            not_stored=self._keeper.not_stored,
            looked=tuple(self._keeper.looked),
            ended=tuple(sorted(self._keeper.promises.ended)),
            promised_until=self._keeper.promises.until,
            to_fetch=missing_bytes(self._spec.storage, self._slice.coming),
            costs={each.id: told for each in self._spec.operators if (told := costs[each.id].told(each.tests))},
        )
        self.effects_name = write_effects(self._spec.storage, self._spec.driver, self._spec.epoch, effects)
        if self._spec.is_limited:  # Arrow would keep what it has freed for next time, on top of the budget
            pa.default_memory_pool().release_unused()

    def _reach(self, point: str) -> None:
        reach(self._spec.crash, point, self._spec.epoch)


@lru_cache
def _executor() -> int:
    return executor_pid()
