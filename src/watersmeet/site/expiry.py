"""Where lives save work: rows that have ended are not kept, and runs that new rows do not meet are not read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.operators.join.lives import FOREVER, Times, as_numbers
from watersmeet.operators.spec import InputSpec, LifeSpec, OperatorSpec
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows, take_rows


def still_needed(rows: SortedRows, life: LifeSpec, limit: int, spilled: GroupSet, groups: int) -> SortedRows:
    """The rows that have not come to their end; those of groups that were spilled all stay, until these are cleaned."""
    needed = as_numbers(rows.rows.column(life.last)) > limit
    if needed.all():
        return rows
    if spilled:
        needed |= spilled.mask(groups)[group_of(rows.hashes, groups)]
    kept = np.flatnonzero(needed)
    return SortedRows(rows.hashes[kept], take_rows(rows.rows, kept))


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
