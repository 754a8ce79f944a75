"""Where results go, an epoch at a time.

A sink is given an epoch's rows together with the epoch's id, possibly more than once with the same id: after a crash
the epoch is replayed with the same result. What each sink makes of that:

- **files** (parquet, orc, json, csv, text, avro): an epoch's files are written to a hidden folder, and published when
  its version is committed (`watersmeet.driver.publish`); their names start with ``epoch-<id>``. Readers of the folder
  see every result once. Plain columns go to parquet files, or to ``noop``, straight from the site tasks (`task_sink`).
- **a function**: gets the same id again, and can skip or replace.
- **memory**: a replay replaces the epoch's rows; for tests and exploring.
- **delta**: written under the id as transaction version, which Delta applies once.
- **anything else** Spark can write to gets each epoch appended: at least once.
"""

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from watersmeet.model.errors import OptionError
from watersmeet.model.ids import EpochId
from watersmeet.site.result_files import epoch_prefix
from watersmeet.storage.failures import reported
from watersmeet.storage.open import open_files

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro")
MEMORY_LIMIT_ROWS = 20_000_000


class Written(NamedTuple):
    """Files below a path that wait to be published: pairs of a hidden name and the one it will get."""

    path: str
    names: tuple[tuple[str, str], ...]


class Sink(Protocol):
    """Takes the rows of an epoch; idempotent in the epoch's id as far as the target can be."""

    def begin(self, query_id: str) -> None:
        """Get ready for a run of the query with that id, after everything was checked."""

    def write(self, rows: DataFrame, epoch: EpochId, number: int) -> Written | None:
        """Consume the rows of an epoch, the ``number``-th step; tell of files that wait to be published."""


@dataclass
class FileSink:
    """Files in one folder, or in folders of partition columns."""

    format: str
    path: str
    options: Mapping[str, str]
    partition_by: tuple[str, ...] = ()
    _query: str = ""

    def begin(self, query_id: str) -> None:
        """Have the query's name in the names of files, so that a folder can hold several queries' results."""
        self._query = query_id

    def write(self, rows: DataFrame, epoch: EpochId, number: int) -> Written:
        """Write the epoch's files to a hidden folder."""
        del number
        prefix = epoch_prefix(epoch, self._query)
        staging = f".{prefix}-{uuid.uuid4().hex[:12]}"
        writer = rows.write.format(self.format).mode("append").options(**self.options)
        writer = writer.option("mapreduce.output.basename", prefix)
        writer = writer.partitionBy(*self.partition_by) if self.partition_by else writer
        writer.save(f"{self.path}/{staging}")
        return Written(self.path, tuple((f"{staging}/{name}", name) for name in self._names(staging)))

    def _names(self, staging: str) -> list[str]:
        """What was written, without the marks that Spark leaves."""
        files, root = open_files(self.path)
        with reported("list", f"{self.path}/{staging}"):
            found = [str(file).split(f"{staging}/", 1)[1] for file in files.find(f"{root}/{staging}")]
        return [name for name in found if not name.rsplit("/", 1)[-1].startswith((".", "_"))]


@dataclass(frozen=True)
class FunctionSink:
    """A function of the user's."""

    function: Callable[[DataFrame, int], object]

    def begin(self, query_id: str) -> None:
        """Nothing to do."""

    def write(self, rows: DataFrame, epoch: EpochId, number: int) -> None:
        """Hand the epoch over."""
        del epoch
        self.function(rows, number)


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

    def write(self, rows: DataFrame, epoch: EpochId, number: int) -> None:
        """Add the epoch's rows to the view."""
        del number
        with self._lock:
            self._epochs[epoch] = rows.toArrow()
            total = sum(table.num_rows for table in self._epochs.values())
            if total > MEMORY_LIMIT_ROWS:
                raise OptionError(
                    f"the memory table {self.name} would hold {total} rows",
                    why=f"it keeps them in the driver, at most {MEMORY_LIMIT_ROWS}",
                    how="write to files instead, as .format('parquet').option('path', ...)",
                )
            parts = [part for part in self._epochs.values() if part.num_rows]  # Spark stops at the first empty chunk
            table = pa.concat_tables(parts) if parts else self._epochs[epoch]
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

    def write(self, rows: DataFrame, epoch: EpochId, number: int) -> None:
        """Append the epoch."""
        del epoch
        writer = appending(rows, self.format, self.options, self._query, number)
        (writer.partitionBy(*self.partition_by) if self.partition_by else writer).save()


def appending(rows: DataFrame, form: str, options: Mapping[str, str], query_id: str, number: int) -> DataFrameWriter:
    """A writer that appends an epoch; Delta is told its number, and applies it once."""
    writer = rows.write.format(form).mode("append").options(**options)
    if form == "delta":
        writer = writer.option("txnAppId", query_id).option("txnVersion", str(number))
    return writer
