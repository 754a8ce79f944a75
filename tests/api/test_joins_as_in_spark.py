"""A join in all the words a Spark user may choose: the same plan, and the results of a batch join."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from tests.support.examples import examples
from tests.support.oracle import joined, multiset
from tests.support.spark_runs import run

import watersmeet as wm

pytestmark = pytest.mark.spark

DATA = {
    "A": pa.table(
        {"id": [1, 2, 2, None], "day": ["x", "x", "y", "x"], "n": [1, 2, 3, 4], "list": [[1], [2], [], None]}
    ),
    "B": pa.table(
        {"id": [2, 2, 1, None], "day": ["x", "y", "y", "x"], "m": [5, 6, 7, 8], "list": [[2], [1], [], None]}
    ),
}
TABLES = {name: [table] for name, table in DATA.items()}


@pytest.fixture
def streams(spark):
    flow = wm.Flow(spark)
    return [flow.stream(name, wm.testing.replay(spark, [table])) for name, table in DATA.items()]


def plan_of(relation, capsys):
    relation.explain()
    return capsys.readouterr().out


WAYS = {
    "a column of both": lambda a, b: a.join(b, "id"),
    "a list of them": lambda a, b: a.join(b, ["id"]),
    "by name": lambda a, b: a.join(b, on="id", how="inner"),
    "by position": lambda a, b: a.join(b, "A.id = B.id", "inner"),
    "Columns by their streams": lambda a, b: a.join(b, F.col("A.id") == F.col("B.id")),
    "Columns of the relations": lambda a, b: a.join(b, a.id == b.id),
    "Columns by subscript": lambda a, b: a.join(b, a["id"] == b["id"]),
    "a list of Columns": lambda a, b: a.join(b, [a.id == b.id]),
    "IN": lambda a, b: a.join(b, "A.id IN (B.id)"),
    "isin": lambda a, b: a.join(b, a.id.isin(b.id)),
    "in all branches": lambda a, b: a.join(b, "(A.id = B.id AND A.n > 0) OR A.id = B.id"),
    "in other letters": lambda a, b: a.join(b, "a.ID = b.Id"),
    "an aliased relation": lambda a, b: a.join(b.withColumnRenamed("id", "k").withColumnRenamed("k", "id"), "id"),
}


def test_every_way_to_write_a_join_gives_one_plan(streams, capsys):
    wanted = plan_of(streams[0].join(streams[1], on="A.id = B.id").select("A.n", "B.m"), capsys)
    for name, way in WAYS.items():
        assert plan_of(way(*streams).select("A.n", "m"), capsys) == wanted, name


def test_several_columns_are_several_keys(streams, capsys):
    a, b = streams
    wanted = plan_of(a.join(b, on="A.id = B.id AND A.day = B.day").select("n", "m"), capsys)
    assert plan_of(a.join(b, ["id", "day"]).select("n", "m"), capsys) == wanted
    assert plan_of(a.join(b, [a.id == b.id, a.day == b.day]).select("n", "m"), capsys) == wanted
    assert plan_of(a.join(b, (a.id == b.id) & (a.day == b.day)).select("n", "m"), capsys) == wanted


@pytest.mark.parametrize(
    ("on", "oracle"),
    [
        (["id", "day"], "A.id = B.id AND A.day = B.day"),
        ("A.id <=> B.id", "A.id IS NOT DISTINCT FROM B.id"),
        ("list", "A.list = B.list"),
        ("(A.id = B.id AND n > 1) OR (A.id = B.id AND m = 5)", "A.id = B.id AND (A.n > 1 OR B.m = 5)"),
    ],
)
def test_results_are_those_of_a_batch_join(streams, on, oracle):
    a, b = streams
    assert run(a.join(b, on).select("n", "m"), sites=2) == joined(TABLES, [oracle], "A.n, B.m")


# The same query in many ways: how the join is written, when it is filtered, what its columns go through.

JOINS = st.sampled_from(["id", ["id"], "A.id = B.id", "b.id = a.id", "A.id IN (B.id)", None])
FILTERS = st.sampled_from(["n > 1", "A.n > 1", "(A.n) > 1", "a.N > 1 AND TRUE", None])
VIEWS = st.sampled_from(["none", "select", "selectExpr", "withColumn", "alias", "rename", "twice"])
WRITTEN = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    print_blob=True,
)


def written(streams, join, condition, view, *, early):  # noqa: PLR0911 -- one for each way
    a, b = streams
    a = a.where(a.n > 1 if condition is None else condition.replace(" AND TRUE", "")) if early else a
    rows = a.join(b, a.id == b.id) if join is None else a.join(b, join)
    if not early:
        rows = rows.where(F.col("A.n") > 1 if condition is None else condition.replace(" AND TRUE", ""))
    match view:
        case "select":
            return rows.select("A.n", "B.m").select("n", "m")
        case "selectExpr":
            return rows.selectExpr("n", "m AS other").withColumnRenamed("other", "m")
        case "withColumn":
            return rows.withColumn("n", F.col("A.n")).withColumn("m", "B.m").select("n", "m")
        case "alias":
            return rows.select("A.n", "B.m", "B.day").alias("V").drop("day").select("V.*")
        case "rename":
            return rows.select(a.n.alias("x"), b.m.alias("y")).withColumnsRenamed({"x": "n", "y": "m"})
        case "twice":
            return rows.select("A.*", "B.m").select("n", "m", "day").drop("day")
    return rows.select("n", "m")


@given(JOINS, FILTERS, VIEWS, st.booleans())
@WRITTEN
def test_the_same_query_has_the_same_plan_however_it_is_written(spark, join, condition, view, early):
    flow = wm.Flow(spark)
    both = [flow.stream(name, wm.testing.replay(spark, [table])) for name, table in DATA.items()]
    wanted = flow.join(*both, on="A.id = B.id AND A.n > 1").select("A.n", "B.m")
    made = written(both, join, condition, view, early=early)
    assert made.plan() == wanted.plan()
    assert made.columns == ["n", "m"]


def test_a_query_of_many_views_has_the_results_of_one(streams):
    wanted = joined(TABLES, ["A.id = B.id", "A.n > 1"], "A.n, B.m")
    for view in ("alias", "withColumn"):
        assert run(written(streams, "id", "n > 1", view, early=False), sites=2) == wanted


def test_a_view_is_joined_again_and_the_whole_is_one_plan(spark, streams, capsys):
    a, b = streams
    more = pa.table({"m": [5, 6], "z": ["p", "q"]})
    c = a.shape.flow.stream("C", wm.testing.replay(spark, [more]))
    view = a.join(b, "id").select("id", "n", (F.col("B.m") + 0).alias("m")).where("n > 1")
    rows = view.alias("V").join(c, "m").select("V.n", "C.z")
    text = plan_of(rows, capsys)
    assert "2 operators over 3 streams" in text
    assert "where A.n > 1" in text
    oracle = joined(TABLES | {"C": [more]}, ["A.id = B.id", "A.n > 1", "B.m + 0 = C.m"], "A.n, C.z")
    assert run(rows, sites=2) == oracle


def test_a_stream_under_an_alias_is_joined_with_itself(streams):
    a, _ = streams
    rows = a.where("n > 1").join(a.alias("X"), F.col("A.id") == F.col("X.id")).select("A.n", F.col("X.n").alias("x"))
    assert run(rows, sites=2) == multiset(pa.table({"n": [2, 2, 3, 3], "x": [2, 3, 2, 3]}))
