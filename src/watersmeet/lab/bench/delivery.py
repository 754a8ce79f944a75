"""Where results go, for our operators and for Spark's own joins alike, and how many came there.

noop      dropped; counted by whoever made them
rows      a function takes each epoch's rows and gives them to Spark's noop sink; counted on the way
gauged    the same, and the checkpoint and the driver are weighed before each epoch
parquet   files; counted in them
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.api.writer import StreamWriter

Progress = Mapping[str, Any]
Writer = TypeVar("Writer", StreamWriter, DataStreamWriter)
CHECKPOINT = "checkpoint"
"""A run's checkpoint in its folder."""


class Noop:
    """Results are dropped; every delivery is one, with a sink of its own."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self.gauges: dict[str, list[int]] = defaultdict(list)

    def on(self, writer: Writer) -> Writer:
        """Have a query write here."""
        return writer.format("noop")

    def results(self, reports: Sequence[Progress], told: Callable[[Progress], int]) -> tuple[int, ...]:
        """How many results came, by step where that is known; ``told`` is what a report itself says."""
        return tuple(map(told, reports))


class Rows(Noop):
    """Results are rows of Spark's, handed to a function."""

    def __init__(self, work: Path) -> None:
        super().__init__(work)
        self._delivered: dict[int, int] = {}

    def on(self, writer: Writer) -> Writer:
        """Have a query call the function."""
        return writer.foreachBatch(self.deliver)

    def deliver(self, rows: DataFrame, step: int) -> None:
        """Take the rows of an epoch or of a step of cleanup; again where they are repeated."""
        seen = Observation()
        rows.observe(seen, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("append").save()
        self._delivered[step] = seen.get["rows"]

    def results(self, reports: Sequence[Progress], told: Callable[[Progress], int]) -> tuple[int, ...]:  # noqa: ARG002
        """What the function was given."""
        return tuple(self._delivered.values())


class Gauged(Rows):
    """Weighs what must not grow, as the epoch before has left it."""

    def deliver(self, rows: DataFrame, step: int) -> None:
        """Weigh, then take the rows."""
        state = self._work / CHECKPOINT / "state"
        self.gauges["files"].append(sum(path.is_file() for path in state.rglob("*")))
        self.gauges["state_bytes"].append(sum(path.stat().st_size for path in state.rglob("*.arrow")))
        self.gauges["manifest_bytes"].append(sum(path.stat().st_size for path in (state / "manifest").iterdir()))
        self.gauges["driver_bytes"].append(psutil.Process().memory_info().rss)
        super().deliver(rows, step)


class Parquet(Noop):
    """Results are files."""

    def on(self, writer: Writer) -> Writer:
        """Have a query write files."""
        return writer.format("parquet").option("path", str(self._work / "out"))

    def results(self, reports: Sequence[Progress], told: Callable[[Progress], int]) -> tuple[int, ...]:  # noqa: ARG002
        """What the files have."""
        return (sum(pq.read_metadata(file).num_rows for file in (self._work / "out").glob("*.parquet")),)


DELIVERIES: dict[str, Callable[[Path], Noop]] = {"noop": Noop, "rows": Rows, "gauged": Gauged, "parquet": Parquet}
