"""Steps as Spark jobs: the runner of the shipped engine.

1. The levels of a step are chained, with an exchange below each; where that is quicker, one task goes through all of
   them (`one_task`).
2. The sink runs the job and consumes its rows under the step's id, or reads what the job has staged (`staging`). A step
   that ends below the root has none.
3. The tasks have left their effects in storage, and told their names to an accumulator. What a sink did not read, what
   Spark found it could leave out, or what a task gave up, has told nothing: it is done now, by the long way, for its
   effects alone.
"""

import time
import uuid
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from watersmeet.driver.ports import Done, Step
from watersmeet.runners.spark.batch_limit import BatchLimit
from watersmeet.runners.spark.exchange import Exchange, exchange_of
from watersmeet.runners.spark.levels import finish, run_level
from watersmeet.runners.spark.one_task import Load, LocalWay, Way, input_bytes
from watersmeet.runners.spark.projection import Projection
from watersmeet.runners.spark.reports import Reports
from watersmeet.runners.spark.selects import FirstDelta, next_delta
from watersmeet.runners.spark.session import clone_session, default_sites, executor_names, prepare_stream_session
from watersmeet.runners.spark.sinks import Sink, Written
from watersmeet.runners.spark.split import Routing, Shared, site_keys
from watersmeet.runners.spark.staging import Staging, staged, staged_rows
from watersmeet.runners.spark.union import UnionLayout
from watersmeet.site.effects import Effects, read_effects
from watersmeet.site.result_files import ResultFormat
from watersmeet.storage.base import Storage


@dataclass
class SparkRunner:
    """Runs the steps of one run of a query."""

    session: SparkSession
    storage: Storage
    driver: str
    union: UnionLayout
    projection: Projection
    sink: Sink
    files: ResultFormat | None = None
    local: LocalWay = field(default_factory=LocalWay)
    staging: Staging = field(default_factory=Staging)
    _ready: "Ready | None" = None
    _tag: str = field(default_factory=lambda: f"watersmeet-{uuid.uuid4().hex[:12]}")

    @cached_property
    def reports(self) -> Reports:
        """Where the tasks of a job report to."""
        return Reports.of(self.session, self.storage, self.driver)

    def run(self, step: Step[DataFrame]) -> Done:
        """Carry out a step."""
        ready = self._begin(step)
        if step.batch is not None:
            return self._run(step, ready)
        context = self.session.sparkContext
        context.addJobTag(self._tag)  # a job of a batch is cancelled with its streaming query
        try:
            return self._run(step, ready)
        finally:
            context.removeJobTag(self._tag)

    def cancel(self) -> None:
        """Cut off a step of cleanup."""
        self.session.sparkContext.cancelJobsWithTag(self._tag)

    def close(self) -> None:
        """Release what Spark holds for the run; Spark may be gone already."""
        if self._ready is not None:
            self._ready.exchange.release()
            self._ready = None

    def _run(self, step: Step[DataFrame], ready: "Ready") -> Done:
        step = replace(step, levels=[replace(spec, site_keys=ready.keys) for spec in step.levels])
        job = Job(self, self.staging.prepared(step, self.storage, self.driver), ready)
        started = time.monotonic()
        written = job.give_to_sink()
        effects = self.effects()
        if len(effects) != step.tasks:
            started = time.monotonic()
            job.compute_unread()
            effects = self.effects()
        if step.batch is not None and effects:
            load = Load.of(effects, writes_files=job.step.levels[-1].files is not None)
            took_ms = (time.monotonic() - started) * 1000
            self.local.learn(job.way, load, took_ms, step.levels, job.input_bytes)
        self.staging.learn(step, effects)
        if (form := staged(job.step)) is not None:
            written = job.write(staged_rows(ready.session, form, effects))
        results = job.results()
        executors = () if ready.exchange.leads else executor_names(self.session)
        done = replace(self._done(step, effects, written), results=results)
        return replace(done, executors=executors, slots=default_sites(self.session))

    def _done(self, step: Step[DataFrame], effects: list[Effects], written: Written | None) -> Done:
        if self.files is None or self.files.path is None:
            return Done(effects, *(written or ()))
        names = [(name, self.files.file_name(step.epoch, each.site)) for each in effects for name in each.files]
        return Done(effects, self.files.path, tuple(names))

    def effects(self) -> list[Effects]:
        """What the tasks that have told so far did, one attempt of each."""
        return [each for _, each in sorted(read_effects(self.storage, self.reports.names()).items())]

    def _begin(self, step: Step[DataFrame]) -> "Ready":
        """Get ready for a step; a batch brings the session that Spark made for the stream."""
        session = None if step.batch is None else step.batch.sparkSession
        if self._ready is None or not self._ready.serves(session, step.manifest.sites):
            if self._ready is not None:
                self._ready.batch_limit.restore()
            self.close()
            self._ready = Ready.of(session or clone_session(self.session), step, self.union)
        elif self._ready.placement != step.manifest.placement:
            self._ready.spread(step.manifest.placement)
        self.reports.clear()
        return self._ready


