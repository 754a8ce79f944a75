"""The levels of a step as Spark's DataFrames.

union of the streams (stream, slots)               in the streaming plan (`union`)
-> messages -> exchange -> site tasks              level 0 (`selects`, `exchange`)
-> messages -> exchange -> site tasks              level 1, ...
-> filters -> rows (a struct column per stream)    to the sink
"""

from collections.abc import Callable, Iterator
from itertools import chain

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.driver.topology import Topology
from watersmeet.model.errors import WorkerError
from watersmeet.model.plan import quoted
from watersmeet.runners.spark.exchange import Exchange
from watersmeet.runners.spark.schemas import spark_schema
from watersmeet.runners.spark.session import this_python
from watersmeet.runners.spark.worker_socket import acknowledge_at_once
from watersmeet.site.effects import Report
from watersmeet.site.messages import SITE, TAG, Kind, tag_of
from watersmeet.site.spec import LevelSpec
from watersmeet.site.task import SiteTask


def run_level(exchange: Exchange, delta: DataFrame | None, spec: LevelSpec, report: Report) -> DataFrame:
    """Bring every message to its site and run the site tasks of one level."""
    tasks = _site_tasks(spec, report, anchor_leads=exchange.leads)
    gathered = exchange.gather(delta, spec)
    with this_python(gathered.sparkSession):
        return gathered.mapInArrow(tasks, spark_schema(spec.outgoing.schema))


def finish(rows: DataFrame, topology: Topology) -> DataFrame:
    """The query's rows, a struct for each stream: what the root produced and its filters let pass.

    Where the query reads fields of the structs only, Spark's optimiser never makes them.
    """
    by_stream: dict[str, list[SparkColumn]] = {}
    for column in topology.plan.root.output:
        by_stream.setdefault(column.stream, []).append(F.col(quoted(column.name)).alias(column.field))
    if by_stream:
        rows = rows.select(*(F.struct(*fields).alias(stream) for stream, fields in by_stream.items()))
    for condition in topology.plan.root.filters:
        rows = rows.where(condition)
    return rows


def _site_tasks(
    spec: LevelSpec, report: Report, *, anchor_leads: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function Spark runs for every site: the first row is the anchor's or comes after it, and tells which.

    (The number of the Spark partition would not: a sink may coalesce several sites into one task.)
    """
    sites = spec.sites_by_key

    def site_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        acknowledge_at_once()
        for first in batches:
            if first.num_rows:
                task = SiteTask(spec, sites[first.column(SITE)[0].as_py()])
                rest = _after_anchor(first) if anchor_leads else _told(first)
                yield from task.run(chain([rest], batches))
                report.add(task.effects_name)

    return site_task


def _after_anchor(first: pa.RecordBatch) -> pa.RecordBatch:
    """The rows behind the anchor's. Rows that come without it are of a site that some other task answers for, too."""
    if first.column(TAG)[0].as_py() != tag_of(Kind.SITE):
        raise WorkerError(
            "rows have come to a site task without their site's row of the anchor",
            why="Spark has not kept the partitions of a union whose parts are partitioned alike",
            how="leave spark.sql.unionOutputPartitioning as it is, and report this with the version of Spark",
        )
    return first.slice(1)


def _told(first: pa.RecordBatch) -> pa.RecordBatch:
    """A site to which nothing came has a row of nulls beside its site: that is no message."""
    tags = first.column(TAG)
    return first.filter(tags.is_valid()) if tags.null_count else first
