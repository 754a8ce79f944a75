"""Every site has one task, which gets all of the site's rows, however they are gathered."""

import numpy as np
import pyarrow as pa
import pytest
from tests.support.oracle import joined
from tests.support.spark_runs import run

import watersmeet as wm
from watersmeet.model.errors import WorkerError
from watersmeet.runners.spark.exchange import JoinExchange, UnionExchange, exchange_of
from watersmeet.runners.spark.levels import _after_anchor
from watersmeet.site.messages import SITE, TAG, Kind, tag_of


def test_rows_without_their_sites_row_are_refused_and_not_taken_for_all_of_them():
    rows = pa.record_batch({SITE: pa.array([2, 2], pa.int32()), TAG: pa.array([tag_of(Kind.SITE), 1], pa.int32())})
    assert _after_anchor(rows).column(TAG).to_pylist() == [1]
    with pytest.raises(WorkerError, match="without their site's row"):
        _after_anchor(rows.slice(1))


@pytest.mark.spark
@pytest.mark.parametrize("leads", [True, False], ids=["union", "join"])
@pytest.mark.parametrize("keys", [[5, 5, 5, 5], [1, 2, 3, 4]], ids=["one key", "some keys"])
def test_results_are_exact_whether_rows_are_gathered_by_union_or_by_join(spark, monkeypatch, leads, keys):
    monkeypatch.setattr("watersmeet.runners.spark.exchange.has_one_executor", lambda _: leads)
    tables = {name: [pa.table({"k": keys, "v": range(4)})] * 2 for name in "AB"}
    flow = wm.Flow(spark)
    a, b = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in tables.items())
    assert run(a.join(b, on="A.k = B.k"), sites=3) == joined(tables, ["A.k = B.k"])


@pytest.mark.spark
def test_keys_that_spark_knows_to_be_constant_do_not_confuse_sites(spark):
    tables = {name: [pa.table({"v": np.arange(4)})] * 2 for name in "AB"}
    flow = wm.Flow(spark)
    frames = {name: wm.testing.replay(spark, parts).selectExpr("7 AS k", "v") for name, parts in tables.items()}
    a, b = (flow.stream(name, frame) for name, frame in frames.items())
    expected = {
        name: [part.append_column("k", pa.array([7] * 4)).select(["k", "v"]) for part in parts]
        for name, parts in tables.items()
    }
    assert run(a.join(b, on="A.k = B.k"), sites=2) == joined(expected, ["A.k = B.k"])


@pytest.mark.spark
def test_an_anchor_has_a_row_for_every_site_in_a_partition_of_its_own(spark):
    exchange = exchange_of(spark, (3, 1, 0))
    try:
        assert isinstance(exchange, UnionExchange)
        assert sorted(row[SITE] for row in exchange.anchor.sites.collect()) == [0, 1, 3]
    finally:
        exchange.release()


@pytest.mark.spark
def test_with_several_executors_sites_are_joined_to_stay_where_they_are(spark, monkeypatch):
    monkeypatch.setattr("watersmeet.runners.spark.exchange.has_one_executor", lambda _: False)
    exchange = exchange_of(spark, (3, 1))
    exchange.release()
    assert isinstance(exchange, JoinExchange)


@pytest.mark.spark
@pytest.mark.parametrize("leads", [True, False], ids=["union", "join"])
def test_what_a_query_lets_go_of_stays_cached_for_another_with_as_many_sites(spark, monkeypatch, leads):
    monkeypatch.setattr("watersmeet.runners.spark.exchange.has_one_executor", lambda _: leads)
    mine, others = exchange_of(spark, (1, 0)), exchange_of(spark, (1, 0))
    try:
        others.release()
        assert mine.anchor.sites.storageLevel.useMemory
        assert not others.anchor.sites.storageLevel.useMemory
    finally:
        mine.release()
