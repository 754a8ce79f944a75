"""Runs on real Spark, each made once: a setting's streams are written once and replayed for every treatment.

The results go to Parquet files, so that their multiset can be compared, and are removed with everything else.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet.api.query import Query
from watersmeet.api.relation import Relation
from watersmeet.api.writer import StreamWriter
from watersmeet.lab.bench.session import ALL_REGISTERED
from watersmeet.lab.reproduce.pauses import Paused, Pauses, results_so_far
from watersmeet.lab.reproduce.record import Fingerprint, Record, record
from watersmeet.lab.reproduce.setting import UNLIMITED, Setting, Size, Streams, Treatment
from watersmeet.lab.reproduce.strategies import lab_strategies, thresholds
from watersmeet.testing.replay import replay

SPARK_CONF = {"spark.sql.streaming.numRecentProgressUpdates": "250", "spark.sql.shuffle.partitions": "2"}
"""Progress of all epochs is kept, as the record is made at the end."""
WITHOUT_LIMIT = "1t"
"""A budget that is never reached: live bytes are only counted where there is one."""
CLUSTER_MASTER = "local-cluster[2,1,1024]"
CLUSTER_CONF = {"spark.executor.memory": "1g", **ALL_REGISTERED}
"""Two executors of one core, which are there before anything runs."""
LOOK_EVERY_S = 1.0
WARM_UP = Treatment("bottom-up")

Say = Callable[[str], None]


class Bench:
    """Makes runs, or gives those that were made."""

    def __init__(
        self, spark: SparkSession | None, folder: Path, say: Say, watch: Say | None = None, *, quick: bool
    ) -> None:
        self._session, self._folder, self._say, self._watch = spark, folder, say, watch
        self.quick = quick
        self._streams: dict[Setting, Streams] = {}
        self._records: dict[tuple[Setting, Treatment], Record] = {}

    @property
    def _spark(self) -> SparkSession:
        if self._session is None:
            raise ValueError("an experiment that needs Spark says that it does")
        return self._session

    def say(self, line: str) -> None:
        """Tell what has been done."""
        self._say(line)

    def runs(self, setting: Setting, treatments: Mapping[str, Treatment]) -> dict[str, Record]:
        """The records of some treatments of a setting, by their names."""
        return {name: self.run(setting, treatment) for name, treatment in treatments.items()}

    def unlimited(self, setting: Setting) -> Record:
        """The run that never spills."""
        return self.run(setting, UNLIMITED)

    def run(self, setting: Setting, treatment: Treatment) -> Record:
        """Make a run from the first epoch to the end of its cleanup."""
        made = self._records.get((setting, treatment))
        if made is None:
            self._warm_up(setting)
            made = self._make(setting, treatment)
            self._records[setting, treatment] = made
            self._say(f"{setting.name}: {treatment}: {_told(made)}")
        return made

    def paused(self, setting: Setting, treatment: Treatment, pauses: Pauses, *, joins_disk: bool) -> Paused:
        """Make a run whose input comes in bursts; missing results come in the pauses, if the disk join is called."""
        streams = setting.streams(setting.size(quick=self.quick))
        epochs = len(next(iter(streams.values()))) // pauses.bursts
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder, lab_strategies():

            def fed(bursts: int) -> dict[str, DataFrame]:
                many = {name: tables[: bursts * epochs] for name, tables in streams.items()}
                return {name: replay(self._spark, tables, f"{folder}/{name}") for name, tables in many.items()}

            relation = setting.relation(self._spark, fed(1))
            query = self._writer(relation, setting, treatment, Path(folder)).start()
            if joins_disk:
                query.registry.add("StreamEmpty", "disk join")
            told = [pauses.burst(query, epochs)]
            for burst in range(1, pauses.bursts):
                fed(burst + 1)
                told.append(pauses.burst(query, (burst + 1) * epochs))
            query.cleanup()
            query.stop()
            self._say(f"{setting.name}: {pauses.bursts} bursts, {'' if joins_disk else 'no '}disk join in pauses")
            return Paused(tuple(told), results_so_far(query), self._fingerprint(Path(folder) / "results"))

    def _warm_up(self, setting: Setting) -> None:
        """Clean up something tiny before the first real run, which would else pay for what all runs profit from."""
        if not (self.quick or self._records):
            small = Bench(self._spark, Path(tempfile.mkdtemp(dir=self._folder)), lambda _: None, quick=True)
            small.run(setting, WARM_UP)

    def _make(self, setting: Setting, treatment: Treatment) -> Record:
        with (
            tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder,
            lab_strategies(),
            thresholds(treatment.theta_d, treatment.span),
        ):
            query = self._start(setting, treatment, Path(folder))
            if treatment.purge_at is not None:
                query.registry.set("PurgeThresholdReached", treatment.purge_at)
            self._wait(query, setting, treatment)
            fingerprint = self._fingerprint(Path(folder) / "results")
            return record(query.recentProgress, query.events(), fingerprint, setting.sites)

    def _start(self, setting: Setting, treatment: Treatment, folder: Path) -> Query:
        relation = setting.relation(self._spark, self._frames(setting, setting.size(quick=self.quick)))
        return self._writer(relation, setting, treatment, folder).trigger(availableNow=True).start()

    def _writer(self, relation: Relation, setting: Setting, treatment: Treatment, folder: Path) -> StreamWriter:
        size, writer = setting.size(quick=self.quick), relation.writeStream.format("parquet")
        writer = writer.option("path", str(folder / "results")).option("checkpointLocation", str(folder / "checkpoint"))
        writer = writer.options(sites=setting.sites, partitionGroups=size.groups, cleanup="end")
        writer = writer.option("memoryBudget", WITHOUT_LIMIT).option("adaptation", treatment.adaptation)
        if setting.weights:
            writer = writer.option("siteWeights", ",".join(f"{weight:g}" for weight in setting.weights))
        if treatment.strategy:
            budget = treatment.budget or setting.budget_bytes(quick=self.quick)
            writer = writer.option("memoryBudget", budget)
            writer = writer.options(spillStrategy=treatment.strategy, spillFraction=treatment.fraction, spillSeed=1)
        return writer

    def _frames(self, setting: Setting, size: Size) -> dict[str, DataFrame]:
        """The streams; the files of a setting are written for its first run, and found by the others."""
        if setting not in self._streams:
            self._streams[setting] = setting.streams(size)
        where = self._folder / f"streams-{list(self._streams).index(setting)}"
        return {name: replay(self._spark, tables, str(where / name)) for name, tables in self._streams[setting].items()}

    def _wait(self, query: Query, setting: Setting, treatment: Treatment) -> None:
        """Wait for the end; where someone watches, tell how far it is."""
        if self._watch is None:
            query.awaitTermination()
            return
        epochs = setting.size(quick=self.quick).epochs
        while not query.awaitTermination(LOOK_EVERY_S):
            done = len(query.recentProgress)
            place = f"epoch {done} of {epochs}" if done < epochs else "cleanup"
            self._watch(f"{setting.name}: {treatment}: {place}")

    def _fingerprint(self, results: Path) -> Fingerprint:
        rows = self._spark.read.parquet(str(results))
        hashed = F.xxhash64(*rows.columns).cast("decimal(20,0)")
        [found] = rows.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed).alias("hashes")).collect()
        return Fingerprint(found["rows"], int(found["hashes"] or 0))


def _told(made: Record) -> str:
    cleanup = f", {len(made.spills)} spills, cleanup {made.cleanup.time_ms / 1000:.1f} s" if made.spills else ""
    moves = f", groups moved {made.decisions} times" if made.moves else ""
    return f"{made.results:,} of {made.total:,} results at run time{cleanup}{moves}"
