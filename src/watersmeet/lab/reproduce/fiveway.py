"""The query of the paper on spilling (Spill 6.1, Figure 15): five streams, three operators, two machines.

    Join1: A.a1 = B.b1 = C.c1        Join2: C.c2 = D.d1        Join3: D.d2 = E.e1

The paper has 50 minutes with a tuple every 50 ms, 60,000 of each stream, in 300 partitions whose ratios differ around
an average; it does not say how. Here a partition's ratio is the average times one of `FACTORS`, dealt out for every
operator by itself. Half the tuples arrive, in 30 epochs.

With a ``fan_out`` of t, all partitions are equal but for every second one of Join1: its values come t times as often,
which makes t * t times the results there, of which all but one in t * t match nothing at Join2. So partitions differ in
how many intermediate results they need for a final one: what the paper's penalty is made for (Spill, Figure 10).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from watersmeet.api.flow import Flow
from watersmeet.api.relation import Relation
from watersmeet.lab.generator import Int64s, five_way
from watersmeet.lab.grouping import engine_group
from watersmeet.lab.reproduce.setting import Size, Streams

SEED = 16
FULL = Size(epochs=30, rows=1_000, tuple_range=30_000)
QUICK, QUICK_BUDGET = Size(epochs=3, rows=200, tuple_range=600, groups=30), 30_000
FACTORS = (0.25, 0.5, 1.0, 2.0, 3.0)
NOWHERE = 1 << 40
"""Added to a value, it matches nothing."""
COLUMNS = ("A.a2 AS a", "B.b2 AS b", "C.payload AS c", "D.payload AS d", "E.e2 AS e")


@dataclass(frozen=True)
class FiveWay:
    """The five-way query with some average join ratios."""

    ratios: tuple[float, float, float]
    budget: int
    fan_out: float | None = None
    sites: int = 2
    minutes: float = 50
    weights: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The ratios, as the paper names its runs."""
        ratios = f"join ratios {','.join(f'{ratio:g}' for ratio in self.ratios)}"
        return f"{ratios}, fan-out {self.fan_out:g}" if self.fan_out else ratios

    def size(self, *, quick: bool) -> Size:
        """How much data to make."""
        return QUICK if quick else FULL

    def budget_bytes(self, *, quick: bool) -> int:
        """The threshold of each site."""
        return QUICK_BUDGET if quick else self.budget

    def streams(self, size: Size) -> Streams:
        """Make the data."""
        rng = np.random.default_rng(SEED)
        ratios = [self._ratios(number, size, rng) for number in range(3)]
        made = five_way(
            SEED,
            size.epochs,
            size.rows,
            size.tuple_range,
            ratios,
            partitions=size.groups,
            partition_of=engine_group,
        )
        if self.fan_out:
            fans_out = np.asarray(ratios[0]) > np.mean(ratios[0])
            made["C"] = [self._dropped(table, fans_out, rng) for table in made["C"]]
        return made

    def relation(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> Relation:
        """The tree of three operators."""
        flow = Flow(spark)
        a, b, c, d, e = (flow.stream(name, frames[name]) for name in "ABCDE")
        abc = flow.join(a, b, c, on="A.a1 = B.b1 AND B.b1 = C.c1")
        return abc.join(d, on="C.c2 = D.d1").join(e, on="D.d2 = E.e1").select(*COLUMNS)

    def _ratios(self, operator: int, size: Size, rng: np.random.Generator) -> Sequence[float]:
        factors: tuple[float, ...] = FACTORS
        if self.fan_out:
            factors = (1.0, self.fan_out) if operator == 0 else (1.0,)
        dealt = rng.permutation(np.resize(np.asarray(factors), size.groups))
        ratios: list[float] = (self.ratios[operator] * dealt / dealt.mean()).tolist()
        return ratios

    def _dropped(self, table: pa.Table, fans_out: NDArray[np.bool_], rng: np.random.Generator) -> pa.Table:
        """Send most rows of the partitions that fan out to values that nothing else has."""
        c1, c2 = (np.asarray(table.column(name).to_numpy(), dtype=np.int64) for name in ("c1", "c2"))
        lost = rng.random(len(c1)) < 1 - 1 / (self.fan_out or 1) ** 2
        kept: Int64s = np.where(fans_out[engine_group(c1, len(fans_out))] & lost, c2 + NOWHERE, c2)
        return table.set_column(table.column_names.index("c2"), "c2", pa.array(kept))
