"""Spills and cleanup through the public API: what a user sees of them, at run time, when idle and after restarts."""

import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.oracle import difference, joined, multiset

import watersmeet as wm

pytestmark = pytest.mark.spark
CONDITIONS = ("A.k = B.k", "B.m = C.m")
BUDGET = 6_000


class Files:
    """Three streams of files that grow while the query runs, and a sink that keeps what it is given by epoch."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder, self.rng = spark, folder, np.random.default_rng(1)
        self.tables: dict[str, list[pa.Table]] = {name: [] for name in "ABC"}
        self.epochs: dict[int, pa.Table] = {}
        for name in "ABC":
            (folder / name).mkdir()

    def arrive(self, rows: int = 120) -> None:
        for name, tables in self.tables.items():
            numbers = {"k": self.rng.integers(0, 40, rows), "m": self.rng.integers(0, 40, rows)}
            tables.append(pa.table({**numbers, "id": np.arange(rows) + rows * len(tables)}))
            file = self.folder / name / f"{len(tables):03}.parquet"
            pq.write_table(tables[-1], file.with_suffix(".part"))
            file.with_suffix(".part").rename(file)

    def start(self, *, now: bool = False, **options: object) -> wm.Query:
        flow = wm.Flow(self.spark)
        reader = self.spark.readStream.schema("k long, m long, id long").option("maxFilesPerTrigger", 1)
        a, b, c = (
            flow.stream(name, reader.option("pathGlobFilter", "*.parquet").parquet(f"{self.folder}/{name}"))
            for name in "ABC"
        )
        rows = a.join(b, on=CONDITIONS[0]).join(c, on=CONDITIONS[1]).select("A.id AS a", "B.id AS b", "C.id AS c")
        writer = rows.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self.folder / "checkpoint"))
        given = {"sites": 2, "memoryBudget": BUDGET, **options}
        writer = writer.options(**{name: value for name, value in given.items() if value is not None})
        return writer.trigger(**({"availableNow": True} if now else {"processingTime": "0 seconds"})).start()

    def paused(self, epochs: int, **options: object) -> wm.Query:
        """A query that has joined some epochs and cleans nothing by itself."""
        for _ in range(epochs):
            self.arrive()
        query = self.start(**{"cleanup": "end", **options})
        query.processAllAvailable()
        return query

    def _keep(self, rows, epoch: int) -> None:
        self.epochs[epoch] = rows.toArrow()

    def difference(self) -> str | None:
        got = multiset(pa.concat_tables(self.epochs.values()))
        expected = joined(self.tables, CONDITIONS, "A.id AS a, B.id AS b, C.id AS c")
        return None if got == expected else difference(got, expected)


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path)


def test_live_bytes_stay_below_the_budget_and_events_tell_why(files):
    for _ in range(5):
        files.arrive()
    query = files.start(now=True)
    assert query.awaitTermination(120)
    assert files.difference() is None
    epochs = [report["customMetrics"] for report in query.recentProgress]
    assert all(live <= BUDGET for each in epochs for live in each["liveBytes"])
    spills = [event for event in query.events() if event["kind"] == "spill"]
    assert spills
    assert all(event["before"]["liveBytes"] > BUDGET >= event["after"]["liveBytes"] for event in spills)
    assert all(event["bytes"] >= 0.3 * event["before"]["liveBytes"] for event in spills)
    cleanup = [each["cleanup"] for each in epochs if "cleanup" in each]
    assert cleanup[-1]["groupsLeft"] == 0
    first, last = query.recentProgress[0], query.lastProgress
    assert "cleanup" in last["customMetrics"]
    assert set(first) <= set(last), "a report of cleanup has all that Spark's have"
    assert set(first["sink"]) <= set(last["sink"])
    assert last["sink"]["numOutputRows"] == last["customMetrics"]["results"]
    assert sum(each["rowsOut"] for each in epochs) == len(pa.concat_tables(files.epochs.values()))
    assert {each["cleanup"]["operator"] for each in epochs if "cleanup" in each} == {"join1", "join2"}
    assert list(files.epochs) == list(range(len(files.epochs))), "a step below the root is none of the sink's"
    assert sorted({each["step"] for each in epochs}) == list(files.epochs)


@pytest.mark.long
def test_state_shows_tiers_and_generations(files):
    query = files.paused(5)
    rows = query.state().collect()
    tiers = {(row.tier, row.generation > 0) for row in rows}
    assert tiers == {("memory", False), ("disk", True)}
    assert sum(row.output for row in rows) > 0
    assert sum(row.inter for row in rows if row.operator == "join1") > 0
    query.stop()


def test_cleanup_on_demand_completes_the_results_and_the_query_goes_on(files):
    query = files.paused(4)
    assert files.difference() is not None, "nothing was missing: the test shows nothing"
    query.cleanup()
    assert files.difference() is None
    for _ in range(2):
        files.arrive()
    query.cleanup()
    assert files.difference() is None
    query.stop()


@pytest.mark.long
def test_missing_results_come_by_themselves_when_input_pauses(files):
    query = files.paused(4, cleanup="idle")
    deadline = time.monotonic() + 90
    while query.isActive and files.difference() is not None and time.monotonic() < deadline:
        time.sleep(0.5)
    assert files.difference() is None
    files.arrive()
    query.processAllAvailable()
    query.cleanup()
    assert files.difference() is None
    query.stop()


@pytest.mark.slow
def test_a_group_whose_results_are_complete_is_live_again_where_there_is_room(files):
    query = files.paused(4)
    query.stop()
    query = files.start(memoryBudget="10m", cleanup="end")
    query.cleanup()
    assert files.difference() is None
    assert {row.tier for row in query.state().collect()} == {"memory"}
    query.stop()


@pytest.mark.slow
def test_a_stopped_query_goes_on_with_what_it_had_spilled(files):
    query = files.paused(3)
    query.stop()
    with pytest.raises(wm.WatersmeetError, match="start it again"):
        query.cleanup()
    files.arrive()
    query = files.start(now=True, spillStrategy="lru")
    assert query.awaitTermination(120)
    assert files.difference() is None
    files.arrive()
    query = files.start(now=True, memoryBudget="1k")
    assert query.awaitTermination(120)
    assert files.difference() is None


@pytest.mark.slow
def test_a_checkpoint_with_spilled_groups_can_go_on_without_a_budget(files):
    query = files.paused(3)
    query.stop()
    files.arrive()
    query = files.start(now=True, memoryBudget=None)
    assert query.awaitTermination(120)
    assert files.difference() is None


def test_an_operator_of_whose_first_input_nothing_is_kept_hands_up_its_results(spark):
    flow, keys = wm.Flow(spark), pa.table({"k": [1, 2], "j": [3, 3], "id": [10, 20]})
    a, b, c = (flow.stream(name, wm.testing.replay(spark, [keys])) for name in "ABC")
    rows = a.join(b, on="A.k = B.k").join(c, on="B.j = C.j").select("B.id AS b", "C.id AS c")
    query = rows.writeStream.format("memory").queryName("kept").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(map(tuple, spark.table("kept").collect())) == [(10, 10), (10, 20), (20, 10), (20, 20)]


@pytest.mark.long
def test_a_cleanup_that_waits_for_a_batch_does_not_go_on_if_the_batch_fails(files):
    query = files.paused(3)
    query.stop()
    keep, begun = files._keep, threading.Event()  # noqa: SLF001

    def fail(rows, epoch):
        keep(rows, epoch)
        begun.set()
        time.sleep(1)  # meanwhile the cleanup waits for its turn
        raise OSError("the sink is gone")

    files._keep = fail  # noqa: SLF001
    files.arrive()
    query = files.start(cleanup="end")
    run = query._run  # noqa: SLF001
    version = run.manifest.version
    assert begun.wait(60)
    with pytest.raises(wm.WatersmeetError, match="this run of the query has ended"):
        run.loop.clean("idle")
    with pytest.raises(Exception, match="the sink is gone"):
        query.awaitTermination()
    assert run.manifest.version == version
    files._keep = keep  # noqa: SLF001
    query = files.start(now=True)
    assert query.awaitTermination(120)
    assert files.difference() is None


@pytest.mark.long
def test_stop_waits_for_the_step_of_cleanup_that_is_under_way(files):
    query = files.paused(3)
    keep, begun, given = files._keep, threading.Event(), []  # noqa: SLF001
    query.stop()

    def slowly(rows, epoch):
        begun.set()
        time.sleep(2)
        keep(rows, epoch)
        given.append(epoch)

    files._keep = slowly  # noqa: SLF001
    query = files.start(cleanup="idle")
    assert begun.wait(60)
    query.stop()
    seen = list(given)
    assert seen
    time.sleep(2.5)
    assert given == seen
    files._keep = keep  # noqa: SLF001
    query = files.start(now=True)
    assert query.awaitTermination(120)
    assert files.difference() is None
