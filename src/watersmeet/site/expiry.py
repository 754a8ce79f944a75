"""Where lives save work: rows that have ended are not kept, and runs that new rows do not meet are not read."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from watersmeet.operators.join.lives import Times, as_numbers
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


@dataclass(frozen=True)
class Reach:
    """For each input, from when to when the new rows of the *other* inputs live; None where some have no life."""

    spans: Mapping[int, tuple[int, int] | None]

    @classmethod
    def of(cls, operator: OperatorSpec, deltas: Mapping[int, SortedRows]) -> "Reach":
        """What the rows of a step reach."""
        own = {each.tag: _span(each, deltas[each.tag]) for each in operator.inputs if len(deltas.get(each.tag, ()))}
        spans = {}
        for source in operator.inputs:
            others = [span for tag, span in own.items() if tag != source.tag]
            known = [span for span in others if span is not None]
            is_known = known and len(known) == len(others)
            spans[source.tag] = (min(low for low, _ in known), max(high for _, high in known)) if is_known else None
        return cls(spans)

    def meets(self, source: InputSpec, run: RunFile) -> bool:
        """Whether any row of a run may live together with a new row."""
        span, life = self.spans[source.tag], source.life
        if span is None or life is None:
            return True
        begins, ends = run.bounds[life.begin], run.bounds.get(life.end or life.begin)
        length = 0 if life.end else life.window_us
        is_over = length is not None and ends is not None and int(ends.most or 0) + length <= span[0]
        return not is_over and int(begins.least or 0) < span[1]


def _span(source: InputSpec, delta: SortedRows) -> tuple[int, int] | None:
    if source.life is None:
        return None
    times = Times.of(delta.rows, source.life)
    return int(times.begin.min()), int(times.ends().max())
