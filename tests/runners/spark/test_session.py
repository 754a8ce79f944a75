"""A user's session settings are respected and left as found."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.support.oracle import joined
from tests.support.spark_runs import run

import watersmeet as wm
from watersmeet.runners.spark.session import default_sites

pytestmark = pytest.mark.spark

PARALLELISM = "spark.default.parallelism"
ODD = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "Asia/Kathmandu",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.caseSensitive": "true",
}


@pytest.fixture
def odd_session(spark):
    before = {name: spark.conf.get(name, None) for name in ODD}
    for name, value in ODD.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value) if value is not None else spark.conf.unset(name)


def test_results_do_not_depend_on_the_session_and_the_session_stays_as_it_was(odd_session):
    spark = odd_session
    stamps = pa.array([0, 10**15, 2 * 10**15, None], pa.timestamp("us", "UTC"))
    data = {
        "A": [pa.table({"k": ["a", "b", "b", None], "K": [1, 2, 3, 4], "t": stamps})] * 2,
        "B": [pa.table({"k": ["b", "c", "a", None], "t": stamps})] * 2,
    }
    settings = {name: spark.conf.get(name) for name in ODD}
    everything = dict(spark.sparkContext.getConf().getAll())
    flow = wm.Flow(spark)
    a, b = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in data.items())
    got = run(a.join(b, on="A.k = B.k").select("A.k AS k", "A.K AS K2", "unix_micros(B.t) AS t"))
    plain = {"A": [part.rename_columns(["k", "other", "t"]) for part in data["A"]], "B": data["B"]}
    expected = joined(plain, ["A.k = B.k"], "A.k AS k, A.other AS K2, epoch_us(B.t) AS t")
    assert {name: spark.conf.get(name) for name in ODD} == settings
    assert dict(spark.sparkContext.getConf().getAll()) == everything
    assert got == expected
    assert not spark.streams.active


@pytest.mark.parametrize(
    ("conf", "sites"), [({}, 8), ({"spark.task.cpus": "2"}, 4), ({"spark.task.cpus": "2", PARALLELISM: "8"}, 8)]
)
def test_there_are_as_many_sites_as_tasks_can_run_and_not_as_cores(conf, sites):
    session = SimpleNamespace(_sc=SimpleNamespace(defaultParallelism=8), conf=conf)
    assert default_sites(session) == sites
