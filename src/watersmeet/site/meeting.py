"""What comes to a site for its rings: new rows that it stores, and probes, which other sites store.

New rows are joined with each other, too, so a ring begins when all have come. Until then, what is too much for one
round lies in files that are no part of the state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.model.ids import SiteId
from watersmeet.operators.join.probe import RunView
from watersmeet.operators.ring.task import RingSide
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.site.expiry import NewRowTimes
from watersmeet.site.spec import LevelSpec, SiteSlice
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import RunFile, Slice
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

    def sides(self, operator: OperatorSpec) -> list[RingSide]:
        """The inputs of a ring, with all rows of the step and the runs that any of these can meet."""
        times = self._times(operator) if operator.is_windowed else None
        return [self._side(source, times) for source in operator.inputs]

    def _side(self, source: InputSpec, times: NewRowTimes | None) -> RingSide:
        live = [pair for pair in self.here.live[source.operator] if pair[0].input == source.name]
        met = [(run, part) for run, part in live if times is None or times.meets(source, run)]
        old = tuple(self._view(source, run, part) for run, part in met)
        return RingSide(old, tuple(self._new.get(source.tag, ())), tuple(self._probes.get(source.tag, ())))

    def _view(self, source: InputSpec, run: RunFile, part: Slice) -> RunView:
        """A run as far as its rows are this site's: others of it may have moved, and are met where they are now."""
        own = part.groups & self.spec.owners[source.operator].get(self.site, GroupSet())
        rows = open_run(self.spec.storage, run, part.groups)
        return RunView(rows, None if own == run.groups else own.mask(self.spec.groups))

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
