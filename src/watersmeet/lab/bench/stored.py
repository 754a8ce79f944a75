"""What a Spark user can do today for a join of two streams that Spark refuses: `foreachBatch` and stored tables.

Each epoch's rows of both streams are written to tables, a folder an epoch, so that one that is repeated replaces
itself. Then the new rows of the first stream are joined with all of the second, and the older ones of the first with
the new ones of the second, as one batch query. Of older rows only those are read that new ones can still reach.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from watersmeet.lab.bench.pipeline import EventTime, Pipeline

STREAM, EPOCH = "stream", "epoch"


@dataclass(frozen=True)
class StoredTables:
    """The tables of two streams in a folder, and the join of them that a pipeline is."""

    pipeline: Pipeline
    time: EventTime
    folder: Path

    def together(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Both streams as one, with a column that tells them apart, as a query has one `foreachBatch`."""
        named = [frames[name].withColumn(STREAM, F.lit(name)) for name in self.pipeline.streams]
        return reduce(DataFrame.unionByName, named)

    def joined(self, rows: DataFrame, epoch: int) -> DataFrame:
        """Store an epoch's rows, and give the results that have one of them."""
        tables = [self._stored(rows, name, epoch) for name in self.pipeline.streams]
        first_new, second_new = (table.where(F.col(EPOCH) == epoch).drop(EPOCH) for table in tables)
        reached = self._reached(first_new.unionByName(second_new))
        first_old, second_old = (table.where((F.col(EPOCH) < epoch) & reached).drop(EPOCH) for table in tables)
        parts = [(first_new, second_new.unionByName(second_old)), (first_old, second_new)]
        return reduce(DataFrame.unionByName, (self._results(*part) for part in parts))

    def _stored(self, rows: DataFrame, name: str, epoch: int) -> DataFrame:
        """Append the new rows of a stream to its table."""
        table = self.folder / name
        rows.where(F.col(STREAM) == name).drop(STREAM).write.mode("overwrite").parquet(f"{table}/{EPOCH}={epoch}")
        return rows.sparkSession.read.schema(rows.drop(STREAM).withColumn(EPOCH, F.lit(0)).schema).parquet(str(table))

    def _reached(self, new: DataFrame) -> Column:
        """Which older rows new ones can be joined with: the earliest of the new ones is not far from them."""
        since = F.expr(f"min({self.time.column}) - INTERVAL {self.time.reach}")
        [[earliest]] = new.agg(since).collect()
        return F.col(self.time.column) >= F.lit(earliest)

    def _results(self, first: DataFrame, second: DataFrame) -> DataFrame:
        return self.pipeline.chain(dict(zip(self.pipeline.streams, (first, second), strict=True)))
