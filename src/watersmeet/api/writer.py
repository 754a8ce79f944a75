"""`StreamWriter`: the sink, the options and the trigger of a query, with the methods of Spark's writer."""

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.api.arguments import names_of
from watersmeet.api.checks import check_columns, check_ends, check_format, check_name, check_place, check_trigger
from watersmeet.api.options import DEFAULT_GROUPS, Options, parse, refuse_without_ring
from watersmeet.api.query import Query
from watersmeet.driver.checkpoint import Expectation, plan_to_go_on_with
from watersmeet.driver.switches import switches
from watersmeet.driver.topology import Topology
from watersmeet.model.errors import OptionError, UnsupportedError
from watersmeet.model.plan import Plan
from watersmeet.operators.ring.schemes import PSP, Scheme
from watersmeet.planning.group_columns import traced
from watersmeet.planning.unkept import refuse_unkept
from watersmeet.runners.spark.rows import row_function
from watersmeet.runners.spark.run import Start, start_run
from watersmeet.runners.spark.schemas import empty_frame
from watersmeet.runners.spark.session import default_sites, has_one_executor
from watersmeet.runners.spark.sinks import FILE_FORMATS, FileSink, FormatSink, FunctionSink, MemorySink, Sink
from watersmeet.runners.spark.tables import Layout, table_sink
from watersmeet.runners.spark.task_sink import result_format
from watersmeet.site.result_files import ResultFormat
from watersmeet.storage.open import full_url

if TYPE_CHECKING:
    from watersmeet.api.flow import Flow
    from watersmeet.api.relation import Relation

_TEMPORARY = ("memory", "console", "noop", "function")


