"""A join in which every tuple costs the same, as in Flux: a function is asked of each, and that is most of the work.

All values of B come in the first epoch, one row each. So a row of A has one result whenever it comes, and state does
not make later epochs dearer. The first half of the groups, which one of two sites has at first, gets `times` as many
rows of A as the other; groups of a half get equally many.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.api.flow import Flow
from watersmeet.api.predicate import predicate
from watersmeet.api.relation import Relation
from watersmeet.lab.comparing import compared
from watersmeet.lab.grouping import engine_group
from watersmeet.lab.reproduce.setting import Size, Streams

SEED, ROUNDS = 3, 1_500
"""``ROUNDS`` is how much the function does."""
QUICK, QUICK_BUDGET = Size(epochs=4, rows=600, tuple_range=600, groups=30), 10_000


@dataclass(frozen=True)
class Costly:
    """The join on two sites."""

    times: float
    full: Size
    sites: int = 2
    minutes: float = 1
    weights: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """How unevenly rows are spread."""
        return f"{self.times:g} times the rows for one of two sites"

    def size(self, *, quick: bool) -> Size:
        """How much data to make."""
        return QUICK if quick else self.full

    def budget_bytes(self, *, quick: bool) -> int:
        """There is none; what warms up has one."""
        return QUICK_BUDGET if quick else 1 << 40

    def streams(self, size: Size) -> Streams:
        """Make the data."""
        rng = np.random.default_rng(SEED)
        keys = np.arange(size.tuple_range)
        groups = engine_group(keys, size.groups)
        weights = np.where(np.arange(size.groups) < size.groups // 2, self.times, 1.0)
        rows = (size.rows * weights / weights.sum()).astype(np.int64)
        drawn = [
            np.concatenate([rng.choice(keys[groups == group], count) for group, count in enumerate(rows)])
            for _ in range(size.epochs)
        ]
        numbered = np.arange(size.epochs * rows.sum()).reshape(size.epochs, -1)
        a = [pa.table({"k": chosen, "n": number}) for chosen, number in zip(drawn, numbered, strict=True)]
        b = pa.table({"k": keys, "n": keys})
        return {"A": a, "B": [b, *[b.slice(0, 0)] * (size.epochs - 1)]}

    def relation(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> Relation:
        """One operator."""
        flow = Flow(spark)
        a, b = (flow.stream(name, frames[name]) for name in "AB")
        return flow.join(a, b, on=["A.k = B.k", predicate(alike, "A.n", "B.n")]).select("A.n AS a", "B.n AS b")


def alike(ours: pa.Array, theirs: pa.Array) -> pa.Array:
    """Compare values at some cost; all are alike."""
    return compared(ours, theirs, ROUNDS)
