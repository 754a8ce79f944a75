"""What a site task counts, by partition group: sizes of runs, results, and what they are traced back to."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from watersmeet.engine.spec import InputSpec, OperatorSpec
from watersmeet.model.ids import OperatorId, RunId
from watersmeet.model.plan import operator_of
from watersmeet.operators.trace import Output, groups_in
from watersmeet.state.groups import members
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows, bytes_by_group

ByGroup = dict[OperatorId, npt.NDArray[np.int64]]


@dataclass
class Tally:
    """Counts of one task.

    ``local`` are the operators' own results, ``traced`` the query's results by the groups of all operators they came
    through, ``inter_bytes`` the intermediate results that were stored, by the groups that caused them.
    """

    groups: int
    weighs: bool
    rows_in: dict[str, int] = field(default_factory=dict)
    rows_out: dict[OperatorId, int] = field(default_factory=dict)
    sizes: dict[RunId, tuple[int, ...]] = field(default_factory=dict)
    local: ByGroup = field(default_factory=dict)
    traced: ByGroup = field(default_factory=dict)
    inter_bytes: ByGroup = field(default_factory=dict)

    def kept(self, source: InputSpec, rows: SortedRows) -> None:
        """Rows became part of the state; those of operators below tell which groups caused them."""
        name = f"{source.operator}/{source.name}"
        self.rows_in[name] = self.rows_in.get(name, 0) + len(rows)
        width = rows.bytes / max(1, len(rows))
        for column in source.traces:
            counts = np.bincount(groups_in(rows.rows, column), minlength=self.groups)
            self._add(self.inter_bytes, column, (counts * width).astype(np.int64))

    def wrote(self, run: RunFile, rows: SortedRows) -> None:
        """A run was written; its sizes matter only to who has a budget."""
        if not self.weighs:
            return
        _, sizes = bytes_by_group(rows, self.groups)
        self.sizes[run.id] = tuple(sizes[sorted(members(run.groups))].tolist())

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

    def _add(self, totals: ByGroup, column: str, counts: npt.NDArray[np.int64]) -> None:
        if counts.any():
            _sum(totals, OperatorId(str(operator_of(column))), counts)


def _sum(totals: ByGroup, operator: OperatorId, counts: npt.NDArray[np.int64]) -> None:
    totals[operator] = totals[operator] + counts if operator in totals else counts.copy()


def added(
    parts: Iterable[dict[OperatorId, tuple[int, ...]]], groups: int, operator: OperatorId
) -> npt.NDArray[np.int64]:
    """One operator's counts, summed over tasks.

    >>> added([{OperatorId("join1"): (1, 2)}, {}], 2, OperatorId("join1")).tolist()
    [1, 2]
    """
    counts = [np.array(part[operator], dtype=np.int64) for part in parts if operator in part]
    return np.sum(counts, axis=0, dtype=np.int64) if counts else np.zeros(groups, dtype=np.int64)
