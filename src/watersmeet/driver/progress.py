"""The metrics of a step for ``lastProgress``: typed values that users see as dictionaries under ``customMetrics``."""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from watersmeet.adapt.cleaning.policy import missing_groups, parked_groups
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.driver.step import Taken
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.site.effects import Effects, Rejected
from watersmeet.state.changes import MergeRuns
from watersmeet.state.manifest import Cleaning, Manifest
from watersmeet.state.sizes import live_bytes_by_site

RETAINED_EPOCHS = 256


class OperatorMetrics(msgspec.Struct, frozen=True, rename="camel"):
    """The input and output of an operator in a step, and its state after it."""

    operator: OperatorId
    rows_in: dict[str, int]
    rows_out: int
    state_rows: int
    state_bytes: int
    runs: int


class SiteMetrics(msgspec.Struct, frozen=True, rename="camel"):
    """Where a site ran, and how much it did."""

    site: SiteId
    executors: list[str]
    busy_ms: int
    promises_ms: int
    rows_in: int
    rows_out: int


class Cleanup(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of a step of cleanup, and the number of groups left."""

    operator: OperatorId
    groups: int
    results: int
    read_bytes: int
    groups_left: int

    @classmethod
    def of(cls, cleaning: Cleaning, effects: Sequence[Effects], left: int) -> "Cleanup":
        """Sum up the effects of the tasks."""
        results = sum(each.cleaned_results for each in effects)
        read = sum(each.cleaned_bytes for each in effects)
        return cls(cleaning.operator, len(cleaning.groups), results, read, left)


class StepMetrics(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The metrics of a step; those of a budget or cleanup are present only where there is one.

    ``step`` is the id that a function is called with, ``timestamp`` the end of the step. ``rows_out`` are the results
    of the root operator, ``results`` those that pass the query's filters into the sink. ``state_rows`` are rows that
    count, ``state_bytes`` is the size of their files. With promises, rows that can have no match any more are
    ``not_stored`` or ``dropped``, promises of streams are ``passed_on`` to operators above, and ``promises`` is the
    number of ranges and patterns in the state. ``parked_groups`` is present only while groups are parked. An ``idle``
    report is of no step: it has the current state, and ``step``, ``epoch`` and ``version`` of the last one.
    """

    epoch: int
    step: int
    version: int
    rows_out: int
    results: int
    state_rows: int
    state_bytes: int
    runs: int
    operators: list[OperatorMetrics]
    sites: list[SiteMetrics]
    duration_ms: dict[str, int]
    timestamp: str
    memory_budget: int | None = None
    live_bytes: list[int] | None = None
    spilled_groups: int | None = None
    parked_groups: int | None = None
    cleanup: Cleanup | None = None
    rejected: list[Rejected] | None = None
    not_stored: int | None = None
    dropped: int | None = None
    passed_on: int | None = None
    promises: int | None = None
    idle: bool = False


@dataclass
class History:
    """The metrics of the last steps: of epochs by the number of their batch, and of cleanup."""

    _epochs: OrderedDict[int, StepMetrics] = field(default_factory=OrderedDict)
    _cleanup: deque[StepMetrics] = field(default_factory=lambda: deque(maxlen=RETAINED_EPOCHS))

    def add(self, batch: int, metrics: StepMetrics) -> None:
        """Keep an epoch's metrics."""
        self._epochs[batch] = metrics
        while len(self._epochs) > RETAINED_EPOCHS:
            self._epochs.popitem(last=False)

    def add_cleanup(self, metrics: StepMetrics) -> None:
        """Keep the metrics of a step of cleanup."""
        self._cleanup.append(metrics)

    @property
    def cleanup(self) -> list[StepMetrics]:
        """The metrics of the last steps of cleanup."""
        return list(self._cleanup)

    def get(self, batch: int) -> StepMetrics | None:
        """The metrics of a batch; None where they are no longer kept."""
        return self._epochs.get(batch)


def step_metrics(
    manifest: Manifest, taken: Taken, options: MemoryOptions, cleanup: Cleanup | None = None
) -> StepMetrics:
    """Summarise a step from its effects and the manifest it committed."""
    told = list(taken.effects)
    made = sum(each.rows_out.get(manifest.plan.root.id, 0) for each in told)
    merges = [change for each in told for change in each.changes if isinstance(change, MergeRuns)]
    is_checked = manifest.has_ended or any(each.is_checked for each in manifest.plan.streams)
    live = [int(size) for size in live_bytes_by_site(manifest)] if options.is_limited else None
    return StepMetrics(
        epoch=manifest.version - 1,
        step=manifest.steps - 1,
        version=manifest.version,
        rows_out=made,
        results=made if taken.results is None else taken.results,
        state_rows=manifest.rows,
        state_bytes=manifest.bytes,
        runs=len(manifest.runs),
        operators=[_operator(manifest, told, name) for name in manifest.operators],
        sites=[_site(told, SiteId(site)) for site in range(max([manifest.sites, *(each.site + 1 for each in told)]))],
        duration_ms={name: round(value) for name, value in taken.laps_ms.items()},
        timestamp=_now(),
        memory_budget=options.budget_bytes,
        live_bytes=live,
        spilled_groups=missing_groups(manifest) if options.is_limited else None,
        parked_groups=parked_groups(manifest) or None,
        cleanup=cleanup,
        rejected=_rejected(told) if is_checked else None,
        not_stored=sum(each.not_stored for each in told) if is_checked else None,
        dropped=sum(each.dropped for each in merges) + taken.dropped if is_checked else None,
        passed_on=taken.passed_on if is_checked else None,
        promises=sum(run.rows for run in manifest.promise_runs) if manifest.promises else None,
    )


def idle_metrics(manifest: Manifest, options: MemoryOptions) -> StepMetrics:
    """The metrics of a report between steps: the current state, and no input or output."""
    return msgspec.structs.replace(step_metrics(manifest, Taken((), {}), options), idle=True)


def _now() -> str:
    """The current time in the format of Spark's reports."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def _rejected(told: Sequence[Effects]) -> list[Rejected]:
    """How many rows were rejected, by stream and reason."""
    found: dict[tuple[str, str], int] = {}
    for each in (rejected for effects in told for rejected in effects.rejected):
        found[each.stream, each.reason] = found.get((each.stream, each.reason), 0) + each.rows
    return [Rejected(stream, reason, rows) for (stream, reason), rows in sorted(found.items())]


def _operator(manifest: Manifest, told: Sequence[Effects], name: OperatorId) -> OperatorMetrics:
    runs = [run for run in manifest.runs.values() if run.operator == name]
    rows_in: dict[str, int] = {}
    for source, count in ((source, count) for each in told for source, count in each.rows_in.items()):
        operator, _, own = source.partition("/")
        if operator == name:
            rows_in[own] = rows_in.get(own, 0) + count
    return OperatorMetrics(
        operator=name,
        rows_in=rows_in,
        rows_out=sum(each.rows_out.get(name, 0) for each in told),
        state_rows=manifest.rows_of(name),
        state_bytes=sum(run.bytes for run in runs),
        runs=len(runs),
    )


def _site(told: Sequence[Effects], site: SiteId) -> SiteMetrics:
    mine = [each for each in told if each.site == site]
    return SiteMetrics(
        site=site,
        executors=sorted({f"{each.host}:{each.executor}" for each in mine}),
        busy_ms=round(sum(each.busy_ms for each in mine)),
        promises_ms=round(sum(each.promises_ms for each in mine)),
        rows_in=sum(sum(each.rows_in.values()) for each in mine),
        rows_out=sum(sum(each.rows_out.values()) for each in mine),
    )
