"""Where results go, an epoch at a time.

A sink is given an epoch's rows together with the epoch's id, possibly more than once with the same id: after a crash
the epoch is replayed with the same result. What each sink makes of that:

- **files** (parquet, orc, json, csv, text, avro): the names of an epoch's files start with ``epoch-<id>``; a replay
  replaces those that are there. Readers of the folder see every result once. Plain columns go to parquet files, or to
  ``noop``, straight from the site tasks (`direct`).
- **a function**: gets the same id again, and can skip or replace.
- **memory**: a replay replaces the epoch's rows; for tests and exploring.
- **delta**: written under the id as transaction version, which Delta applies once.
- **anything else** Spark can write to gets each epoch appended: at least once.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.engine.direct import epoch_prefix
from watersmeet.model.errors import OptionError
from watersmeet.model.ids import EpochId
from watersmeet.storage.open import delete_by_prefix

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro")
MEMORY_LIMIT_ROWS = 20_000_000


class Sink(Protocol):
    """Takes the rows of an epoch; idempotent in the epoch's id as far as the target can be."""

    def begin(self, query_id: str) -> None:
        """Get ready for a run of the query with that id, after everything was checked."""

    def write(self, rows: DataFrame, epoch: EpochId) -> None:
        """Consume an epoch's rows."""


@dataclass
class FileSink:
    """Files in one folder, or in folders of partition columns.

    Only the first epoch of a run can have been written before, so only then is the folder searched for its files.
    """

    format: str
    path: str
    options: Mapping[str, str]
    partition_by: tuple[str, ...] = ()
    _is_first: bool = True
    _query: str = ""

    def begin(self, query_id: str) -> None:
        """Have the query's name in the names of files, so that a folder can hold several queries' results."""
        self._query = query_id

    def write(self, rows: DataFrame, epoch: EpochId) -> None:
        """Replace the epoch's files."""
        prefix = epoch_prefix(epoch, self._query)
        if self._is_first:
            delete_by_prefix(self.path, prefix)
        self._is_first = False
        writer = rows.write.format(self.format).mode("append").options(**self.options)
        writer = writer.option("mapreduce.output.basename", prefix)
        (writer.partitionBy(*self.partition_by) if self.partition_by else writer).save(self.path)


@dataclass(frozen=True)
class FunctionSink:
    """A function of the user's."""

    function: Callable[[DataFrame, int], object]

    def begin(self, query_id: str) -> None:
        """Nothing to do."""

    def write(self, rows: DataFrame, epoch: EpochId) -> None:
        """Hand the epoch over."""
        self.function(rows, epoch)


@dataclass
class MemorySink:
    """A temporary view of the user's session that holds all results so far."""

    session: SparkSession
    name: str
    empty: DataFrame
    _epochs: dict[EpochId, pa.Table] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, query_id: str) -> None:
        """Make the view exist before there are results."""
        del query_id
        self.empty.createOrReplaceTempView(self.name)

    def write(self, rows: DataFrame, epoch: EpochId) -> None:
        """Add the epoch's rows to the view."""
        with self._lock:
            self._epochs[epoch] = rows.toArrow()
            total = sum(table.num_rows for table in self._epochs.values())
            if total > MEMORY_LIMIT_ROWS:
                raise OptionError(
                    f"the memory table {self.name} would hold {total} rows",
                    why=f"it keeps them in the driver, at most {MEMORY_LIMIT_ROWS}",
                    how="write to files instead, as .format('parquet').option('path', ...)",
                )
            table = pa.concat_tables(self._epochs.values())
            self.session.createDataFrame(table, rows.schema).createOrReplaceTempView(self.name)


@dataclass
class FormatSink:
    """Any other batch sink of Spark's."""

    format: str
    options: Mapping[str, str]
    partition_by: tuple[str, ...] = ()
    _query: str = ""

    def begin(self, query_id: str) -> None:
        """Know the query, for sinks that tell its transactions from others'."""
        self._query = query_id

    def write(self, rows: DataFrame, epoch: EpochId) -> None:
        """Append the epoch."""
        writer = rows.write.format(self.format).mode("append").options(**self.options)
        if self.format == "delta":
            writer = writer.option("txnAppId", self._query).option("txnVersion", str(epoch))
        (writer.partitionBy(*self.partition_by) if self.partition_by else writer).save()
