"""Groups that move while a query runs on Spark: results stay, and Spark compiles nothing anew."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.oracle import joined
from tests.support.spark_runs import PATIENCE_S, Collected

import watersmeet as wm
from watersmeet.adapt.policy import Moment, Suggestion
from watersmeet.model.ids import SiteId
from watersmeet.state.changes import MoveGroups, SplitGroup
from watersmeet.state.groups import GroupSet
from watersmeet.state.splits import dealable

pytestmark = pytest.mark.spark

EPOCHS, WARM, GROUPS = 12, 6, 20
CONDITIONS = ["A.k = B.k", "B.m = C.m"]


@dataclass
class Shuffled:
    """Moves random groups of every operator between two sites, every epoch."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view):
        for name in view.manifest.operators:
            lots = self.rng.random(GROUPS)
            for before, chosen in ((0, lots < 0.3), (1, lots > 0.7)):
                groups = GroupSet.within(chosen)
                change = MoveGroups(name, groups, SiteId(before), SiteId(1 - before), "test", reason="by lot")
                yield Suggestion(change, {name: groups})


@dataclass
class Divided:
    """Splits random groups of every operator over both sites, or makes them whole, every epoch."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(6))
    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view):
        for operator in view.manifest.plan.operators:
            state = view.manifest.operators[operator.id]
            for group in np.flatnonzero(self.rng.random(GROUPS) < 0.5).tolist():
                own, inputs = state.routing[group], dealable(operator)
                after = (own, SiteId(1 - own)) if self.rng.random() < 0.7 else (own,)
                source = inputs[self.rng.integers(len(inputs))]
                change = SplitGroup(operator.id, group, source, (own,), after, "test", reason="by lot")
                yield Suggestion(change, {operator.id: GroupSet.of([group])})


class Counted(Collected):
    """Counts how often Spark has compiled code up to the end of each epoch."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self._times = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()  # noqa: SLF001
        self.compiled: list[int] = []

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        super().__call__(rows, epoch)
        self.compiled.append(int(self._times.getCount()))


def tables(kind: pa.DataType) -> dict[str, list[pa.Table]]:
    rng = np.random.default_rng(11)
    columns = {"A": ["k"], "B": ["k", "m"], "C": ["m"]}
    keys = {(name, column): rng.integers(0, 60, (EPOCHS, 40)) for name, some in columns.items() for column in some}
    return {
        name: [pa.table({c: pa.array(keys[name, c][epoch]).cast(kind) for c in some}) for epoch in range(EPOCHS)]
        for name, some in columns.items()
    }


CASES = [(Shuffled, "move"), (Divided, "split")]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pytest.param(pa.string(), marks=pytest.mark.slow)], ids=["parcels", "slots"]
)
@pytest.mark.parametrize("shortcut", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize(("policy", "event"), CASES, ids=[name for _, name in CASES])
def test_another_routing_in_every_epoch_is_exact_and_compiled_once(spark, kind, shortcut, policy, event):
    data, sink, flow = tables(kind), Counted(spark), wm.Flow(spark)
    a, b, c = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in data.items())
    writer = a.join(b, on=CONDITIONS[0]).join(c, on=CONDITIONS[1]).writeStream.foreachBatch(sink)
    writer = writer.option("sites", 2).option("partitionGroups", GROUPS).option("siteWeights", "1,0")
    with wm.testing.thrown(shortcut=shortcut):
        query = writer.trigger(availableNow=True).start()
    coordinator = query._run.loop.stepper.coordinator  # noqa: SLF001
    coordinator.policies = [*coordinator.policies, policy()]
    assert query.awaitTermination(PATIENCE_S)
    assert query.exception() is None
    assert sink.rows == joined(data, CONDITIONS)
    told = Counter(each["epoch"] for each in query.events() if each["kind"] == event)
    assert len(told) >= WARM, "nothing has happened"
    assert "adaptation auto" in query.plan
    assert sink.compiled[-1] - sink.compiled[WARM] == 0, sink.compiled


def test_rows_with_a_column_that_spark_does_not_hash_are_dealt_out(spark):
    rng = np.random.default_rng(12)
    keys = rng.integers(0, 9, (4, 30))
    told = [pa.table({"v": [f'{{"id": {key}}}' for key in some], "n": range(len(some))}) for some in keys]
    others = [pa.table({"k": np.arange(9), "m": np.arange(9) + 10 * epoch}) for epoch in range(4)]
    parsed = wm.testing.replay(spark, told).select(F.parse_json("v").alias("v"), "n")
    flow, sink = wm.Flow(spark), Collected()
    a, b = flow.stream("A", parsed), flow.stream("B", wm.testing.replay(spark, others))
    joined_rows = a.join(b, on="variant_get(A.v, '$.id', 'bigint') = B.k").select("A.n", "B.m")
    writer = joined_rows.writeStream.foreachBatch(sink).option("sites", 2).option("partitionGroups", GROUPS)
    with wm.testing.thrown(shortcut=False):
        query = writer.trigger(availableNow=True).start()
    coordinator = query._run.loop.stepper.coordinator  # noqa: SLF001
    coordinator.policies = [*coordinator.policies, Divided()]
    assert query.awaitTermination(PATIENCE_S)
    assert any(each["kind"] == "split" for each in query.events())
    assert sum(sink.rows.values()) == 30 * 4 * 4
