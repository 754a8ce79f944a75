"""What was decided of rows that come out alone stays decided."""

import numpy as np
import pyarrow as pa

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.operators.spec import InputSpec, LifeSpec
from watersmeet.site.deciding import Decision
from watersmeet.state.groups import GroupSet
from watersmeet.state.rows import SortedRows
from watersmeet.state.vectors import Vector

SOURCE = InputSpec(0, OperatorId("C"), InputName("C"), 0, pa.schema([("ts", pa.int64())]), (), life=LifeSpec("ts"))


def test_a_limit_that_went_back_decides_rows_that_arrive_as_before():
    """An operator below has spilled: what it misses begins no earlier than the limit was, so a row need not wait."""
    rows = SortedRows(np.zeros(2, np.uint64), pa.record_batch({"ts": [80, 110]}))
    decision = Decision(limit=50, decided=Vector.of([100]), closed=GroupSet())
    assert decision.at_once(SOURCE, rows, 1, None).rows["ts"].to_pylist() == [80]
