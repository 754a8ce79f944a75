"""What rows give by themselves: those that come out alone, and groups of an aggregate that are final (`deciding`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from watersmeet.operators.join.generations import HASHES, Piece
from watersmeet.operators.join.probe import RunView, Side
from watersmeet.operators.kinds import OperatorTask
from watersmeet.operators.results import Results
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.site.deciding import Decision
from watersmeet.site.promises import PromiseReader
from watersmeet.site.spec import LevelSpec, Pair, SiteSlice
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import LIVE, RunFile, Slice
from watersmeet.state.parts import Wanted
from watersmeet.state.rows import SortedRows, merge_rows, no_rows, take_rows
from watersmeet.state.runs import open_groups, open_run

SETTLED_BYTES = 32 << 20
"""As much is brought together at a time, by the bytes of the runs that hold it."""


def view_of(spec: LevelSpec, run: RunFile, part: Slice, wanted: Wanted | None = None) -> RunView:
    """A run as a site sees it; ``wanted`` are the groups it may be asked for, if not all."""
    rows = open_run(spec.storage, run, part.groups, wanted)
    return RunView(rows, None if part.groups == run.groups else part.groups.mask(spec.groups))


@dataclass(frozen=True)
class Settling:
    """Decides rows at one site in one step."""

    spec: LevelSpec
    here: SiteSlice
    reader: PromiseReader

    def at_once(
        self,
        operator: OperatorSpec,
        task: OperatorTask,
        deltas: Mapping[int, SortedRows],
        side_of: Callable[[InputSpec], Side],
    ) -> Iterator[Results]:
        """What rows give that arrive after their end has come; ``side_of`` gives what an input holds already."""
        for number in operator.preserved if operator.aggregate is None else ():
            source, other = operator.inputs[number], operator.inputs[1 - number]
            decision, delta = self.spec.decisions.get(source.tag), deltas.get(source.tag)
            if decision is None or delta is None:
                continue
            rows = decision.at_once(source, delta, self.spec.groups, self.reader)
            if len(rows):
                there, new = side_of(other), deltas.get(other.tag)
                runs = there.runs if new is None else (*there.runs, RunView(new))
                yield from task.settle(number, rows, Side(runs, there.delta))

    def stored(self, operator: OperatorSpec, task: OperatorTask) -> Iterator[Results]:
        """What stored rows give whose end has come, of groups that miss nothing."""
        for number in operator.preserved:
            source = operator.inputs[number]
            decision, pairs = self.spec.decisions.get(source.tag), self.here.settled.get(operator.id, ())
            due = [pair for pair in pairs if decision and _is_of(pair, source) and decision.may_hold(source, pair[0])]
            if decision is not None and due:
                there = self._others(operator, number, pairs)
                for rows in self._due(operator, source, decision, due):
                    yield from task.settle(number, rows, there)

    def _others(self, operator: OperatorSpec, number: int, pairs: tuple[Pair, ...]) -> Side:
        """All there is of the other input, if there is one."""
        other = next((each for each in operator.inputs if each is not operator.inputs[number]), None)
        if other is None:
            return Side((), no_rows(operator.inputs[number].schema))
        views = tuple(view_of(self.spec, run, part) for run, part in pairs if run.input == other.name)
        return Side(views, no_rows(other.schema))

    def _due(
        self, operator: OperatorSpec, source: InputSpec, decision: Decision, due: list[Pair]
    ) -> Iterator[SortedRows]:
        """The rows that are decided now, a range of hashes at a time, all of a key together."""
        parts = 1 + sum(run.bytes for run, _ in due) // SETTLED_BYTES
        whole, groups = self.here.whole[operator.id], self.spec.groups
        for low, high in pairwise(HASHES * number // parts for number in range(parts + 1)):
            pieces = [
                decision.now(source, run, Piece(LIVE, piece).between(low, high).rows, groups, self.reader)
                for run, part in due
                for piece in open_groups(self.spec.storage, run, part.groups & whole, groups)
            ]
            if sum(map(len, pieces)):
                yield merge_rows(pieces)


def arrived_rows(spec: LevelSpec, runs: Sequence[RunFile]) -> Iterator[SortedRows]:
    """The rows of runs that a step's rounds have written: about a round at a time, all of a key together."""
    parts = min(len(runs), 1 + sum(run.bytes for run in runs) // spec.round_bytes)
    rows = [open_run(spec.storage, run) for run in runs]
    for low, high in pairwise(HASHES * number // parts for number in range(parts + 1) if parts):
        pieces = [Piece(LIVE, each).between(low, high).rows for each in rows]
        yield pieces[0] if len(pieces) == 1 else merge_rows(pieces)


def of_open_groups(rows: SortedRows, spilled: GroupSet, groups: int) -> SortedRows:
    """The rows of groups of which nothing was spilled: the values of others are not known at run time."""
    if not spilled:
        return rows
    index = np.flatnonzero(~spilled.mask(groups)[group_of(rows.hashes, groups)])
    return SortedRows(rows.hashes[index], take_rows(rows.rows, index))


def _is_of(pair: Pair, source: InputSpec) -> bool:
    return pair[0].input == source.name
