"""The door of the query: rows that break a promise of their stream are rejected, and the times of all others noted.

Whether a row is admitted is decided before anything else, filters included, so all rows of a stream with event times
come to a site. A promise counts from the end of the epoch that made it: rows of one epoch never reject each other,
whichever comes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.operators.join.lives import as_numbers
from watersmeet.operators.ranges import Index
from watersmeet.site.effects import Rejected
from watersmeet.site.layout import Layout, slot_name

LATE, NO_TIME = "late", "null time"


@dataclass(frozen=True)
class Admission:
    """What is asked of the rows of a stream: a time, and none before the stream's watermark.

    Of a stream without times, no row is let in: it has ended.
    """

    stream: str
    time: str | None
    watermark: int | None = None


@dataclass(frozen=True)
class RejectedRow:
    """A row that was not let in."""

    stream: str
    reason: str
    values: dict[str, object]


@dataclass
class Door:
    """Lets rows in, and counts those it does not; if it ``keeps_rows``, they are in ``rows``."""

    admissions: Mapping[int, Admission]
    incoming: Layout
    keeps_rows: bool = False
    rows: list[RejectedRow] = field(default_factory=list)
    latest: dict[str, int] = field(default_factory=dict)
    _rejected: dict[tuple[str, str], int] = field(default_factory=dict)

    def admitted(self, tag: int, messages: pa.RecordBatch, mine: Index) -> Index:
        """Which of some messages for an input are let in, by number."""
        admission = self.admissions.get(tag)
        if admission is None:
            return mine
        if admission.time is None:
            self._reject(admission.stream, LATE, len(mine))
            return mine[:0]
        times = messages.column(self._slot(tag, admission.time)).take(pa.array(mine))
        has_time = times.is_valid().to_numpy(zero_copy_only=False)
        moments = as_numbers(times.fill_null(0))
        early = has_time & (moments < admission.watermark) if admission.watermark is not None else ~has_time & False
        for reason, refused in ((NO_TIME, ~has_time), (LATE, early)):
            self._reject(admission.stream, reason, int(np.count_nonzero(refused)))
            if self.keeps_rows and refused.any():
                self._keep(tag, admission.stream, reason, messages.take(pa.array(mine[refused])))
        let_in = has_time & ~early
        if let_in.any():
            latest = int(moments[let_in].max())
            self.latest[admission.stream] = max(latest, self.latest.get(admission.stream, latest))
        admitted: Index = mine[let_in]
        return admitted

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """How many rows were rejected, and why."""
        return tuple(Rejected(stream, reason, rows) for (stream, reason), rows in sorted(self._rejected.items()))

    def _reject(self, stream: str, reason: str, rows: int) -> None:
        if rows:
            self._rejected[stream, reason] = self._rejected.get((stream, reason), 0) + rows

    def _keep(self, tag: int, stream: str, reason: str, messages: pa.RecordBatch) -> None:
        own = [(column, slot) for column, slot in self.incoming.columns[tag] if not column.field.startswith("#")]
        columns = {column.field: messages.column(slot_name(slot)).to_pylist() for column, slot in own}
        rows = zip(*columns.values(), strict=True)
        self.rows += [RejectedRow(stream, reason, dict(zip(columns, row, strict=True))) for row in rows]

    def _slot(self, tag: int, name: str) -> str:
        return next(slot_name(slot) for column, slot in self.incoming.columns[tag] if column.name == name)
