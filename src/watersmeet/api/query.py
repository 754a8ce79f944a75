"""`Query`: the handle of a running query, with the methods of Spark's `StreamingQuery` and a few more."""

from typing import Any

import msgspec
from pyspark.sql import DataFrame

from watersmeet.adapt.moving.describe import placement
from watersmeet.adapt.ring.length import RingPolicy
from watersmeet.api.registry import QueryRegistry
from watersmeet.driver.costs import cost_lines
from watersmeet.planning.describe import explain
from watersmeet.runners.spark.run import Run
from watersmeet.runners.spark.schemas import spark_schema

Progress = dict[str, Any]


class Query:
    """A running query, as returned by `StreamWriter.start`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._registry = QueryRegistry(run.loop.stepper.coordinator)

    @property
    def id(self) -> str:
        """The query's id, the same after every restart from its checkpoint."""
        return str(self._run.query.id)

    @property
    def runId(self) -> str:
        """The id of this run of the query."""
        return str(self._run.query.runId)

    @property
    def name(self) -> str | None:
        """The name given with ``queryName``."""
        return self._run.query.name

    @property
    def isActive(self) -> bool:
        """Whether the query is running."""
        return self._run.is_active

    @property
    def status(self) -> Progress:
        """Spark's current status of the query."""
        return dict(self._run.query.status)

    @property
    def lastProgress(self) -> Progress | None:
        """The last epoch's progress: Spark's keys, and ours under ``customMetrics``."""
        reports = self.recentProgress
        return reports[-1] if reports else None

    @property
    def recentProgress(self) -> list[Progress]:
        """The progress of the last epochs."""
        return self._run.progress()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait for the end, at most ``timeout`` seconds; raises the exception that ended the query.

        With a timeout it returns whether the query has ended. With ``availableNow`` the results are then complete.
        """
        ended = self._run.wait(timeout)
        failure = self._run.failure() if ended else None
        if failure is not None:
            raise failure
        return ended if timeout is not None else None

    def processAllAvailable(self) -> None:
        """Wait until all input available now has been joined and given to the sink.

        It does not wait for results that spilled groups miss: see `cleanup`.
        """
        try:
            self._run.process_all()
        except Exception as error:
            raise self._run.failure() or error from error

    def stop(self) -> None:
        """Stop the query; an epoch that is not committed is repeated after a restart."""
        self._run.stop()
        self._run.wait(None)

    def exception(self) -> Exception | None:
        """The exception that ended the query, or None."""
        return self._run.failure()

    def cleanup(self) -> None:
        """Join all input available now, and produce all results that spilled groups miss.

        The query continues meanwhile; groups that are spilled after the call are not waited for.
        """
        if self._run.query.isActive:
            self.processAllAvailable()
        self._run.cleanup()
        failure = self._run.failure()
        if failure is not None:
            raise failure

    def explain(self) -> None:
        """Print the plan: operators, keys, groups and sites; how groups move between sites, and where they are now."""
        print(self.plan)  # noqa: T201 -- that is what it is for

    @property
    def plan(self) -> str:
        """The plan as text."""
        manifest = self._run.manifest
        plan = explain(manifest.plan, manifest.groups, manifest.sites)
        stepper = self._run.loop.stepper
        rings = [each for each in stepper.coordinator.policies if isinstance(each, RingPolicy)]
        placed = placement(manifest, self._run.start.adaptation)
        lines = [plan, "", *placed, *(line for each in rings for line in each.lines(manifest))]
        lines += cost_lines(manifest.plan, dict(stepper.observer.costs))
        return "\n".join(lines)

    @property
    def registry(self) -> QueryRegistry:
        """The registry that maps events to components: spilling, cleanup, and dropping state. It can be changed."""
        return self._registry

    def state(self) -> DataFrame:
        """The state by operator and partition group, as of the last committed epoch."""
        table = self._run.state()
        return self._run.start.session.createDataFrame(table, spark_schema(table.schema))

    def events(self) -> list[dict[str, Any]]:
        """The adaptations so far: what changed, when, and why."""
        return [msgspec.to_builtins(event) for event in self._run.events()]
