"""Where promises save work: rows that nothing can come for are not kept, and runs that nothing new meets not read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from watersmeet.operators.join.lives import FOREVER, Times, as_numbers
from watersmeet.operators.promises.ranges import LONG_AGO, NEVER, Numbers
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.site.partners import Partners
from watersmeet.site.promise_spec import OtherInput, PurgeRule
from watersmeet.site.promises import PromiseReader
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows, take_rows

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class End:
    """Which rows of an input have come to their end, by a ``limit`` of time or by the keys that others have promised.

    Those of groups that were ``spilled`` all stay, until these are cleaned. What is stored of the other input of an
    outer join are its ``partners``.
    """

    source: InputSpec
    groups: int
    limit: int | None
    spilled: GroupSet
    purge: PurgeRule | None = None
    reader: PromiseReader | None = None
    partners: Partners | None = None

    def still_needed(self, rows: SortedRows, *, arriving: bool = False) -> SortedRows:
        """The rows that have not come to their end; of those that are ``arriving``, what is decided at once goes."""
        gone = self._have_ended(rows) | self._are_promised(rows, arriving=arriving)
        if self.partners is not None and not arriving:
            gone |= self.partners.have_matches_of(rows)
        if not gone.any():
            return rows
        if self.spilled:
            gone &= ~self.spilled.mask(self.groups)[group_of(rows.hashes, self.groups)]
        kept = np.flatnonzero(~gone)
        return SortedRows(rows.hashes[kept], take_rows(rows.rows, kept))

    def count_promised(self, rows: SortedRows) -> int:
        """How many of some stored rows can go by promised keys; those that have ended by their times do not count."""
        return int((self._are_promised(rows, arriving=False) & ~self._have_ended(rows)).sum())

    def _have_ended(self, rows: SortedRows) -> Mask:
        if self.limit is None or self.source.life is None:
            return np.zeros(len(rows), dtype=np.bool_)
        ended: Mask = as_numbers(rows.rows.column(self.source.life.last)) <= self.limit
        return ended

    def _are_promised(self, rows: SortedRows, *, arriving: bool) -> Mask:
        rule, reader = self.purge, self.reader
        if rule is None or reader is None or (arriving and rule.spares_arriving):
            return np.zeros(len(rows), dtype=np.bool_)
        since = reduce(np.maximum, (self._since(each, rows, reader) for each in rule.others))
        gone: Mask = since < NEVER
        own = group_of(rows.hashes, self.groups)
        if rule.decided is not None and not arriving:
            gone &= since <= rule.decided.array[own]
        if rule.asked is not None:
            gone &= ~self._are_waited_for(rule, rows, gone, own, reader)
        return gone

    def _are_waited_for(
        self, rule: PurgeRule, rows: SortedRows, gone: Mask, own: npt.NDArray[np.int64], reader: PromiseReader
    ) -> Mask:
        """Which rows, of those that are ``gone`` else, may be the match of one that is stored and not decided yet."""
        waiting = gone.copy()
        if rule.own is not None and rule.asked is not None:
            answered = reader.keys(rule.own).since(rows, self.source.key_columns, self.source.last)
            waiting &= answered > rule.asked.array[own]
        if self.partners is not None and waiting.any():
            some = np.flatnonzero(waiting)
            waiting[some] = self.partners.may_have_keys_of(SortedRows(rows.hashes[some], rows.rows))
        return waiting

    def _since(self, other: OtherInput, rows: SortedRows, reader: PromiseReader) -> Numbers:
        found = np.full(len(rows), NEVER)
        if other.keys is not None:
            found = reader.keys(other.keys).since(rows, self.source.key_columns, self.source.last)
        if other.limit is not None and self.source.life is not None:
            found = np.where(as_numbers(rows.rows.column(self.source.life.last)) <= other.limit, LONG_AGO, found)
        return found


Span = tuple[int, int]


@dataclass(frozen=True)
class NewRowTimes:
    """What the new rows of a step can be joined with, by their times.

    ``spans`` tell for each input from when to when the new rows of the *other* inputs live; None where some have no
    life. ``begins`` are, for an input and each other one that has new rows and that a condition bounds on both sides
    or one, how early and how late rows may begin to be joined with these; None where another has new rows without.
    """

    spans: Mapping[int, Span | None]
    begins: Mapping[int, Sequence[Span] | None]

    @classmethod
    def of(cls, operator: OperatorSpec, deltas: Mapping[int, SortedRows]) -> "NewRowTimes":
        """What the rows of a step reach."""
        own = {each.tag: _span(each, deltas[each.tag]) for each in operator.inputs if len(deltas.get(each.tag, ()))}
        spans = {}
        for source in operator.inputs:
            others = [span for tag, span in own.items() if tag != source.tag]
            known = [span for span in others if span is not None]
            is_known = known and len(known) == len(others)
            spans[source.tag] = (min(low for low, _ in known), max(high for _, high in known)) if is_known else None
        return cls(spans, _begins(operator, deltas))

    def meets(self, source: InputSpec, run: RunFile) -> bool:
        """Whether any row of a run may be joined with a new row."""
        span, life = self.spans[source.tag], source.life
        if span is None or life is None:
            return True
        begins, ends = run.bounds[life.begin], run.bounds.get(life.end or life.begin)
        near, least, most = self.begins[source.tag], int(begins.least or 0), int(begins.most or 0)
        if near is not None and not any(low <= most and least <= high for low, high in near):
            return False
        length = 0 if life.end else life.window_us
        is_over = length is not None and ends is not None and int(ends.most or 0) + length <= span[0]
        return not is_over and int(begins.least or 0) < span[1]


def _begins(operator: OperatorSpec, deltas: Mapping[int, SortedRows]) -> dict[int, Sequence[Span] | None]:
    later = {(first, second): length for first, second, length in operator.bounds}
    found: dict[int, Sequence[Span] | None] = {}
    for place, source in enumerate(operator.inputs):
        near: list[Span] | None = []
        for number, other in enumerate(operator.inputs):
            if number == place or not len(deltas.get(other.tag, ())):
                continue
            after, before = later.get((place, number)), later.get((number, place))
            if near is None or other.life is None or (after is None and before is None):
                near = None
                continue
            times = as_numbers(deltas[other.tag].rows.column(other.life.begin))
            low = -FOREVER if after is None else int(times.min()) - after
            near.append((low, FOREVER if before is None else int(times.max()) + before))
        found[source.tag] = near
    return found


def _span(source: InputSpec, delta: SortedRows) -> tuple[int, int] | None:
    if source.life is None:
        return None
    times = Times.of(delta.rows, source.life)
    return int(times.begin.min()), int(times.ends().max())
