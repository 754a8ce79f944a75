"""A relation has what a Spark user expects of a DataFrame."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.oracle import multiset
from tests.support.spark_runs import run

import watersmeet as wm

pytestmark = pytest.mark.spark
TEXT = F.udf(lambda value: f"{value}!", useArrow=False)


@pytest.fixture
def pair(spark):
    flow = wm.Flow(spark)
    left = pa.table({"id": [1, 2], "name": ["a", "b"], "at": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]})
    right = pa.table({"id": [1, 2], "cents": [10, 20]})
    return [flow.stream(name, wm.testing.replay(spark, [t])) for name, t in (("A", left), ("B", right))]


def test_a_stream_tells_its_columns_as_its_frame_does(pair, capsys):
    a, _ = pair
    assert a.columns == ["id", "name", "at"]
    assert a.dtypes == [("id", "bigint"), ("name", "string"), ("at", "struct<x:bigint,y:bigint>")]
    assert a.schema.names == a.columns
    assert a.isStreaming
    a.printSchema()
    assert "|-- name: string" in capsys.readouterr().out


def test_a_joined_row_has_a_struct_for_each_stream(pair):
    joined = pair[0].join(pair[1], "id")
    assert joined.columns == ["A", "B"]
    assert joined.dtypes[1] == ("B", "struct<id:bigint,cents:bigint>")


@pytest.mark.parametrize(
    ("make", "columns"),
    [
        (lambda j: j.select("*"), ["A", "B"]),
        (lambda j: j.select("A.*"), ["id", "name", "at"]),
        (lambda j: j.select("id", "name", "cents"), ["id", "name", "cents"]),
        (lambda j: j.select(["A.id", F.col("B.cents")]), ["id", "cents"]),
        (lambda j: j.select("A.at.x", "A.at.y AS y"), ["x", "y"]),
        (lambda j: j.select("upper(name)", "cents + 1"), ["upper(A.name)", "(B.cents + 1)"]),
        (lambda j: j.selectExpr("name AS n", "cents / 100 AS euros"), ["n", "euros"]),
        (lambda j: j.withColumn("euros", F.col("B.cents") / 100), ["A", "B", "euros"]),
        (lambda j: j.withColumns({"n": "name", "c": F.col("cents")}), ["A", "B", "n", "c"]),
        (lambda j: j.withColumnRenamed("A", "X"), ["X", "B"]),
        (lambda j: j.drop("A", "nothing"), ["B"]),
        (lambda j: j.select("A.id", "cents").drop(F.col("A.id")), ["cents"]),
        (lambda j: j.select("A.id", "cents").withColumn("ID", "cents"), ["ID", "cents"]),
        (lambda j: j.alias("V").select("V.A.name", "V.cents"), ["name", "cents"]),
        (lambda j: j.select("A.id", "B.cents").where("A.id > 1"), ["id", "cents"]),
        (lambda j: j[["A.id"]], ["id"]),
        (lambda j: j[F.col("A.id") > 1].select("id"), ["id"]),
        (lambda j: j.transform(lambda rows: rows.select("cents")), ["cents"]),
        (lambda j: j.select(TEXT("A.id").alias("t"), "cents").where("t > 'a'").drop("cents"), ["t"]),
        (lambda j: j.select("A.name", F.explode(F.array("A.id", "B.id")).alias("e")), ["name", "e"]),
        (lambda j: j.select("explode(array(name, name)) AS e"), ["e"]),
    ],
)
def test_columns_are_what_spark_would_make_of_them(pair, make, columns):
    assert make(pair[0].join(pair[1], "id")).columns == columns


def test_what_is_computed_is_what_spark_computes(pair):
    a, b = pair
    rows = (
        a.withColumn("twice", a.id * 2)
        .join(b.withColumnRenamed("id", "k"), F.col("A.id") == F.col("B.k"))
        .withColumn("cost", F.when(F.col("cents") > 10, "high").otherwise("low"))
        .select("twice", "cost", F.concat("name", F.lit("!")).alias("n"), "A.at.y")
    )
    wanted = pa.table({"twice": [2, 4], "cost": ["low", "high"], "n": ["a!", "b!"], "y": [2, 4]})
    assert run(rows, sites=2) == multiset(wanted)


def test_a_struct_that_was_changed_is_the_struct_a_sink_gets(pair):
    a, b = pair
    rows = a.select("id", "name").join(b.drop("id").withColumn("id", "cents / 10"), "A.id = CAST(B.id AS BIGINT)")
    assert rows.dtypes[0] == ("A", "struct<id:bigint,name:string>")
    assert rows.dtypes[1] == ("B", "struct<cents:bigint,id:double>")
    wanted = pa.table({"A.id": [1, 2], "A.name": ["a", "b"], "B.cents": [10, 20], "B.id": [1.0, 2.0]})
    assert run(rows, sites=2) == multiset(wanted)


def test_a_function_that_changes_is_evaluated_once(pair):
    a, b = pair
    rows = a.join(b, "id").select("A.id", F.rand().alias("r")).where("r >= 0").select("r", F.col("r").alias("same"))
    got = run(rows, sites=2)
    assert sum(got.values()) == 2
    assert all(len(set(key.strip("()[]").split(", "))) == 1 for key in got)


def test_attributes_that_python_itself_asks_for_are_no_columns(pair):
    assert not hasattr(pair[0], "__array__")
    assert not hasattr(pair[0], "show")
    assert hasattr(pair[0], "name")


def test_columns_of_types_that_state_cannot_keep_may_be_filtered_by_and_left_out(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1, "doc": "{\\"kind\\": 7}"}\n{"id": 2, "doc": "{\\"kind\\": 8}"}')
    frame = (
        spark.readStream.schema("id long, doc string")
        .json(str(tmp_path / "in"))
        .selectExpr("id", "parse_json(doc) AS v")
    )
    flow = wm.Flow(spark)
    a, b = flow.stream("A", frame), flow.stream("B", wm.testing.replay(spark, [pa.table({"id": [1, 2]})]))
    joined = a.where("variant_get(v, '$.kind', 'int') = 8").join(b, "id")
    assert run(joined.select("B.id"), sites=2) == multiset(pa.table({"id": [2]}))
    with pytest.raises(wm.UnsupportedError, match=r"A\.v has type variant"):
        joined.writeStream.format("noop").start()
