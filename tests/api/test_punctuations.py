"""Punctuations and unique keys on Spark: values, sets, ranges and ends, what they let go, and what breaks them."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.spark_runs import PATIENCE_S, Collected

import watersmeet as wm
from watersmeet.api.checks import check_ends
from watersmeet.testing import replay

pytestmark = pytest.mark.spark

ITEMS = [pa.table({"id": [1, 2, 3, 4]}), pa.table({"id": [5]}), pa.table({"id": pa.array([], pa.int64())})]
BIDS = [pa.table({"item": [1, 1, 2], "v": [10, 11, 20]}), pa.table({"item": [1, 2, 3], "v": [12, 21, 30]})]
BIDS += [pa.table({"item": [3, 4, 5], "v": [31, 40, 50]})]
NONE = pa.table({"item": pa.array([], pa.int64())})


def run(relation, name, **options):
    writer = relation.writeStream.format("memory").queryName(name).option("sites", 2)
    for key, value in options.items():
        writer = writer.option(key, value)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query


def rejected(query):
    told = [each["customMetrics"].get("rejected") or [] for each in query.recentProgress]
    return [(one["stream"], one["reason"], one["rows"]) for each in told for one in each]


def values(spark, name):
    return sorted(row.v for row in spark.table(name).collect())


def joined(spark, promises, transform=lambda df: df, how="inner"):
    flow = wm.Flow(spark)
    items, bids = flow.stream("I", replay(spark, ITEMS)), flow.stream("B", replay(spark, BIDS))
    flow.punctuations("B", transform(replay(spark, promises)))
    return items.join(bids, on="I.id = B.item", how=how)


@pytest.mark.parametrize(
    ("transform", "told"),
    [
        (lambda df: df, [11, 10, 20, 21, 30, 31, 40, 50]),
        (lambda df: df.select(F.array("item", F.lit(2)).alias("item")), [10, 11, 20, 30, 31, 40, 50]),
        (
            lambda df: df.select(F.struct(F.col("item").alias("low"), F.lit(3).alias("high")).alias("ITEM")),
            [10, 11, 20, 30, 31, 40, 50],
        ),
        (lambda df: df.select(F.lit(None).cast("long").alias("item")), [10, 11, 20]),
    ],
    ids=["a value", "a set", "a range", "the end"],
)
def test_rows_that_match_are_rejected(spark, transform, told):
    query = run(joined(spark, [pa.table({"item": [1]}), NONE, NONE], transform).select("B.v"), "rejecting")
    assert values(spark, "rejecting") == sorted(told)
    missing = len(told) - 9
    assert sum(rows for _, _, rows in rejected(query)) == -missing
    assert {reason for _, reason, _ in rejected(query)} == {"punctuated"}


def test_a_set_of_nulls_says_nothing_and_no_set_says_anything(spark, tmp_path):
    """Read from a file, where Spark cannot compact an array without values."""
    for name, values_of in (("nulls", [[None]]), ("some", [[None, 3]])):
        sets = pa.table({"item": pa.array(values_of, pa.list_(pa.int64()))})
        frame = wm.testing.replay(spark, [sets, sets.slice(0, 0), sets.slice(0, 0)], str(tmp_path / name))
        flow = wm.Flow(spark)
        items = pa.table({"item": [1, 3]})
        a, b = (flow.stream(each, wm.testing.replay(spark, [items] * 3)) for each in "AB")
        flow.punctuations("A", frame)
        query = run(a.join(b, "item").select("A.item"), f"set_of_{name}")
        refused = sum(rows for _, _, rows in rejected(query))
        assert refused == (2 if name == "some" else 0)


def test_a_relation_in_place_of_a_name_is_refused(spark):
    flow, frame = wm.Flow(spark), wm.testing.replay(spark, [NONE])
    with pytest.raises(wm.QueryError, match=r'flow\.punctuations\("A", df\)'):
        flow.punctuations(flow.stream("A", frame), frame)


def test_rows_without_a_match_come_in_the_epoch_after_and_are_let_go(spark):
    sink = Collected()
    promises = [pa.table({"item": [2, 4]}), NONE, NONE]
    rows = joined(spark, promises, how="left").select("I.id AS id", "B.v AS v")
    query = rows.writeStream.foreachBatch(sink).options(sites=2).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    alone = {
        epoch: [row["id"] for row in table.to_pylist() if row["v"] is None] for epoch, table in sink.epochs.items()
    }
    assert [sorted(ids) for _, ids in sorted(alone.items()) if ids] == [[4]]
    assert alone[1] == [4]
    assert query.state().where("operator LIKE 'promises%'").count() == 1


def test_a_group_is_final_once_all_streams_have_promised_its_key(spark):
    flow = wm.Flow(spark)
    items, bids = flow.stream("I", replay(spark, ITEMS), unique="id"), flow.stream("B", replay(spark, BIDS))
    flow.punctuations("B", replay(spark, [pa.table({"item": [1]}), pa.table({"item": [2]}), NONE]))
    groups = items.join(bids, on="I.id = B.item").groupBy("I.id").agg("sum(B.v) AS v", "count(*) AS n")
    run(groups, "final_groups")
    assert sorted((row.id, row.v, row.n) for row in spark.table("final_groups").collect()) == [(1, 21, 2), (2, 41, 2)]


def test_promises_about_what_the_stream_does_not_have_are_refused(spark):
    flow, frame = wm.Flow(spark), replay(spark, BIDS)
    flow.stream("B", frame)
    with pytest.raises(wm.errors.UnknownNameError, match="there is no stream X"):
        flow.punctuations("X", frame)
    with pytest.raises(wm.errors.UnknownNameError, match=r"no column itm, which a promise names.*item"):
        flow.punctuations("B", frame.select(F.col("item").alias("itm")))
    with pytest.raises(wm.errors.TypeMismatchError, match=r"have item as string, the stream has it as bigint.*cast"):
        flow.punctuations("B", frame.select(F.col("item").cast("string")))
    with pytest.raises(wm.errors.TypeMismatchError, match="have item as struct"):
        flow.punctuations("B", frame.select(F.struct("item", "v", "v").alias("item")))
    with pytest.raises(wm.errors.NotStreamingError, match="punctuations of stream B is not a stream"):
        flow.punctuations("B", spark.range(1))
    with pytest.raises(wm.errors.UnknownNameError, match="no column idd, which a promise names"):
        flow.stream("C", frame, unique="idd")
    with pytest.raises(wm.errors.QueryError, match="unique of stream C is 3"):
        flow.stream("C", frame, unique=3)


def test_a_stream_has_punctuations_of_several_kinds(spark):
    flow = wm.Flow(spark)
    items, bids = flow.stream("I", replay(spark, ITEMS)), flow.stream("B", replay(spark, BIDS))
    high = F.struct(F.col("item").alias("low"), F.lit(None).cast("bigint").alias("high"))
    flow.punctuations("B", replay(spark, [pa.table({"item": [1]}), NONE, NONE]))
    flow.punctuations("B", replay(spark, [NONE, pa.table({"item": [5]}), NONE]).select(high.alias("ITEM")))
    flow.punctuations("B", replay(spark, [pa.table({"v": [21]}), pa.table({"v": [40]}), pa.table({"v": [1]})]))
    query = run(items.join(bids, on="I.id = B.item").select("B.v"), "several")
    assert values(spark, "several") == [10, 11, 20, 30, 31]
    assert sum(rows for _, _, rows in rejected(query)) == 4
    assert [each.field for each in items.join(bids, on="I.id = B.item").plan().streams[1].punctuated] == ["item", "v"]


def test_no_range_and_no_value_say_nothing(spark):
    flow = wm.Flow(spark)
    items, bids = flow.stream("I", replay(spark, ITEMS)), flow.stream("B", replay(spark, BIDS))
    told = [pa.table({"item": [1]}), NONE, NONE]
    for low, high in ((3, 3), (3, 1)):
        empty = F.struct(F.lit(low).cast("bigint").alias("low"), F.lit(high).cast("bigint").alias("high"))
        flow.punctuations("B", replay(spark, told).select(empty.alias("item")))
    flow.punctuations("B", replay(spark, told).select(F.array().cast("array<bigint>").alias("item")))
    query = run(items.join(bids, on="I.id = B.item").select("B.v"), "nothing")
    assert values(spark, "nothing") == [10, 11, 12, 20, 21, 30, 31, 40, 50]
    assert rejected(query) == []


def test_another_name_of_a_stream_has_its_punctuations_whichever_comes_first(spark):
    flow = wm.Flow(spark)
    bids = flow.stream("B", replay(spark, BIDS))
    others = [bids.alias("C")]
    flow.punctuations("B", replay(spark, [NONE]))
    others.append(bids.alias("D"))
    for other in others:
        planned = bids.join(other, "item").plan()
        assert all(stream.punctuated for stream in planned.streams)


def test_rows_and_groups_that_punctuations_may_let_out_are_not_warned_of(spark):
    left = joined(spark, [NONE], how="left")
    flow = wm.Flow(spark)
    items, bids = flow.stream("I", replay(spark, ITEMS), unique="id"), flow.stream("B", replay(spark, BIDS))
    groups = items.join(bids, on="I.id = B.item").groupBy("I.id").count()
    with pytest.warns(UserWarning, match="groups never come out.*punctuations"):
        check_ends(groups.plan(), {"availableNow": True}, ends_input=False)
    flow.punctuations("B", replay(spark, [NONE]))
    for relation in (left, groups):
        check_ends(relation.plan(), {"availableNow": True}, ends_input=False)


@pytest.mark.long
@pytest.mark.parametrize(("retention", "rows"), [("1 minute", [2]), ("1 day", [])])
def test_promises_are_forgotten_after_their_retention(spark, retention, rows):
    times = [datetime(2026, 1, 1, 12, minute, tzinfo=UTC) for minute in (0, 30, 30, 30, 30, 31)]
    bids = [pa.table({"item": [1 if n in (0, 5) else 9], "v": [n], "at": [time]}) for n, time in enumerate(times)]
    promises = [pa.table({"item": [1]}), *[NONE] * 5]
    items = [pa.table({"id": [key]}) for key in (0, 0, 0, 0, 0, 1)]
    flow = wm.Flow(spark)
    b = flow.stream("B", replay(spark, bids), time="at", watermark="0 seconds")
    flow.punctuations("B", replay(spark, promises))
    joined = flow.stream("I", replay(spark, items)).join(b, on="I.id = B.item").select("B.v - 3 AS v")
    query = run(joined, f"kept_for_{retention.replace(' ', '_')}", promiseRetention=retention)
    assert [row.v for row in spark.table(f"kept_for_{retention.replace(' ', '_')}").collect() if row.v > 0] == rows
    assert bool(rejected(query)) == (not rows)


def test_a_unique_row_that_a_condition_leaves_out_is_still_the_only_one_of_its_key(spark):
    flow, sink = wm.Flow(spark), Collected()
    items = flow.stream("I", replay(spark, ITEMS))
    prices = [pa.table({"item": [1, 2], "v": [10, 11]}), *[pa.table({"item": [9 + n], "v": [0]}) for n in range(2)]]
    bids = flow.stream("B", replay(spark, prices), unique="item")
    rows = items.join(bids, "I.id = B.item AND B.v % 2 = 0", "left").select("I.id AS id", "B.v AS v")
    query = rows.writeStream.foreachBatch(sink).options(sites=2).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    told = sorted((row["id"], row["v"]) for table in sink.epochs.values() for row in table.to_pylist())
    assert told == [(1, 10), (2, None)]
