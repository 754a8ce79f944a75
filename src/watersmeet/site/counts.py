"""What a site task counts, by partition group: results, and what they are traced back to."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import operator_of
from watersmeet.operators.join.trace import Output, counts_in
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.state.rows import SortedRows
from watersmeet.state.vectors import Vector

ByGroup = dict[OperatorId, npt.NDArray[np.int64]]


@dataclass
class Counts:
    """Counts of one task.

    ``local`` are the operators' own results, ``traced`` the query's results by the groups of all operators they came
    through, ``inter_bytes`` the intermediate results that were stored, by the groups that caused them.
    """

    groups: int
    rows_in: dict[str, int] = field(default_factory=dict)
    rows_out: dict[OperatorId, int] = field(default_factory=dict)
    local: ByGroup = field(default_factory=dict)
    traced: ByGroup = field(default_factory=dict)
    inter_bytes: ByGroup = field(default_factory=dict)

    def kept(self, source: InputSpec, rows: SortedRows) -> None:
        """Rows became part of the state; those of operators below tell which groups caused them."""
        name = f"{source.operator}/{source.name}"
        self.rows_in[name] = self.rows_in.get(name, 0) + len(rows)
        width = rows.bytes / max(1, len(rows))
        for column in source.traces:
            counts = counts_in(rows.rows, column, self.groups)
            self._add(self.inter_bytes, column, (counts * width).astype(np.int64))

    def produced(self, operator: OperatorSpec, output: Output) -> None:
        """An operator has given results."""
        count = int(output.by_group.sum())
        self.rows_out[operator.id] = self.rows_out.get(operator.id, 0) + count
        if count:
            _sum(self.local, operator.id, output.by_group)
            if operator.output_tag is None:
                _sum(self.traced, operator.id, output.by_group)
        for column, counts in output.traced.items():
            self._add(self.traced, column, counts)

    def cleaned(self, operator: OperatorSpec, output: Output) -> int:
        """An operator has given missing results; they tell nothing of what it yields at run time."""
        count = int(output.by_group.sum())
        self.rows_out[operator.id] = self.rows_out.get(operator.id, 0) + count
        return count

    def _add(self, totals: ByGroup, column: str, counts: npt.NDArray[np.int64]) -> None:
        if counts.any():
            _sum(totals, OperatorId(str(operator_of(column))), counts)


def _sum(totals: ByGroup, operator: OperatorId, counts: npt.NDArray[np.int64]) -> None:
    totals[operator] = totals[operator] + counts if operator in totals else counts.copy()


def packed(counts: ByGroup) -> dict[OperatorId, Vector]:
    """Counts for a file."""
    return {operator: Vector.of(by_group) for operator, by_group in counts.items()}


def added(parts: Iterable[dict[OperatorId, Vector]], groups: int, operator: OperatorId) -> npt.NDArray[np.int64]:
    """One operator's counts, summed over tasks.

    >>> added([{OperatorId("join1"): Vector.of([1, 2])}, {}], 2, OperatorId("join1")).tolist()
    [1, 2]
    """
    total = np.zeros(groups, dtype=np.int64)
    for part in parts:
        if operator in part:
            total += part[operator].array
    return total
