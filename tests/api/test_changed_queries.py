"""A query that asks for less goes on with the state of the one before; any other is refused."""

import pyarrow as pa
import pytest

import watersmeet as wm

pytestmark = pytest.mark.spark

FIRST = {
    "A": pa.table({"id": [1, 2, 3], "n": [1, 2, 3], "t": ["x", "y", "z"]}),
    "B": pa.table({"id": [1, 2], "m": [5, 6]}),
}
SECOND = {"A": pa.table({"id": [9, 3], "n": [9, 8], "t": ["p", "q"]}), "B": pa.table({"id": [3, 2, 9], "m": [7, 8, 9]})}


class Runs:
    """Runs of queries on one checkpoint, each with one epoch more."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.epochs = spark, folder, []

    def run(self, make):
        self.epochs.append((FIRST, SECOND)[len(self.epochs)])
        flow, got = wm.Flow(self.spark), {}
        streams = [
            flow.stream(
                name, wm.testing.replay(self.spark, [each[name] for each in self.epochs], f"{self.folder}/{name}")
            )
            for name in "AB"
        ]
        writer = make(*streams).writeStream.foreachBatch(lambda rows, epoch: got.update({epoch: rows.collect()}))
        query = writer.option("checkpointLocation", f"{self.folder}/ck").option("sites", 2).trigger(availableNow=True)
        assert query.start().awaitTermination(120)
        return sorted(tuple(row) for rows in got.values() for row in rows)


@pytest.fixture
def runs(spark, tmp_path):
    return Runs(spark, tmp_path)


def before(a, b):
    return a.join(b, "id").where("A.n > 0").select("A.n", "A.t", "B.m")


ALLOWED = {
    "fewer columns": (lambda a, b: a.join(b, "id").where("A.n > 0").select("A.n"), [(2,), (3,), (8,), (9,)]),
    "a renamed column": (
        lambda a, b: a.join(b, "id").where("n > 0").select("n AS x", "t", "m"),
        [(2, "y", 8), (3, "z", 7), (8, "q", 7), (9, "p", 9)],
    ),
    "another expression": (lambda a, b: before(a, b).selectExpr("n + m AS s"), [(10,), (10,), (15,), (18,)]),
    "one more condition": (lambda a, b: before(a, b).where("t > 'q'").select("t"), [("y",), ("z",)]),
    "a stricter condition": (
        lambda a, b: a.join(b, "id").where("n > 2").select("n", "t", "m").select("n"),
        [(3,), (8,), (9,)],
    ),
    "a condition of both": (lambda a, b: before(a, b).where("n + m > 10").select("n"), [(8,), (9,)]),
}


QUICK = ("fewer columns", "a stricter condition", "a condition of both")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ALLOWED]
)
def test_a_query_that_asks_for_less_goes_on(runs, name):
    make, wanted = ALLOWED[name]
    assert runs.run(before) == [(1, "x", 5), (2, "y", 6)]
    assert runs.run(make) == wanted


REFUSED = {
    "more columns": lambda a, b: a.join(b, "id").where("A.n > 0").select("A.n", "A.t", "B.m", "B.id"),
    "a weaker condition": lambda a, b: a.join(b, "id").select("A.n", "A.t", "B.m"),
    "another condition": lambda a, b: a.join(b, "id").where("A.n > -5").select("A.n", "A.t", "B.m"),
    "a condition on what was not kept": lambda a, b: before(a, b.where("B.id + 1 > 1")),
    "another kind of join": lambda a, b: a.join(b, "id", "semi").where("A.n > 0").select("A.n", "A.t"),
    "another key": lambda a, b: a.join(b, "A.n = B.m").where("A.n > 0").select("A.n", "A.t", "B.m"),
}


def test_a_query_that_asks_for_more_is_refused_with_the_difference(spark, tmp_path):
    Runs(spark, tmp_path).run(before)
    for name, make in REFUSED.items():
        with pytest.raises(wm.errors.CheckpointMismatchError) as refused:
            Runs(spark, tmp_path).run(make)
        assert "in the checkpoint" in str(refused.value), name
