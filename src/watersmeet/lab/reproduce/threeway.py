"""The query of the paper on lazy and active adaptation (Lazy/Active 3.4, 4.4): A.a1 = B.b1 = C.c1 on one machine.

The paper has 50 minutes with a tuple every 30 ms, 100,000 of each stream, and a tuple range of 30K, so that every value
comes round 3.3 times. Here all numbers of tuples are a fifth of that.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from watersmeet.api.flow import Flow
from watersmeet.api.relation import Relation
from watersmeet.lab.generator import three_way
from watersmeet.lab.grouping import engine_group
from watersmeet.lab.reproduce.setting import Size, Streams

SEED = 9
FULL = Size(epochs=40, rows=500, tuple_range=6_000)
QUICK, QUICK_BUDGET = Size(epochs=4, rows=120, tuple_range=150, groups=30), 10_000
COLUMNS = ("A.a2 AS a", "B.b2 AS b", "C.c2 AS c")


@dataclass(frozen=True)
class ThreeWay:
    """The three-way query; ``ratios`` go round over the partitions."""

    ratios: tuple[float, ...]
    budget: int
    sites: int = 1
    minutes: float = 50
    weights: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The ratios, as the paper names its runs."""
        return f"three-way, join ratios {'/'.join(f'{ratio:g}' for ratio in self.ratios)}"

    def size(self, *, quick: bool) -> Size:
        """How much data to make."""
        return QUICK if quick else FULL

    def budget_bytes(self, *, quick: bool) -> int:
        """The threshold of the site."""
        return QUICK_BUDGET if quick else self.budget

    def streams(self, size: Size) -> Streams:
        """Make the data."""
        return three_way(
            SEED,
            size.epochs,
            size.rows,
            size.tuple_range,
            self.ratios,
            partitions=size.groups,
            partition_of=engine_group,
        )

    def relation(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> Relation:
        """One operator."""
        flow = Flow(spark)
        streams = [flow.stream(name, frames[name]) for name in "ABC"]
        return flow.join(*streams, on="A.a1 = B.b1 AND B.b1 = C.c1").select(*COLUMNS)
