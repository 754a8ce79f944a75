"""What comes to a site for its rings: new rows that it stores, and probes, which other sites store.

Which of them meet what here, and what at another site, a scheme tells (`watersmeet.operators.ring.schemes`).

New rows are joined with each other, too, so a ring begins when all have come. Until then, what is too much for one
round lies in files that are no part of the state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.model.ids import SiteId
from watersmeet.operators.join.probe import RunView
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.site.expiry import NewRowTimes
from watersmeet.site.spec import LevelSpec, SiteSlice
from watersmeet.state.groups import GroupSet
from watersmeet.state.rows import SortedRows, no_rows, one_batch
from watersmeet.state.runs import open_run


@dataclass
class RingRows:
    """The rows of one step, by the tag of their input."""

    spec: LevelSpec
    here: SiteSlice
    site: SiteId
    _new: dict[int, list[SortedRows]] = field(default_factory=dict)
    _probes: dict[int, list[SortedRows]] = field(default_factory=dict)

    def store(self, tag: int, rows: SortedRows) -> None:
        """Take new rows that are stored here."""
        self._new.setdefault(tag, []).append(rows)

    def probe(self, tag: int, rows: SortedRows) -> None:
        """Take new rows that another site stores."""
        self._probes.setdefault(tag, []).append(rows)

    def visits(self, operator: OperatorSpec) -> Iterator[tuple[int, list[SortedRows], list[RunView]]]:
        """The number of an input, new rows of it, and what these meet here of the other one."""
        times = self._times(operator) if operator.is_windowed else None
        owners = self.spec.owners[operator.id]
        for probing in (0, 1):
            own, other = operator.inputs[probing], operator.inputs[1 - probing]
            for visit in self.spec.ring_scheme.visits(owners, self.site, probing):
                met = list(self._old(other, times, visit.met))
                if probing == 1:  # rows of one step meet when those of the second input probe
                    met += [RunView(rows) for rows in self._of_groups(other, visit.met)]
                yield probing, self._of_groups(own, visit.probing), met

    def _old(self, source: InputSpec, times: NewRowTimes | None, met: GroupSet) -> Iterator[RunView]:
        """Runs as far as their rows are met here: others of them are met elsewhere, or may have moved."""
        for run, part in self.here.live[source.operator]:
            counted = part.groups & met
            if run.input == source.name and counted and (times is None or times.meets(source, run)):
                rows = open_run(self.spec.storage, run, part.groups)
                yield RunView(rows, None if counted == run.groups else counted.mask(self.spec.groups))

    def _of_groups(self, source: InputSpec, groups: GroupSet) -> list[SortedRows]:
        """New rows of some groups, whoever stores them."""
        everything = GroupSet.union(self.spec.owners[source.operator].values())
        rows = self._all_new(source)
        if groups == everything:
            return rows
        return [piece for each in rows for piece in each.of_groups(groups, self.spec.groups)]

    def _times(self, operator: OperatorSpec) -> NewRowTimes:
        """When the new rows of each input live."""
        return NewRowTimes.of(operator, {each.tag: _lives_of(each, self._all_new(each)) for each in operator.inputs})

    def _all_new(self, source: InputSpec) -> list[SortedRows]:
        return [*self._new.get(source.tag, ()), *self._probes.get(source.tag, ())]


def _lives_of(source: InputSpec, pieces: Sequence[SortedRows]) -> SortedRows:
    """What tells when some rows live, in one piece."""
    names = () if source.life is None else source.life.names
    if not pieces:
        return no_rows(source.schema)
    rows = one_batch(pa.Table.from_batches([piece.rows.select(names) for piece in pieces]))
    return SortedRows(np.concatenate([piece.hashes for piece in pieces]), rows)
