"""Whatever is wrong with a call is told in words: what, why, and how to fix it."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.api.refusals import REFUSED

pytestmark = pytest.mark.spark
OUT, KEPT = "nowhere/out", "nowhere/checkpoint"
ITSELF = F.udf(lambda value: value, useArrow=False)
KEEP = {"checkpointLocation": KEPT}


@pytest.fixture(scope="module")
def world(spark):
    flow = wm.Flow(spark)
    orders = pa.table({"id": [1], "price": [5], "name": ["x"], "tags": [{"a": 1}], "m": [1.5]})
    payments = pa.table({"order": [1], "cents": [500], "name": ["y"]})
    a = flow.stream("A", wm.testing.replay(spark, [orders]))
    b = flow.stream("B", wm.testing.replay(spark, [payments]))
    other = wm.Flow(spark).stream("Z", wm.testing.replay(spark, [payments]))
    rates = spark.readStream.format("rate").load()
    return {"spark": spark, "rates": rates, "flow": flow, "a": a, "b": b, "j": a.join(b, "A.id = B.order"), "z": other}


def writer(w):
    return w["j"].select("A.id", "B.cents").writeStream.format("noop")


CALLS = {
    "a session that is none": lambda _: wm.Flow("local[2]"),
    "no session": lambda _: wm.Flow(None),
    "a stream of a list": lambda w: w["flow"].stream("C", [1, 2]),
    "a stream of a table": lambda w: w["flow"].stream("C", w["spark"].range(3)),
    "a stream without a name": lambda w: w["flow"].stream("", w["rates"]),
    "a stream with a number for a name": lambda w: w["flow"].stream(7, w["rates"]),
    "a stream of a taken name": lambda w: w["flow"].stream("a", w["rates"]),
    "a join with a frame": lambda w: w["a"].join(w["spark"].range(3), "id"),
    "a join with a number": lambda w: w["a"].join(3, "id"),
    "a join with nothing": lambda w: w["a"].join(None, "id"),
    "a join of one": lambda w: w["flow"].join(w["a"], on="A.id = A.id"),
    "a join of none": lambda w: w["flow"].join(on="A.id = B.id"),
    "a join without a condition": lambda w: w["a"].join(w["b"]),
    "a join on an empty list": lambda w: w["a"].join(w["b"], []),
    "a join on a number": lambda w: w["a"].join(w["b"], on=3),
    "a join on numbers": lambda w: w["a"].join(w["b"], on=[3, 4]),
    "a join on an empty text": lambda w: w["a"].join(w["b"], ""),
    "a join on a column of one side": lambda w: w["a"].join(w["b"], "id"),
    "a join on a column of neither": lambda w: w["a"].join(w["b"], ["name", "day"]),
    "a join on a boolean": lambda w: w["a"].join(w["b"], on=True),
    "a join on an inequality": lambda w: (
        w["a"].join(w["b"], "A.price > B.cents").writeStream.format("noop").start()
    ),
    "a join on what is no condition": lambda w: w["a"].join(w["b"], "A.id = B.order AND B.cents + 1"),
    "a join on a Python function": lambda w: w["a"].join(w["b"], F.udf(lambda x: x, "boolean", useArrow=False)("A.id")),
    "a join on a Column of nobody": lambda w: w["a"].join(w["b"], F.col("A.id") == F.col("Q.id")),
    "a join on types that differ": lambda w: w["a"].join(w["b"], "A.name = B.order"),
    "a join on a map": lambda w: w["a"].join(w["b"], "map(A.id, 1) = map(B.order, 1)"),
    "a cross join": lambda w: w["a"].join(w["b"], "A.id = B.order", "cross"),
    "a join of no kind": lambda w: w["a"].join(w["b"], "A.id = B.order", "sideways"),
    "a join of kind 3": lambda w: w["a"].join(w["b"], "A.id = B.order", how=3),
    "a join with too many arguments": lambda w: w["a"].join(w["b"], "A.id = B.order", "inner", "more"),
    "a join with oneself": lambda w: w["a"].join(w["a"], "id"),
    "a join across flows": lambda w: w["a"].join(w["z"], "A.id = Z.order"),
    "a join after a Python function": lambda w: w["a"].select(ITSELF("id").alias("s")).join(w["b"], "s = name"),
    "a filter that is a number": lambda w: w["j"].where(3),
    "a filter that is nothing": lambda w: w["j"].filter(None),
    "a filter that is no condition": lambda w: w["j"].where("A.price + 1"),
    "a Column filter that is no condition": lambda w: w["j"].where(F.col("A.price") + 1),
    "a filter that is no SQL": lambda w: w["j"].where("A.price >"),
    "a filter of an ambiguous name": lambda w: w["j"].where("name = 'x'"),
    "a filter with an aggregate": lambda w: w["j"].where("sum(A.price) > 3"),
    "a filter with a subquery": lambda w: w["j"].where("A.id IN (SELECT 1)"),
    "a select of nothing": lambda w: w["j"].select(),
    "a select of a number": lambda w: w["j"].select(3),
    "a select of a misspelt name": lambda w: w["j"].select("A.prize"),
    "a select of a stream that is none": lambda w: w["j"].select("C.id"),
    "a select of a field that is none": lambda w: w["j"].select("A.tags.b"),
    "a select of a star of a column": lambda w: w["j"].select("A.price.*"),
    "a select of an unknown function": lambda w: w["j"].select("frobnicate(A.id)"),
    "a select of an aggregate": lambda w: w["j"].select("count(*)"),
    "a select of an aggregate Column": lambda w: w["j"].select(F.count("*")),
    "a select of a Column that is none": lambda w: w["j"].select(F.col("nope")),
    "selectExpr of a Column": lambda w: w["j"].selectExpr(F.col("A.id")),
    "withColumn without a name": lambda w: w["j"].withColumn(F.col("A.id"), "x"),
    "withColumn of a number": lambda w: w["j"].withColumn("x", 3),
    "withColumns of a list": lambda w: w["j"].withColumns(["x"]),
    "withColumnRenamed to nothing": lambda w: w["j"].withColumnRenamed("A", ""),
    "drop of everything": lambda w: w["j"].drop("A", "B"),
    "an alias that is no name": lambda w: w["a"].alias("not a name"),
    "an alias that is taken": lambda w: w["a"].alias("B"),
    "an attribute that is none": lambda w: w["a"].prize,
    "a subscript that is none": lambda w: w["a"]["prize"],
    "a subscript beyond the columns": lambda w: w["a"][17],
    "a transform that gives nothing": lambda w: w["a"].transform(lambda _: None),
    "a format that is a number": lambda w: writer(w).format(3),
    "foreachBatch of a text": lambda w: writer(w).foreachBatch("f"),
    "foreach of a text": lambda w: writer(w).foreach("f"),
    "an output mode that is none": lambda w: writer(w).outputMode("sometimes"),
    "the complete output mode": lambda w: writer(w).outputMode("complete"),
    "an output mode of a number": lambda w: writer(w).outputMode(1),
    "one trigger twice": lambda w: writer(w).trigger(once=True, availableNow=True),
    "two triggers": lambda w: writer(w).trigger(once=True, processingTime="1 second"),
    "no trigger": lambda w: writer(w).trigger(),
    "a continuous trigger": lambda w: writer(w).trigger(continuous="1 second"),
    "an interval that is none": lambda w: writer(w).trigger(processingTime="soon"),
    "an interval that is a number": lambda w: writer(w).trigger(processingTime=3),
    "an option without a name": lambda w: writer(w).option(3, 4),
    "an option that is none": lambda w: writer(w).option("sitess", 4).start(),
    "a query name that is a number": lambda w: writer(w).queryName(3),
    "a partition that is no column": lambda w: writer(w).format("parquet").partitionBy("di").start(OUT, **KEEP),
    "all columns as partitions": lambda w: writer(w).format("parquet").partitionBy("id", "cents").start(OUT, **KEEP),
    "a format without a data source": lambda w: writer(w).format("parket").start(OUT, **KEEP),
    "no path": lambda w: writer(w).format("parquet").start(**KEEP),
    "no checkpoint": lambda w: writer(w).format("parquet").start(OUT),
    "clusterBy without a table": lambda w: writer(w).clusterBy("id").start(),
    "a memory table without a name": lambda w: writer(w).format("memory").start(),
    "a stream that is not joined": lambda w: w["a"].writeStream.format("noop").start(),
    "two columns of one name in files": lambda w: w["j"].select("A.name", "B.name").writeStream.start(OUT, **KEEP),
    "structs in csv": lambda w: w["j"].writeStream.format("csv").start(OUT, **KEEP),
    "numbers in text": lambda w: w["j"].select("A.id").writeStream.format("text").start(OUT, **KEEP),
    "results in the checkpoint": lambda w: writer(w).format("parquet").start(f"{KEPT}/out", **KEEP),
    "a table of no catalog": lambda w: writer(w).toTable("no_such_catalog.no_such_schema.t", **KEEP),
    "window without time": lambda w: w["flow"].stream("W", w["rates"], window="1 hour"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_says_what_is_wrong_why_and_how_to_fix_it(world, name):
    with pytest.raises(wm.WatersmeetError) as caught:
        CALLS[name](world)
    error = caught.value
    assert error.what
    assert error.why
    assert error.how


def test_there_are_many_of_them():
    assert len(CALLS) >= 60


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_makes_no_sense_on_a_stream_says_what_to_do(world, name):
    with pytest.raises(wm.errors.UnsupportedCallError, match="To fix it"):
        getattr(world["j"], name)


def test_a_session_of_connect_is_refused_with_the_way_out():
    class SparkSession:
        """Looks like one of Connect."""

    SparkSession.__module__ = "pyspark.sql.connect.session"
    with pytest.raises(wm.UnsupportedError, match="spark-submit"):
        wm.Flow(SparkSession())


def test_all_errors_are_in_the_errors_module_and_the_usual_ones_at_the_top():
    assert issubclass(wm.errors.CheckpointInUseError, wm.CheckpointError)
    assert issubclass(wm.errors.UnknownNameError, wm.QueryError)
    known = {name for name in dir(wm.errors) if name.endswith("Error")}
    from watersmeet.model import errors  # noqa: PLC0415

    assert known == {name for name in dir(errors) if name.endswith("Error")}
