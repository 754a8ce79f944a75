"""What the operators of a level make, at one site and in one step, of the rows that the site's task brings (`task`).

- Of a round of rows: the results they complete, with what is stored and with the rows of earlier rounds. Rows of groups
  that several sites share are joined here and stored at another site: they come as copies.
- Once all rows have come: what aggregates tell of groups that have changed, so that a group comes once; results of
  rings, whose rows meet all others; in a step of cleanup, the results that some groups miss; and rows that come out
  alone, as no match can come any more.

Results go up to the next level or to Spark; or they are written here.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet.model.ids import SiteId
from watersmeet.operators.calls import calls
from watersmeet.operators.costs import Costs
from watersmeet.operators.join.probe import RunView, Side
from watersmeet.operators.kinds import TaskOptions, aggregate_of, ring_of, task_of
from watersmeet.operators.results import Results
from watersmeet.operators.ring.task import RingTask
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.site.cleaning import SiteCleanup
from watersmeet.site.counts import Counts
from watersmeet.site.crash import reach
from watersmeet.site.expiry import NewRowTimes
from watersmeet.site.fetching import fetch_together
from watersmeet.site.keeping import Keeper
from watersmeet.site.meeting import RingRows
from watersmeet.site.receive import Round
from watersmeet.site.ring_cleaning import ring_results
from watersmeet.site.settling import Settling, arrived_rows, of_open_groups
from watersmeet.site.sharing import views_of
from watersmeet.site.spec import LevelSpec
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import RunFile
from watersmeet.state.parts import Wanted
from watersmeet.state.rows import SortedRows, merge_rows, no_rows
from watersmeet.state.runs import open_run

if TYPE_CHECKING:
    from watersmeet.site.result_writer import ResultWriter


class Producer:
    """The operators of one attempt of a task; what they made is counted, and what their tests cost."""

    def __init__(self, spec: LevelSpec, site: SiteId, keeper: Keeper) -> None:
        self._spec, self._site, self._keeper = spec, site, keeper
        self._here = spec.sites[site]
        self._operators = () if spec.only_stores else spec.operators
        self._earlier: dict[int, list[RunFile]] = {}
        self._copied: dict[int, list[SortedRows]] = {}
        self.counts = Counts(spec.groups)
        self.costs = {each.id: Costs.of(each.tests, spec.costs.get(each.id, ())) for each in spec.operators}
        self._options = TaskOptions(spec.groups, spec.forget_pairs, calls(spec.functions), self.costs)
        self.cleaned_results, self.cleaned_bytes = 0, 0

    def reduced(self, source: InputSpec, rows: SortedRows) -> SortedRows:
        """What an aggregate makes of rows that arrive; they are what they are for all others."""
        self.counts.kept(source, rows)
        operator = next((each for each in self._spec.operators if each.id == source.operator), None)
        if operator is None or operator.aggregate is None:
            return rows
        return aggregate_of(operator, self._spec.groups).reduce(rows)

    def of_round(
        self, arrived: Round, deltas: dict[int, SortedRows], runs: dict[int, RunFile], *, is_last: bool
    ) -> Iterator[pa.RecordBatch]:
        """The results that a round's rows complete; ``runs`` are those the rows lie in, as far as any does."""
        deltas = deltas | {tag: self._open(run) for tag, run in runs.items() if tag not in deltas}
        self._collect(arrived, deltas, is_last=is_last)
        copies = self._copies(arrived, is_last=is_last)
        deltas |= {tag: merge_rows([*some, *([deltas[tag]] if tag in deltas else ())]) for tag, some in copies.items()}
        for operator in self._operators:
            if operator.aggregate is None and operator.kind != "ring":
                yield from self._produce(operator, deltas)
                yield from self._give_unmatched(operator, arrived.unmatched)
        for tag, run in runs.items():
            self._earlier.setdefault(tag, []).append(run)
        for tag, some in copies.items():
            self._copied.setdefault(tag, []).extend(some)

    def of_groups(self) -> Iterator[pa.RecordBatch]:
        """What aggregates tell of groups that have changed."""
        for operator in self._operators:
            if operator.aggregate is not None:
                tag = operator.inputs[0].tag
                for rows in arrived_rows(self._spec, self._earlier.pop(tag, [])):
                    yield from self._produce(operator, {tag: rows})

    def of_rings(self) -> Iterator[pa.RecordBatch]:
        """The results of rings."""
        for operator in self._operators:
            if operator.kind == "ring":
                task = ring_of(operator, self._options)
                for probing, rows, met in self._ring_rows.visits(operator):
                    for results in task.probe(probing, rows, met):
                        yield from self._give(operator, results)
                        self._reach("mid-output")
                self.counts.produced(operator, task.output)

    def of_cleanup(self) -> Iterator[pa.RecordBatch]:
        """The missing results of the groups that this site cleans, if it cleans any."""
        order = self._here.cleaning
        operator = next((each for each in self._spec.operators if order and each.id == order.operator), None)
        if order is None or operator is None:
            return
        task = task_of(operator, self._options)
        reader = self._keeper.reader
        cleanup = SiteCleanup(self._spec.storage, self._spec.groups, order, operator, self._spec.decisions, reader)
        missing = ring_results(cleanup, task) if isinstance(task, RingTask) else cleanup.results(task)
        for results in missing:
            yield from self._give(operator, results)
            self._reach("mid-cleanup")
        self._spec.storage.forget({run.path for run, _ in order.slices} - self._spec.live_paths)
        self.cleaned_results = self.counts.cleaned(operator, task.output)
        self.cleaned_bytes = cleanup.read_bytes

    def of_ended(self) -> Iterator[pa.RecordBatch]:
        """What stored rows give whose end has come."""
        for operator in self._operators:
            task = task_of(operator, self._options)
            for results in self._settling.stored(operator, task):
                yield from self._give(operator, results)
                self._reach("mid-output")
            self.counts.produced(operator, task.output)

    def files(self) -> tuple[str, ...]:
        """The files that results were written to, if they were; nothing is written after that."""
        return self._writer.close() if self._spec.files is not None and self._writer is not None else ()

    def _collect(self, arrived: Round, deltas: dict[int, SortedRows], *, is_last: bool) -> None:
        """Keep what comes for rings until all has come; what is not the last of it is put into files."""
        rows = [(tag, each, self._ring_rows.store) for tag, each in deltas.items() if self._goes_everywhere(tag)]
        probes = ((tag, each) for tag, each in arrived.probes.items() if len(each) and self._goes_everywhere(tag))
        rows += [(tag, each, self._ring_rows.probe) for tag, each in probes]
        for tag, each, add in rows:
            stays = is_last or tag in arrived.pointers
            add(tag, each if stays else self._open(self._keeper.write(self._spec.inputs[tag], each)))
        for tag, run in arrived.probe_runs:
            if not self._spec.is_above(tag) and self._goes_everywhere(tag):
                self._ring_rows.probe(tag, self._open(run))

    def _copies(self, arrived: Round, *, is_last: bool) -> dict[int, list[SortedRows]]:
        """Rows of groups that sites share, which another site stores; what later rounds need is put into files."""
        found: dict[int, list[SortedRows]] = {}
        for tag, rows in arrived.probes.items():
            if len(rows) and not self._goes_everywhere(tag):
                stays = is_last or self._spec.only_stores
                found[tag] = [rows if stays else self._open(self._keeper.write(self._spec.inputs[tag], rows))]
        for tag, run in arrived.probe_runs:
            if not self._spec.is_above(tag) and not self._goes_everywhere(tag):
                groups = self._spec.stored_elsewhere(self._spec.inputs[tag], self._site)
                found.setdefault(tag, []).extend(self._open(run).of_groups(groups & run.groups, self._spec.groups))
        return {tag: some for tag, some in found.items() if some}

    def _produce(self, operator: OperatorSpec, deltas: dict[int, SortedRows]) -> Iterator[pa.RecordBatch]:
        task = task_of(operator, self._options)
        if operator.aggregate is not None:
            spilled = self._here.spilled.get(operator.id, GroupSet())
            deltas = {tag: of_open_groups(rows, spilled, self._spec.groups) for tag, rows in deltas.items()}
        times = NewRowTimes.of(operator, deltas) if operator.is_windowed and operator.how != "semi" else None
        sides = [self._side(source, deltas.get(source.tag), times) for source in operator.inputs]
        at_once = self._settling.at_once(operator, task, deltas, lambda other: self._side(other, None, None))
        for results in chain(task.produce(sides), at_once):
            yield from self._give(operator, results)
            self._reach("mid-output")
        self.counts.produced(operator, task.output)

    def _give_unmatched(self, operator: OperatorSpec, unmatched: dict[int, SortedRows]) -> Iterator[pa.RecordBatch]:
        """Rows with a null key, which match nothing."""
        task = task_of(operator, self._options)
        for number in operator.preserved:
            rows = unmatched.get(operator.inputs[number].tag)
            for results in () if rows is None else task.unmatched(number, rows):
                yield from self._give(operator, results)
        self.counts.produced(operator, task.output)

    def _give(self, operator: OperatorSpec, results: Results) -> Iterator[pa.RecordBatch]:
        """Results go up to the next level or to Spark, or are written or dropped here."""
        if self._spec.files is None:
            yield self._spec.outgoing.send(operator, results, self._spec.site_keys)
        elif self._writer is not None:
            self._writer.write(results)

    def _side(self, source: InputSpec, delta: SortedRows | None, times: NewRowTimes | None) -> Side:
        live = [pair for pair in self._here.live[source.operator] if pair[0].input == source.name]
        if times is not None:
            live = [pair for pair in live if times.meets(source, pair[0])]
        own = self._here.own.get(source.operator)
        if own is not None:
            needed = [(run, Wanted(part.groups & own, self._spec.groups)) for run, part in live]
            fetch_together(self._spec.storage, needed)
        views = [view for pair in live for view in views_of(self._spec, source, self._site, *pair)]
        views += [RunView(self._open(run)) for run in self._earlier.get(source.tag, [])]
        views += [RunView(rows) for rows in self._copied.get(source.tag, [])]
        return Side(tuple(views), no_rows(source.schema) if delta is None else delta)

    @cached_property
    def _ring_rows(self) -> RingRows:
        return RingRows(self._spec, self._here, self._site)

    @cached_property
    def _settling(self) -> Settling:
        return Settling(self._spec, self._here, self._keeper.reader)

    @cached_property
    def _writer(self) -> "ResultWriter | None":
        form = self._spec.files
        if form is None or form.path is None:
            return None
        from watersmeet.site.result_writer import ResultWriter  # noqa: PLC0415 -- few queries need what it loads

        return ResultWriter(form, self._spec.epoch, self._site)

    def _goes_everywhere(self, tag: int) -> bool:
        return self._spec.inputs[tag].go_everywhere

    def _open(self, run: RunFile) -> SortedRows:
        return open_run(self._spec.storage, run)

    def _reach(self, point: str) -> None:
        reach(self._spec.crash, point, self._spec.epoch)
