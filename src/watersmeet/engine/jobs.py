"""The Spark job of a step: its rows, not yet computed, and the site tasks that will have computed them.

Levels are chained, with an exchange below each; a small epoch takes the `shortcut` through all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from watersmeet.engine.anchor import Anchor
from watersmeet.engine.assembly import Assembly, routing_keys
from watersmeet.engine.batch_limit import BatchLimit
from watersmeet.engine.dataflow import FirstSplit, finish, next_delta, run_level
from watersmeet.engine.effects import Effects
from watersmeet.engine.reports import Reports
from watersmeet.engine.session import prepare_stream_session
from watersmeet.engine.shape import Shape
from watersmeet.engine.shortcut import Load, Shortcut
from watersmeet.engine.spec import LevelSpec
from watersmeet.engine.split import site_keys
from watersmeet.state.manifest import Manifest


@dataclass(frozen=True)
class Job:
    """A step's rows; ``again`` are the same rows by the way that always leads to the end."""

    rows: DataFrame
    levels: Sequence[LevelSpec]
    again: Callable[[], DataFrame]

    @property
    def has_results(self) -> bool:
        """Whether the rows are for the sink; a step of cleanup may end below the root."""
        return self.levels[-1].is_root and not self.levels[-1].only_stores

    @property
    def tasks(self) -> int:
        """How many site tasks there are, and thus effects."""
        return sum(len(spec.sites) for spec in self.levels)


@dataclass
class Jobs:
    """Makes the jobs of one run of a query, one at a time."""

    session: SparkSession
    assembly: Assembly
    shape: Shape
    groups: int
    shortcut: Shortcut = field(default_factory=Shortcut)
    _anchor: Anchor | None = None
    _batch_limit: BatchLimit = field(init=False)
    _keys: tuple[int, ...] = ()

    @cached_property
    def reports(self) -> Reports:
        """Where the tasks of a job report to."""
        return Reports.of(self.session, self.assembly.storage, self.assembly.driver)

    def epoch(self, batch: DataFrame, manifest: Manifest) -> Job:
        """The job of a batch of Spark's."""
        anchor = self._begin(batch.sparkSession, manifest)
        levels = self.assembly.levels(manifest, self._keys)
        routing = routing_keys(manifest, self._keys)
        delta = self._first_split.delta(batch, routing)
        is_first = self.shortcut.last is None

        def long_way() -> DataFrame:
            self._batch_limit.adjust(manifest, may_lift=not is_first and not self._packs)
            return self._chain(anchor, delta, levels, manifest)

        if not (anchor.leads and self.shortcut.suits(levels)):
            return Job(long_way(), levels, long_way)
        self._batch_limit.adjust(manifest, may_lift=not is_first)
        rows = self.shortcut.run(delta, levels, self.reports.report)
        return Job(self._finished(rows, levels), levels, long_way)

    def cleaning(self, session: SparkSession, manifest: Manifest, sizes: dict[int, float]) -> Job:
        """The job of a step of cleanup."""
        anchor = self._begin(session, manifest)
        self._batch_limit.adjust(manifest, may_lift=False)
        levels = self.assembly.cleaning(manifest, self._keys, sizes)

        def long_way() -> DataFrame:
            return self._chain(anchor, None, levels, manifest)

        if not (anchor.leads and self.shortcut.suits_cleaning(levels)):
            return Job(long_way(), levels, long_way)
        rows = self.shortcut.run(anchor.gather(None, levels[0]), levels, self.reports.report)
        return Job(self._finished(rows, levels), levels, long_way)

    def learn(self, effects: Sequence[Effects]) -> None:
        """An epoch is done: the next one is likely to be like it."""
        self.shortcut.last = Load.of(effects, direct=self.assembly.direct is not None)

    def close(self) -> None:
        """Release what Spark holds for the run; Spark may be gone already."""
        if self._anchor is not None:
            self._anchor.release()
            self._anchor = None

    @cached_property
    def _packs(self) -> bool:
        topology = self.assembly.topology
        return any(topology.packs(level) for level in range(topology.depth))

    @cached_property
    def _first_split(self) -> FirstSplit:
        return FirstSplit(self.assembly.topology, self.groups)

    def _begin(self, session: SparkSession, manifest: Manifest) -> Anchor:
        if self._anchor is None:
            prepare_stream_session(session)
            self._keys = site_keys(manifest.sites)
            self._anchor = Anchor.of(session, self._keys)
            self._batch_limit = BatchLimit.of(session)
        self.reports.clear()
        return self._anchor

    def _chain(
        self, anchor: Anchor, delta: DataFrame | None, levels: Sequence[LevelSpec], manifest: Manifest
    ) -> DataFrame:
        routing = routing_keys(manifest, self._keys)
        lowest, *higher = levels
        rows = run_level(anchor, delta, lowest, self.reports.report)
        for spec in higher:
            incoming = next_delta(rows, self.assembly.topology, spec.level, routing, self.groups)
            rows = run_level(anchor, incoming, spec, self.reports.report)
        return self._finished(rows, levels)

    def _finished(self, rows: DataFrame, levels: Sequence[LevelSpec]) -> DataFrame:
        if self.assembly.direct or not levels[-1].is_root:
            return rows
        return self.shape.apply(finish(rows, self.assembly.topology.plan.root))
