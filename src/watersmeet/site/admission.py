"""Rows are accepted or not: those that break a promise of their stream are rejected, and the times of all others noted.

Whether a row is admitted is decided before anything else, filters included, so all rows of a stream with event times
come to a site. A promise counts from the end of the epoch that made it: rows of one epoch never reject each other,
whichever comes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.operators.join.lives import as_numbers
from watersmeet.operators.ranges import Index
from watersmeet.site.effects import Rejected
from watersmeet.site.layout import ROW, Layout, slot_name

LATE, NO_TIME = "late", "null time"


@dataclass(frozen=True)
class AdmissionRule:
    """What is asked of the rows of a stream: a time, and none before the stream's watermark.

    Of a stream without times, no row is accepted: it has ended.
    """

    stream: str
    time: str | None
    watermark: int | None = None


class Keep(Protocol):
    """Keeps rejected rows."""

    def add(self, stream: str, reason: str, rows: pa.Array) -> None:
        """Take some rows, as JSON, that were rejected for one reason."""


@dataclass
class Admission:
    """Accepts the rows of streams, and counts those it rejects; ``keep`` takes these, if anybody wants them."""

    rules: Mapping[int, AdmissionRule]
    incoming: Layout
    keep: Keep | None = None
    latest: dict[str, int] = field(default_factory=dict)
    _rejected: dict[tuple[str, str], int] = field(default_factory=dict)

    def accepted(self, tag: int, messages: pa.RecordBatch, mine: Index) -> Index:
        """Which of some messages for an input are accepted, by number."""
        rule = self.rules.get(tag)
        if rule is None:
            return mine
        if rule.time is None:
            self._reject(tag, rule, LATE, messages, mine)
            return mine[:0]
        times = messages.column(self._slot(tag, rule.time)).take(pa.array(mine))
        has_time = times.is_valid().to_numpy(zero_copy_only=False)
        moments = as_numbers(times.fill_null(0))
        is_late = has_time & (moments < rule.watermark) if rule.watermark is not None else np.zeros_like(has_time)
        self._reject(tag, rule, NO_TIME, messages, mine[~has_time])
        self._reject(tag, rule, LATE, messages, mine[is_late])
        is_accepted = has_time & ~is_late
        if is_accepted.any():
            latest = int(moments[is_accepted].max())
            self.latest[rule.stream] = max(latest, self.latest.get(rule.stream, latest))
        accepted: Index = mine[is_accepted]
        return accepted

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """How many rows were rejected, and why."""
        return tuple(Rejected(stream, reason, rows) for (stream, reason), rows in sorted(self._rejected.items()))

    def _reject(self, tag: int, rule: AdmissionRule, reason: str, messages: pa.RecordBatch, rejected: Index) -> None:
        if len(rejected):
            known = self._rejected.get((rule.stream, reason), 0)
            self._rejected[rule.stream, reason] = known + len(rejected)
            if self.keep is not None:
                rows = messages.column(self._slot(tag, f"{rule.stream}.{ROW}")).take(pa.array(rejected))
                self.keep.add(rule.stream, reason, rows)

    def _slot(self, tag: int, name: str) -> str:
        return next(slot_name(slot) for column, slot in self.incoming.columns[tag] if column.name == name)
