"""Tables of the catalog as sinks.

Every epoch is appended by Spark, under the epoch's id as transaction version where the table is one of Delta's, which
applies it once. Other tables get an epoch that is repeated after a crash a second time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from watersmeet.model.errors import OptionError
from watersmeet.model.ids import EpochId
from watersmeet.runners.spark.sinks import appending


class Layout(NamedTuple):
    """The columns a table is laid out by."""

    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()

    def of(self, writer: DataFrameWriter) -> DataFrameWriter:
        """A writer that lays out so."""
        writer = writer.partitionBy(*self.partition_by) if self.partition_by else writer
        return writer.clusterBy(*self.cluster_by) if self.cluster_by else writer


@dataclass
class TableSink:
    """A table of the session's catalog."""

    session: SparkSession
    name: str
    format: str
    options: Mapping[str, str]
    layout: Layout
    _query: str = ""

    def begin(self, query_id: str) -> None:
        """Know the query, for tables that tell its transactions from others'."""
        self._query = query_id

    def write(self, rows: DataFrame, epoch: EpochId, number: int) -> None:
        """Append the epoch."""
        del epoch
        writer = appending(rows, self.format, self.options, self._query, number)
        self.layout.of(writer).saveAsTable(self.name)
        self.session.catalog.refreshTable(self.name)  # the stream's session is another than the user's


def table_sink(
    spark: SparkSession, name: str, form: str, options: Mapping[str, str], empty: DataFrame, layout: Layout
) -> TableSink:
    """The sink of a table, which is made if it does not exist."""
    rest = {key: value for key, value in options.items() if key.lower() != "path"}
    try:
        if not spark.catalog.tableExists(name):
            writer = empty.write.format(form).options(**options)
            layout.of(writer).saveAsTable(name)
        columns = spark.table(name).columns
    except PySparkException as error:
        raise OptionError(
            f"table {name} cannot be written to",
            why=str(error).split("\n", 1)[0].rstrip("."),
            how="check its name, format and location",
        ) from error
    if [each.lower() for each in columns] != [each.lower() for each in empty.columns]:
        raise OptionError(
            f"table {name} has the columns {', '.join(columns)}",
            why=f"the results have {', '.join(empty.columns)}",
            how="select the table's columns in its order, or choose another table",
        )
    return TableSink(spark, name, form, rest, layout)
