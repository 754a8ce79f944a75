"""Rows are accepted or not: those that break a promise of their stream are rejected, and the times of all others noted.

Whether a row is admitted is decided before anything else, filters included, so all rows of a stream with event times
come to a site. A promise counts from the end of the epoch that made it: rows of one epoch never reject each other,
whichever comes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.ids import InputName
from watersmeet.operators.join.lives import as_numbers
from watersmeet.operators.promises.ranges import LEAST, NEVER, is_countable
from watersmeet.operators.promises.sets import rows_since
from watersmeet.operators.promises.stores import Store
from watersmeet.operators.ranges import Index
from watersmeet.site.effects import Rejected
from watersmeet.site.layout import ROW, Layout, slot_name
from watersmeet.site.messages import HASH, TAG, Kind, kinds_of
from watersmeet.site.promises import PromiseReader, PromiseWriter, patterns_of, ranges_of

Mask = npt.NDArray[np.bool_]

LATE, NO_TIME, PUNCTUATED = "late", "null time", "punctuated"


@dataclass(frozen=True)
class AdmissionRule:
    """What is asked of the rows of a stream: a time that is not before its watermark, and to match no punctuation.

    Of a stream that has ended, no row is accepted, and that is the ``ended`` reason. ``until`` is the time before which
    punctuations promise no row; others are in the ``stores``. Rows that are accepted are promises themselves where the
    stream has a store of ``unique`` ones.
    """

    stream: str
    time: str | None = None
    watermark: int | None = None
    ended: str | None = None
    until: int | None = None
    stores: tuple[InputName, ...] = ()
    unique: Store | None = None


class Keep(Protocol):
    """Keeps rejected rows."""

    def add(self, stream: str, reason: str, rows: pa.Array) -> None:
        """Store rows (as JSON) rejected for one reason."""


@dataclass
class Admission:
    """Accepts the rows of streams, and counts those it rejects; ``keep`` takes these, if anybody wants them."""

    rules: Mapping[int, AdmissionRule]
    incoming: Layout
    reader: PromiseReader
    writer: PromiseWriter
    keep: Keep | None = None
    latest: dict[str, int] = field(default_factory=dict)
    _rejected: dict[tuple[str, str], int] = field(default_factory=dict)

    def accepted(self, tag: int, messages: pa.RecordBatch, mine: Index) -> Index:
        """Which of some messages for an input are accepted, by number."""
        rule = self.rules.get(tag)
        if rule is None:
            return mine
        if rule.ended is not None:
            self._reject(tag, rule, rule.ended, messages, mine)
            return mine[:0]
        accepted = self._on_time(tag, rule, messages, mine) if rule.time is not None else mine
        if rule.stores and len(accepted):
            is_promised = self._are_promised(tag, rule, messages, accepted)
            self._reject(tag, rule, PUNCTUATED, messages, accepted[is_promised])
            accepted = accepted[~is_promised]
        if len(accepted):
            self._note(tag, rule, messages, accepted)
        return accepted

    def _on_time(self, tag: int, rule: AdmissionRule, messages: pa.RecordBatch, mine: Index) -> Index:
        times = messages.column(self._slot(tag, str(rule.time))).take(pa.array(mine))
        has_time = times.is_valid().to_numpy(zero_copy_only=False)
        moments = as_numbers(times.fill_null(0))
        late, until = (LEAST if limit is None else limit for limit in (rule.watermark, rule.until))
        is_late, is_promised = has_time & (moments < late), has_time & (moments >= late) & (moments < until)
        for reason, rejected in ((NO_TIME, ~has_time), (LATE, is_late), (PUNCTUATED, is_promised)):
            self._reject(tag, rule, reason, messages, mine[rejected])
        on_time: Index = mine[has_time & ~is_late & ~is_promised]
        return on_time

    def _are_promised(self, tag: int, rule: AdmissionRule, messages: pa.RecordBatch, mine: Index) -> Mask:
        index = pa.array(mine)
        names = {column.name for name in rule.stores for column in self.reader.stores[name][0].columns}
        values = {name: messages.column(self._slot(tag, name)).take(index) for name in sorted(names)}
        words = {
            name: messages.column(self._slot(tag, f"{name}#word")).take(index)
            for name, column in values.items()
            if not is_countable(column.type)
        }
        ranges, patterns = ranges_of(self.reader, rule.stores), patterns_of(self.reader, rule.stores)
        return rows_since(ranges, patterns, values, words) < NEVER

    def _note(self, tag: int, rule: AdmissionRule, messages: pa.RecordBatch, accepted: Index) -> None:
        """Note the latest time of accepted rows, and that none like them comes any more."""
        index = pa.array(accepted)
        if rule.time is not None:
            latest = int(as_numbers(messages.column(self._slot(tag, rule.time)).take(index)).max())
            self.latest[rule.stream] = max(latest, self.latest.get(rule.stream, latest))
        if rule.unique is not None:
            columns = [messages.column(self._slot(tag, column.name)).take(index) for column in rule.unique.columns]
            words = {
                column: messages.column(self._slot(tag, f"{column.name}#word")).take(index)
                for column, kind in zip(rule.unique.columns, rule.unique.types, strict=True)
                if not is_countable(kind)
            }
            is_joined = pa.array(kinds_of(messages.column(TAG).to_numpy()[accepted]) == Kind.ROW)
            keys = pc.if_else(is_joined, messages.column(HASH).take(index), pa.scalar(None, pa.int64()))
            self.writer.take_unique(rule.unique, columns, words, keys)

    @property
    def untold(self) -> "Admission":
        """The same for rows of which another site tells: nothing is noted."""
        rules = {tag: replace(rule, unique=None) for tag, rule in self.rules.items()}
        return Admission(rules, self.incoming, self.reader, self.writer)

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
