"""Everything wrong with a query is told before anything runs: what, why, and how to fix it."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.model import errors

pytestmark = pytest.mark.spark


@pytest.fixture
def flow(spark):
    return wm.Flow(spark)


@pytest.fixture
def streams(spark, flow):
    orders = pa.table({"id": [1, 2], "price": [5, 6], "name": ["x", "y"]})
    payments = pa.table({"order": [1], "cents": [500], "tags": [["a"]]})
    return flow.stream("O", wm.testing.replay(spark, [orders])), flow.stream("P", wm.testing.replay(spark, [payments]))


def started(relation, sink="noop", **options):
    query = relation.writeStream.format(sink).options(**options).trigger(availableNow=True).start()
    query.stop()


@pytest.mark.parametrize(
    ("on", "kind", "message"),
    [
        ("O.id = P.ordr", errors.UnknownNameError, "P.order"),
        ("O.id = Q.order", errors.UnknownNameError, "Q"),
        ("idd = P.order", errors.UnknownNameError, "O.id"),
        ("O.name = P.order", errors.TypeMismatchError, "string"),
        ("O.id = = P.order", errors.QueryError, "is not SQL"),
        ("O.id = P.tags", errors.QueryError, "P.tags"),
    ],
)
def test_a_wrong_condition_is_refused(flow, streams, on, kind, message):
    with pytest.raises(kind, match=message):
        flow.join(*streams, on=on)


def test_a_join_without_an_equality_a_window_or_a_budget_is_refused(flow, streams):
    with pytest.raises(errors.NoEqualityError, match="equality"):
        started(flow.join(*streams, on="O.price > P.cents").select("O.id AS id"))


def test_a_column_that_is_not_there_is_refused_with_the_nearest(flow, streams):
    joined = flow.join(*streams, on="O.id = P.order")
    with pytest.raises(errors.UnknownNameError, match=r"O\.price"):
        joined.select("O.prize")
    with pytest.raises(errors.UnknownNameError, match=r"P\.cents"):
        joined.where("P.cent > 3")


def test_a_function_that_is_not_there_is_refused(flow, streams):
    with pytest.raises(errors.QueryError, match=r"(?i)no_such_function"):
        flow.join(*streams, on="O.id = P.order").select("no_such_function(O.id)")


def test_an_aggregate_is_refused(flow, streams):
    joined = flow.join(*streams, on="O.id = P.order")
    with pytest.raises(errors.UnsupportedError, match=r"an aggregate.*groupBy"):
        started(joined.select(F.count("*")))


@pytest.mark.usefixtures("streams")
def test_two_streams_of_one_name_are_refused(spark, flow):
    with pytest.raises(errors.DuplicateNameError, match="two names"):
        flow.stream("o", wm.testing.replay(spark, [pa.table({"x": [1]})]))


def test_a_stream_joined_with_itself_under_one_name_is_refused(flow, streams):
    with pytest.raises(errors.DuplicateNameError):
        flow.join(streams[0], streams[0], on="O.id = O.id")


def test_a_stream_joins_itself_under_two_names(spark, flow):
    frame = wm.testing.replay(spark, [pa.table({"x": [1, 1, 2]})])
    joined = flow.join(flow.stream("L", frame), flow.stream("R", frame), on="L.x = R.x")
    query = joined.writeStream.format("memory").queryName("selfjoin").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert spark.table("selfjoin").count() == 5


def test_a_frame_that_is_not_a_stream_is_refused(spark, flow):
    with pytest.raises(errors.NotStreamingError, match="readStream"):
        flow.stream("S", spark.range(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memoryBudgt": "64m"}, "memoryBudget"),
        ({"memoryBudget": "lots"}, "64m"),
        ({"memoryBudget": "1.5g"}, "whole number"),
        ({"memoryBudget": "64bb"}, "64m"),
        ({"memoryBudget": "9" * 5000}, "64m"),
        ({"sites": "\u00b2"}, "4"),
        ({"sites": "9" * 5000}, "4"),
        ({"spillFraction": 2}, "0.3"),
        ({"spillStrategy": "adaptiv"}, "adaptive"),
        ({"partitionGroups": 0}, "300"),
        ({"sites": "two"}, "4"),
        ({"retainedVersions": -1}, "10"),
        ({"copyLocation": "ssd"}, "/mnt/ssd"),
        ({"adaptation": "flx"}, "'flux'"),
        ({"adaptation": "yes"}, "none, memory, lazy-disk, active-disk, flux, flux-memory, flux-hybrid, auto"),
        ({"siteWeights": "9;1"}, "9,1"),
        ({"ringRelocation": "passive"}, 'set ringGoal to "latency" or "output", or leave ringRelocation out'),
        ({"ringScheme": "psp", "ringGoal": "output"}, "ringGoal and ringScheme are set, and the query has no ring"),
        ({"siteWeights": "0,0"}, "not all of them 0"),
        ({"siteWeights": "1,-1"}, "0 or more"),
        ({"siteWeights": "1,nan"}, "0 or more"),
        ({"siteWeights": "1," * 5000}, "0 or more"),
        ({"siteWeights": "9,1", "sites": 3}, "write 3 numbers"),
        ({"copyLocation": "s3://bucket/copies"}, "absolute path"),
        ({"promiseRetention": "a while"}, "length of time"),
        ({"promiseRetention": "0 days"}, "no time at all"),
    ],
)
def test_a_wrong_option_is_refused(flow, streams, options, message):
    with pytest.raises(errors.OptionError, match=message):
        started(flow.join(*streams, on="O.id = P.order"), **options)


def test_files_need_a_checkpoint_and_a_path(flow, streams):
    joined = flow.join(*streams, on="O.id = P.order")
    with pytest.raises(errors.OptionError, match="checkpointLocation"):
        started(joined, "parquet", path="out")
    with pytest.raises(errors.OptionError, match="path"):
        started(joined, "parquet", checkpointLocation="ck")


def test_an_unwritable_checkpoint_is_refused(flow, streams, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(wm.WatersmeetError, match="checkpointLocation"):
        started(flow.join(*streams, on="O.id = P.order"), checkpointLocation=str(tmp_path / "file" / "ck"))


def test_a_folder_of_something_else_is_refused_and_left_alone(flow, streams, tmp_path):
    (tmp_path / "thesis.txt").write_text("do not touch")
    with pytest.raises(errors.CheckpointMismatchError, match=r"thesis\.txt"):
        started(flow.join(*streams, on="O.id = P.order"), checkpointLocation=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_every_error_is_a_watersmeet_error():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(issubclass(kind, wm.WatersmeetError) for kind in kinds)