class StreamWriter:
    """Collects the sink, the options and the trigger of a query, and starts it.

    >>> import watersmeet as wm
    >>> flow = wm.Flow(spark)
    >>> rates = spark.readStream.format("rate").load()
    >>> a, b = (flow.stream(name, rates) for name in "AB")
    >>> writer = a.join(b, on="A.value = B.value").writeStream
    >>> writer.format("parquet").option("path", "out").start()
    Traceback (most recent call last):
    watersmeet.model.errors.OptionError: ...checkpointLocation is missing...
    """

    def __init__(self, flow: "Flow", relation: "Relation") -> None:
        self._flow, self._relation = flow, relation
        self._format = "parquet"
        self._function: Callable[[DataFrame, int], object] | None = None
        self._options: dict[str, object] = {}
        self._partition_by: tuple[str, ...] = ()
        self._cluster_by: tuple[str, ...] = ()
        self._table: str | None = None
        self._trigger: Mapping[str, object] = {"processingTime": "0 seconds"}
        self._name: str | None = None
        self._mode = "append"

    def format(self, source: str) -> Self:
        """Choose any of Spark's batch sinks, or ``memory``."""
        self._format, self._function = _text("format", source, "parquet").lower(), None
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], object]) -> Self:
        """Give every epoch's rows and id to a function; after a crash the same id may come again with the same rows."""
        if not callable(func):
            raise OptionError("foreachBatch was given no function", why=f"{func!r} cannot be called", how="give one")
        self._format, self._function = "function", func
        return self

    def foreach(self, f: Callable[[Row], object] | object) -> Self:
        """Give every row to a function, or to an object with ``process`` and perhaps ``open`` and ``close``.

        As in Spark, it is called on the executors, and ``open`` gets the partition and the epoch: rows of an epoch that
        is repeated after a crash come again with the same epoch.
        """
        return self.foreachBatch(row_function(f))

    def option(self, key: str, value: object) -> Self:
        """Set an option of Watersmeet or of the sink; names are not case-sensitive."""
        _text("option", key, "memoryBudget")
        self._options = {name: old for name, old in self._options.items() if name.lower() != key.lower()}
        self._options[key] = value
        return self

    def options(self, **options: object) -> Self:
        """Set several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> Self:
        """``append``, or ``update``: groups are emitted whenever they change. Joined rows are emitted once in both."""
        mode = _text("outputMode", outputMode, "append").lower()
        if mode not in ("append", "update"):
            raise UnsupportedError(
                f"outputMode is {outputMode!r}",
                why="results are only added, and no sink gets all of them again",
                how="use 'append', or 'update' for groups as they change",
            )
        self._mode = mode
        return self

    def partitionBy(self, *cols: str | list[str]) -> Self:
        """Write files into folders by some columns."""
        self._partition_by = tuple(names_of("partitionBy", cols)) if any(cols) else ()
        return self

    def clusterBy(self, *cols: str | list[str]) -> Self:
        """Cluster a table by some columns, where its format supports that."""
        self._cluster_by = tuple(names_of("clusterBy", cols)) if any(cols) else ()
        return self

    def queryName(self, queryName: str) -> Self:
        """Name the query; the name of the table where the sink is ``memory``."""
        self._name = _text("queryName", queryName, "orders")
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,
        availableNow: bool | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        realTime: str | None = None,
    ) -> Self:
        """Say when epochs begin: at an interval, or as long as there is input now (``once`` is the same here)."""
        if availableNow and once:
            raise OptionError(
                "trigger was given availableNow and once", why="a query has exactly one trigger", how="leave once out"
            )
        if continuous or realTime:
            raise UnsupportedError(
                f"trigger is {'continuous' if continuous else 'realTime'}",
                why="results are exact because every epoch is committed as a whole",
                how='use short epochs, as .trigger(processingTime="200 milliseconds")',
            )
        given = {"processingTime": processingTime, "availableNow": availableNow or once}
        chosen = {name: value for name, value in given.items() if value}
        if len(chosen) != 1:
            raise OptionError(
                f"trigger was given {', '.join(chosen) or 'nothing'}",
                why="a query has exactly one trigger",
                how='write .trigger(availableNow=True) or .trigger(processingTime="1 second")',
            )
        check_trigger(self._flow.spark, chosen)
        self._trigger = chosen
        return self

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: object,
    ) -> Query:
        """Start, with a catalog table as the sink; it is created if it does not exist."""
        self._table = _text("toTable", tableName, "orders")
        if self._format in _TEMPORARY:
            self._format, self._function = "parquet", None
        return self.start(None, format, outputMode, partitionBy, queryName, **options)

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: object,
    ) -> Query:
        """Check everything, then start; the query runs until it is stopped, fails, or is complete (``availableNow``).

        The arguments are Spark's, and the same as calling the methods of these names.
        """
        calls = ((self.format, format), (self.outputMode, outputMode), (self.queryName, queryName))
        for method, value in calls:
            if value is not None:
                method(value)
        if partitionBy is not None:
            self.partitionBy(*([partitionBy] if isinstance(partitionBy, str) else partitionBy))
        self.options(**options)
        if path is not None:
            self.option("path", _text("path", path, "out"))
        return self._start()

    def _start(self) -> Query:
        options, sink_options = parse(self._options, self._format)
        check_name(self._flow.spark, self._name)
        endless = options.memory_budget_bytes is not None
        plan = self._relation.shape.plan("update" if self._mode == "update" else None, endless=endless)
        is_file = self._format in FILE_FORMATS and self._function is None and self._table is None
        if self._mode == "update" and self._relation.shape.is_aggregate and is_file:
            raise UnsupportedError(
                f"outputMode is 'update' and the sink {self._format}",
                why="files only grow, so they would have a group once for every change",
                how="use 'append', or foreachBatch, which can replace earlier rows",
            )
        refuse_unkept(plan)
        refuse_without_ring(options, plan)
        plan = traced(plan) if switches().trace else plan
        location = self._location(options)
        plan = plan_to_go_on_with(location, plan)
        check_ends(plan, self._trigger, ends_input=options.end_of_input)
        session, row = self._flow.spark, Topology(plan).row_schema()
        empty = self._relation.projection.apply(empty_frame(session, row))
        self._relation.projection.refuse_aggregates(empty)
        sink = self._sink(sink_options, empty)
        check_format(session, sink)
        check_columns(sink, empty.schema, self._partition_by)
        check_place(sink, location, options.rejected_path)
        files = self._files(sink, plan, row)
        expected = Expectation(
            query_id=str(uuid.uuid4()),
            plan=plan,
            groups=options.partition_groups,
            default_groups=DEFAULT_GROUPS,
            sites=options.sites or default_sites(session),
            weights=options.site_weights,
            sites_follow=options.sites is None and not has_one_executor(session),
        )
        start = Start(
            session=session,
            frames=self._flow.frames,
            projection=self._relation.projection,
            sink=FormatSink("noop", {}) if files else sink,
            files=files,
            location=location,
            copies=options.copy_location,
            expected=expected,
            retained_versions=options.retained_versions,
            trigger=self._trigger,
            name=self._name,
            memory=MemoryOptions(
                options.memory_budget_bytes,
                options.spill_strategy,
                options.spill_fraction,
                options.spill_seed,
                options.inactive_epochs,
            ),
            cleans_when_idle=options.cleanup == "idle",
            ends_input=options.end_of_input,
            rejected_path=options.rejected_path,
            retention_us=options.promise_retention_us,
            adaptation=options.adaptation,
            ring_scheme=Scheme(options.ring_scheme or PSP.name),
            ring_goal=options.ring_goal,
            ring_relocation=options.ring_relocation or "aggressive",
            functions=self._relation.shape.functions,
        )
        return Query(start_run(start))

    def _sink(self, options: Mapping[str, str], empty: DataFrame) -> Sink:
        if self._function is not None:
            return FunctionSink(self._function)
        if self._cluster_by and self._table is None:
            raise OptionError("clusterBy without a table", why="only tables are clustered", how="use toTable")
        if self._table is not None:
            return table_sink(self._flow.spark, self._table, self._format, options, empty, self._layout())
        if self._format in FILE_FORMATS:
            path = {name.lower(): value for name, value in options.items()}.get("path")
            if not path:
                raise OptionError(
                    "option path is missing",
                    why=f"the {self._format} sink writes files",
                    how='write .option("path", "out") or .start("out")',
                )
            rest = {name: value for name, value in options.items() if name.lower() != "path"}
            return FileSink(self._format, full_url(path), rest, self._partition_by)
        if self._format == "memory":
            return self._memory(empty)
        return FormatSink(self._format, options, self._partition_by)

    def _layout(self) -> Layout:
        return Layout(self._partition_by, self._cluster_by)

    def _files(self, sink: Sink, plan: Plan, row: pa.Schema) -> ResultFormat | None:
        """The format in which the site tasks can write the results themselves, or None."""
        projection = self._relation.projection
        if isinstance(sink, FileSink) and not self._partition_by:
            codec = str(self._flow.spark.conf.get("spark.sql.parquet.compression.codec", "snappy"))
            options = {"compression": codec, **{name.lower(): value for name, value in sink.options.items()}}
            return result_format(sink.format, sink.path, options, projection, plan, row)
        return result_format("noop", None, {}, projection, plan, row) if self._format == "noop" else None

    def _memory(self, empty: DataFrame) -> MemorySink:
        if not self._name:
            raise OptionError("the memory sink has no name", why="its rows become a table", how='write .queryName("t")')
        return MemorySink(self._flow.spark, self._name, empty)

    def _location(self, options: Options) -> str:
        if options.checkpoint_location:
            return full_url(options.checkpoint_location)
        default = self._flow.spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        if default:
            return full_url(f"{default.rstrip('/')}/{self._name or uuid.uuid4()}")
        if self._format in _TEMPORARY:
            folder = tempfile.mkdtemp(prefix="watersmeet-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder
        raise OptionError(
            "option checkpointLocation is missing",
            why=f"without it a query into {self._format} could not continue after a restart",
            how='write .option("checkpointLocation", "checkpoints/name")',
        )


def _text(what: str, value: object, example: str) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise OptionError(f"{what} is {value!r}", why="it must be a text", how=f'write for example "{example}"')
