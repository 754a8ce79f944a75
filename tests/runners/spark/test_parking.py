"""Groups that are parked while a query runs on Spark: results stay, and who waits for all that came waits for them."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from tests.support.oracle import joined
from tests.support.spark_runs import PATIENCE_S, Collected

import watersmeet as wm
from watersmeet.adapt.cleaning.draining import Draining
from watersmeet.adapt.policy import Moment, Suggestion
from watersmeet.model.ids import SiteId
from watersmeet.state.changes import SpillGroups
from watersmeet.state.groups import GroupSet

pytestmark = pytest.mark.spark

EPOCHS, GROUPS = 6, 20
CONDITIONS = ["A.k = B.k", "B.m = C.m"]


@dataclass
class Parked:
    """Parks random groups of every operator, every epoch, and holds them all."""

    draining: Draining
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view):
        if view.manifest.cleaning is None:
            groups = {name: GroupSet.within(self.rng.random(GROUPS) < 0.5) for name in view.manifest.operators}
            self.draining.held = {name: GroupSet.all(GROUPS) for name in groups}
            change = SpillGroups(SiteId(0), groups, "test", reason="by lot", epoch_ms=(2, 1))
            yield Suggestion(change, groups)


class Late(Collected):
    """May fail from some step on."""

    fails_from = 1 << 30

    def __call__(self, rows, epoch):
        if epoch >= self.fails_from:
            raise OSError("no room for late results")
        super().__call__(rows, epoch)


def tables() -> dict[str, list[pa.Table]]:
    rng = np.random.default_rng(11)
    columns = {"A": ["k"], "B": ["k", "m"], "C": ["m"]}
    return {
        name: [pa.table({column: rng.integers(0, 60, 40) for column in some}) for _ in range(EPOCHS)]
        for name, some in columns.items()
    }


def started(spark, data, trigger):
    sink, flow = Late(), wm.Flow(spark)
    a, b, c = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in data.items())
    writer = a.join(b, on=CONDITIONS[0]).join(c, on=CONDITIONS[1]).writeStream.foreachBatch(sink)
    writer = writer.option("sites", 2).option("partitionGroups", GROUPS)
    with wm.testing.thrown(shortcut=False):
        query = writer.trigger(**trigger).start()
    coordinator = query._run.loop.stepper.coordinator  # noqa: SLF001
    policy = Parked(Draining())
    coordinator.cleaning.draining = policy.draining
    coordinator.policies = [*coordinator.policies, policy]
    return query, sink


@pytest.mark.long
def test_results_are_exact_at_the_end_and_what_was_parked_is_told(spark):
    data = tables()
    query, sink = started(spark, data, {"availableNow": True})
    assert query.awaitTermination(PATIENCE_S)
    assert query.exception() is None
    assert sink.rows == joined(data, CONDITIONS)
    parks = [event for event in query.events() if event["kind"] == "park"]
    assert parks
    assert parks[0] | {"groups": {}} == {
        "kind": "park",
        "epoch": parks[0]["epoch"],
        "reason": "by lot",
        "before": {"epochMs": 2},
        "after": {"epochMs": 1},
        "site": 0,
        "policy": "test",
        "bytes": 0,
        "groups": {},
    }
    assert any("were parked" in event["reason"] for event in query.events() if event["kind"] == "cleanup")


def test_who_waits_for_all_that_came_waits_for_what_is_parked(spark):
    data = tables()
    query, sink = started(spark, data, {"processingTime": "0 seconds"})
    query.registry.set("StreamEmpty", 1e6)  # nothing is drained because input pauses
    query.processAllAvailable()
    got = sink.rows
    steps = [report["customMetrics"] for report in query.recentProgress]
    query.stop()
    assert query.exception() is None
    assert got == joined(data, CONDITIONS)
    assert any(step.get("parkedGroups") for step in steps)
    assert "parkedGroups" not in steps[-1]


def test_a_failed_step_that_somebody_waits_for_ends_the_query_and_both_are_told_why(spark):
    query, sink = started(spark, tables(), {"processingTime": "0 seconds"})
    query.registry.set("StreamEmpty", 1e6)
    sink.fails_from = EPOCHS
    with pytest.raises(wm.WatersmeetError, match="no room for late results"):
        query.processAllAvailable()
    with pytest.raises(wm.WatersmeetError, match="no room for late results"):
        query.awaitTermination(PATIENCE_S)
    assert "no room for late results" in str(query.exception())
    assert not query.isActive


def test_who_waits_for_a_query_that_ends_by_itself_waits_for_its_last_cleanup(spark):
    data = tables()
    query, sink = started(spark, data, {"availableNow": True})
    query.processAllAvailable()
    assert sink.rows == joined(data, CONDITIONS)
    assert not query.isActive
