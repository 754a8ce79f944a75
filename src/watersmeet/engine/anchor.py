"""The anchor: a tiny cached DataFrame with one row per site, which holds every site's tasks where they are.

A site's rows and its row of the anchor are brought together in one partition, so a site has a task even if no row comes
to it, and the task knows its site by its first row. There are two ways, of the same form to the task:

- *Union*, where all tasks run in one executor anyway. Spark keeps the partitions of a union whose parts are partitioned
  alike, and puts the anchor's row first. Nothing is sorted or buffered.
- *Join*, where there are several executors. Spark prefers to run a task where the first of its inputs is cached, and
  the first input of a merge join is its *streamed* side: the left one of a left outer join. (A right outer join would
  stream the delta instead of buffering it, and would not stick; a union knows hosts, and no executors.) A site without
  rows gets a row of nulls beside its site.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

from watersmeet.engine.layout import HASH, RUN, SITE, TAG, slot_name
from watersmeet.engine.parcels import COLUMNS
from watersmeet.engine.session import has_one_executor
from watersmeet.engine.spec import LevelSpec
from watersmeet.engine.types import null


@dataclass
class Anchor:
    """The sites of a run; ``leads`` tells whether the anchor's row comes before a site's others, or beside them."""

    sites: DataFrame
    leads: bool
    _by_level: dict[int, DataFrame] = field(default_factory=dict)

    @classmethod
    def of(cls, spark: SparkSession, keys: Sequence[int]) -> "Anchor":
        """One row per site, in the site's own partition; cached where the first epoch's tasks happen to run."""
        numbers = spark.range(0, len(keys), 1, 1)
        sites = numbers.select(F.element_at(F.lit(list(keys)), (F.col("id") + 1).cast(IntegerType())).alias(SITE))
        return cls(sites.repartition(len(keys), SITE).persist(), has_one_executor(spark))

    def gather(self, delta: DataFrame | None, spec: LevelSpec) -> DataFrame:
        """Bring every row of a level's delta to its site; None is no rows at all."""
        if delta is None:
            return self._rows(spec)
        routed = delta.repartition(len(spec.sites), SITE)
        return self._rows(spec).union(routed) if self.leads else self.sites.hint("merge").join(routed, SITE, "left")

    def release(self) -> None:
        """Let Spark forget it."""
        self.sites.unpersist()

    def _rows(self, spec: LevelSpec) -> DataFrame:
        """The anchor in the form of a level's delta, made once: Spark plans what it is told, every time it is told."""
        if spec.level not in self._by_level:
            types = [(name, kind) for name, kind in delta_columns(spec) if name != SITE]
            self._by_level[spec.level] = self.sites.select(SITE, *(null(kind, name) for name, kind in types))
        return self._by_level[spec.level]


def delta_columns(spec: LevelSpec) -> list[tuple[str, pa.DataType]]:
    """The columns of a level's delta, in order: rows of level 0 come from streams, and none of them is a pointer."""
    if spec.packed:
        return [(column.name, column.type) for column in COLUMNS]
    head = [(SITE, pa.int32()), (TAG, pa.int32()), (HASH, pa.int64()), *([(RUN, pa.string())] if spec.level else [])]
    return [*head, *((slot_name(slot), kind) for slot, kind in enumerate(spec.incoming.slots))]
