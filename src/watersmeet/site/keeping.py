"""What a site task keeps: rows as runs, merged runs, and promises. Each becomes a change."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

from watersmeet.model.ids import RunId, SiteId
from watersmeet.operators.calls import calls
from watersmeet.operators.kinds import TaskOptions, aggregate_of, task_of
from watersmeet.operators.outer.task import OuterTask
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.site.expiry import End
from watersmeet.site.merging import merge
from watersmeet.site.partners import Partners
from watersmeet.site.promises import PromiseReader, PromiseWriter
from watersmeet.site.purging import Purger
from watersmeet.site.spec import LevelSpec, MergeOrder
from watersmeet.state.changes import AddPromises, AddRun, MergePromises, MergeRuns
from watersmeet.state.groups import GroupSet
from watersmeet.state.looks import Looked
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows
from watersmeet.state.runs import RunName, run_name, write_run


@dataclass
class Keeper:
    """Writes files for one attempt of a task, and remembers the ``changes`` they are; some rows are ``not_stored``.

    Slices that were ``looked`` at for rows that can go, and have too few, are left as they are.
    ``promises_s`` is how long promises took: finding and dropping the rows that they let go, and their stores.
    """

    spec: LevelSpec
    site: SiteId
    changes: list[AddRun | MergeRuns | AddPromises | MergePromises] = field(default_factory=list)
    not_stored: int = 0
    promises_s: float = 0.0
    looked: list[Looked] = field(default_factory=list)

    @cached_property
    def reader(self) -> PromiseReader:
        """The promises there are."""
        return PromiseReader(self.spec.storage, self.spec.stores)

    @cached_property
    def _purger(self) -> Purger:
        return Purger(self.spec.storage, self.spec.groups, self.reader)

    @cached_property
    def promises(self) -> PromiseWriter:
        """Takes those that come."""
        spec = self.spec
        return PromiseWriter(self.reader, spec.groups, spec.epoch + 1, spec.incoming, spec.punctuated)

    def keep(self, source: InputSpec, rows: SortedRows) -> RunFile | None:
        """Write rows as a run; None where no other row can come that any of them would be joined with."""
        with self._for_promises():
            stored = self._needed_later(source, rows)
        self.not_stored += len(rows) - len(stored)
        if not len(stored):
            return None
        run = self.write(source, stored)
        self.changes.append(AddRun(run, closed=self.spec.only_stores))
        return run

    def write(self, source: InputSpec, rows: SortedRows) -> RunFile:
        """Write rows into a file that is no part of the state."""
        name = RunName(self._name(), source.operator, source.name, source.bounded, source.ending)
        return write_run(self.spec.storage, name, rows, self.spec.groups)

    def finish(self, live: frozenset[str]) -> None:
        """Merge the runs that the driver chose, and write the promises that came; ``live`` are runs probed here."""
        for order in self.spec.sites[self.site].merges:
            with self._for_promises() if order.look is not None else nullcontext():
                self._merge(order, live)
        with self._for_promises():
            self.changes += self.promises.close(self._name)
            for stores in self.spec.promise_merges.get(self.site, ()):
                self.changes.append(self.reader.merged(stores, self._name(), self.spec.groups))

    def _merge(self, order: MergeOrder, live: frozenset[str]) -> None:
        """Carry out an order, unless it is to look first, and what would go is too little."""
        spec = self.spec
        operator = next(each for each in spec.operators if each.id == order.source.operator)
        partners = self._partners(operator, order.source)
        if order.look is not None:
            looked = self._purger.look(order, order.look, live, partners)
            if looked is None or not looked.is_worth(order.look.at):
                self.looked += [] if looked is None else [looked]
                return
        combine = None if operator.aggregate is None else aggregate_of(operator, spec.groups).combine
        end = order.end(spec.groups, self.reader, partners)
        self.changes.append(merge(spec.storage, order, spec.groups, self._name(), live, end, combine))

    def _partners(self, operator: OperatorSpec, source: InputSpec) -> Partners | None:
        """What is stored of the other input of an outer join."""
        if operator.kind != "outer":
            return None
        spec, here = self.spec, self.spec.sites[self.site]
        other = next(each for each in operator.inputs if each.name != source.name)
        pairs = [pair for pair in here.settled.get(operator.id, ()) if pair[0].input == other.name]
        whole = here.whole.get(operator.id, GroupSet())
        gives_once = operator.how in ("semi", "anti") and source.name == operator.inputs[0].name
        task = task_of(operator, TaskOptions(spec.groups, functions=calls(spec.functions))) if gives_once else None
        return Partners(spec.storage, spec.groups, other, pairs, whole, task if isinstance(task, OuterTask) else None)

    @contextmanager
    def _for_promises(self) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.promises_s += time.monotonic() - started

    def _needed_later(self, source: InputSpec, rows: SortedRows) -> SortedRows:
        limit, purge = self.spec.limits.get(source.tag), self.spec.purges.get(source.tag)
        if (limit is None and purge is None) or self.spec.only_stores or self.spec.is_above(source.tag):
            return rows
        spilled = self.spec.sites[self.site].spilled.get(source.operator, GroupSet())
        operator = next(each for each in self.spec.operators if each.id == source.operator)
        partners = self._partners(operator, source)
        end = End(source, self.spec.groups, limit, spilled, purge, self.reader, partners)
        return end.still_needed(rows, arriving=True)

    def _name(self) -> RunId:
        return RunId(run_name(self.spec.epoch, self.site, uuid.uuid4().hex[:12]))