@dataclass
class Ready:
    """What is made once for a session and a number of sites."""

    session: SparkSession
    keys: tuple[int, ...]
    exchange: Exchange
    batch_limit: BatchLimit
    first: FirstDelta
    placement: int = 0
    routing: Routing | None = None

    @classmethod
    def of(cls, session: SparkSession, step: Step[DataFrame], union: UnionLayout) -> "Ready":
        """Prepare a session that is our own or the stream's."""
        prepare_stream_session(session)
        keys = site_keys(step.manifest.sites)
        exchange, limit = exchange_of(session, keys), BatchLimit.of(session)
        return cls(session, keys, exchange, limit, FirstDelta(union), step.manifest.placement)

    def spread(self, placement: int) -> None:
        """Have sites run on other executors: the anchor that holds them is made anew."""
        self.exchange.release()
        self.exchange, self.placement = exchange_of(self.session, self.keys), placement

    def serves(self, session: SparkSession | None, sites: int) -> bool:
        """Whether it can be used for a step; one without a batch can use any session that there is."""
        same = session is None or session._jsparkSession.equals(self.session._jsparkSession)  # noqa: SLF001
        return same and len(self.keys) == sites


@dataclass
class Job:
    """The Spark job of one step; its rows are not yet computed."""

    runner: SparkRunner
    step: Step[DataFrame]
    ready: Ready
    way: Way = "long"
    _observed: Observation | None = None
    _counted: DataFrame | None = None
    _passed: int | None = None

    def give_to_sink(self) -> Written | None:
        """Have the sink consume the rows, once, by the way that should be quicker."""
        rows = self._local_way()
        self.way = "long" if rows is None else "local"
        return self._give(self.long_way() if rows is None else rows)

    def long_way(self) -> DataFrame:
        """A stage of tasks for every level."""
        runner, step, exchange = self.runner, self.step, self.ready.exchange
        packs = any(step.topology.packs(level) for level in range(step.topology.depth))
        self._adjust_batches(may_lift=runner.local.last is not None and step.batch is not None and not packs)
        lowest, *higher = step.levels
        rows = run_level(exchange, self._first_delta(), lowest, runner.reports.report)
        for spec in higher:
            delta = next_delta(rows, step.topology, spec.level, self._routing)
            rows = run_level(exchange, delta, spec, runner.reports.report)
        return rows

    def _local_way(self) -> DataFrame | None:
        """One task for everything, or None where that cannot be or is not worth it."""
        runner, levels, exchange = self.runner, self.step.levels, self.ready.exchange
        if self.step.batch is None:
            suits = runner.local.suits_cleanup(levels)
        else:
            suits = runner.local.suits(levels, self.input_bytes)
        if not exchange.leads or not suits:
            return None
        self._adjust_batches(may_lift=runner.local.last is not None and self.step.batch is not None)
        delta = self._first_delta()
        rows = exchange.gather(None, levels[0]) if delta is None else delta
        return runner.local.run(rows, levels, runner.reports.report)

    def _give(self, rows: DataFrame) -> Written | None:
        if self.step.levels[-1].files is not None or not self.step.has_results:
            run_unread(rows)
            return None
        return self.write(rows)

    def write(self, rows: DataFrame) -> Written | None:
        """Have the sink consume the rows that the root gave."""
        finished = self.runner.projection.apply(finish(rows, self.step.topology))
        if self._has_filters and staged(self.step) is not None:
            self._counted = finished
        elif self._has_filters:
            self._observed = Observation()
            finished = finished.observe(self._observed, F.count(F.lit(1)).alias("results"))
        return self.runner.sink.write(finished, self.step.epoch, self.step.number)

    def compute_unread(self) -> None:
        """Have the tasks run for their effects alone, the long way; results that filters let pass are counted.

        Where Spark can tell that nothing passes, it leaves the tasks out; then they run without the filters.
        """
        rows, self.way, self._observed = self.long_way(), "long", None
        if self._has_filters and self.step.has_results and self.step.levels[-1].files is None:
            self._observed = Observation()
            passing = self.runner.projection.apply(finish(rows, self.step.topology))
            run_unread(passing.observe(self._observed, F.count(F.lit(1)).alias("results")))
            if len(self.runner.effects()) == self.step.tasks:
                return
            self._observed, self._passed = None, 0
        run_unread(rows)

    def results(self) -> int | None:
        """How many results filters have let pass; None where there are no filters. To be asked after all ran.

        Of staged results a sink may read some, or none at all, so they are counted by a job of their own.
        """
        if self._counted is not None:
            return self._counted.count()
        return self._passed if self._observed is None else int(self._observed.get["results"])

    @property
    def _has_filters(self) -> bool:
        """Whether the sink may get fewer rows than the root makes."""
        return bool(self.step.manifest.plan.root.filters or self.runner.projection.filters)

    def _first_delta(self) -> DataFrame | None:
        batch = self.step.batch
        return None if batch is None else self.ready.first.of(batch, self.step.topology, self._routing)

    def _adjust_batches(self, *, may_lift: bool) -> None:
        self.ready.batch_limit.adjust(self.step.manifest, may_lift=may_lift)

    @cached_property
    def input_bytes(self) -> int | None:
        """The size of the batch, where it can be told and matters."""
        return input_bytes(self.step.batch) if self.ready.exchange.leads else None

    @cached_property
    def _routing(self) -> Routing:
        """Every operator's routing table in terms of site keys."""
        keys, manifest = self.step.levels[0].site_keys, self.step.manifest
        tables = {str(name): tuple(keys[site] for site in state.routing) for name, state in manifest.operators.items()}
        splits = {
            str(name): tuple(
                Shared(each.group, each.input, tuple(keys[site] for site in each.sites)) for each in state.splits
            )
            for name, state in manifest.operators.items()
            if state.splits
        }
        self.ready.routing = Routing(tables, manifest.groups, splits=splits).after(self.ready.routing)
        return self.ready.routing


def run_unread(rows: DataFrame) -> None:
    """Have rows computed that nobody reads."""
    rows.write.format("noop").mode("overwrite").save()
