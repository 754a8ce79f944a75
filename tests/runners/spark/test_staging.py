"""Results that the tasks write to files, from which the sink reads them."""

from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.runners.spark.staging import STAGED_FROM, fits_parquet

EPOCHS = [{"id": [1, 2], "v": ["a", "b"]}, {"id": [2, 3], "v": ["c", None]}, {"id": [1, 9], "v": ["d", "e"]}]


def relation(spark, folder):
    flow, other = wm.Flow(spark), pa.table({"id": [1, 2, 3], "n": ["x", "y", "z"]})
    a = flow.stream("A", wm.testing.replay(spark, [pa.table(each) for each in EPOCHS], str(folder / "A")))
    b = flow.stream("B", wm.testing.replay(spark, [other], str(folder / "B")))
    return a.join(b, "A.id = B.id")


def staged_results(ck: Path) -> list[Path]:
    return list(ck.glob("state/effects/*/*.parquet"))


@pytest.mark.spark
@pytest.mark.parametrize("shortcut", [True, False])
def test_a_function_reads_staged_results_as_often_as_it_likes(spark, tmp_path, shortcut):
    seen, ck = [], tmp_path / "ck"

    def keep(rows, epoch):
        staged = staged_results(ck)
        seen.append((epoch, rows.count(), sorted(map(tuple, rows.collect()), key=str), len(staged)))
        assert sorted(path.name for path in staged_results(ck)) == sorted(path.name for path in staged)

    rows = relation(spark, tmp_path).where("B.n <> 'x'").select("A.v", "B.n")
    with wm.testing.thrown(shortcut=shortcut, staged_from=0):
        query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(ck)).option("sites", 2)
        query = query.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert [each[:3] for each in seen] == [(0, 1, [("b", "y")]), (1, 2, [("c", "y"), (None, "z")]), (2, 0, [])]
    assert all(files for *_, files in seen[:2]), "they were staged, and read again from the same files"
    assert not staged_results(ck), "they go after the commit"
    assert [each["sink"]["numOutputRows"] for each in query.recentProgress] == [1, 2, 0]


@pytest.mark.spark
@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("staged_from", [0, None])
def test_results_are_counted_whatever_a_function_reads_of_them(spark, tmp_path, read, staged_from):
    def function(rows, _):
        return rows.limit(read).collect() if read else None

    rows = relation(spark, tmp_path).where("B.n <> 'x'").select("A.v", "B.n")
    with wm.testing.thrown(staged_from=staged_from):
        query = rows.writeStream.foreachBatch(function).option("sites", 2).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert [each["sink"]["numOutputRows"] for each in query.recentProgress] == [1, 2, 0]


@pytest.mark.spark
def test_few_results_are_handed_over_without_files(spark, tmp_path):
    files = []

    def keep(rows, epoch):
        rows.collect()
        files.append((epoch, len(staged_results(tmp_path / "ck"))))

    query = relation(spark, tmp_path).writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "ck"))
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert files == [(0, 0), (1, 0), (2, 0)]
    assert STAGED_FROM > 6


@pytest.mark.spark
def test_a_function_that_fails_is_given_the_same_results_again(spark, tmp_path):
    got, failures = [], [RuntimeError("no room")]

    def keep(rows, epoch):
        if epoch == 1 and failures:
            raise failures.pop()
        got.append((epoch, rows.count()))

    def run():
        rows = relation(spark, tmp_path).writeStream.foreachBatch(keep)
        query = rows.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    with wm.testing.thrown(staged_from=0):
        with pytest.raises(wm.WatersmeetError, match="no room"):
            run()
        run()
    assert got == [(0, 2), (1, 2), (2, 1)]
    assert not staged_results(tmp_path / "ck")


@pytest.mark.spark
def test_intervals_are_handed_over_without_files(spark, tmp_path):
    flow, files = wm.Flow(spark), []
    frame = wm.testing.replay(spark, [pa.table({"id": [1], "d": [5]}), pa.table({"id": [2], "d": [7]})])
    a = flow.stream("A", frame.selectExpr("id", "make_dt_interval(0, 0, d) AS d"))
    b = flow.stream("B", wm.testing.replay(spark, [pa.table({"id": [1, 2]})]))

    def keep(rows, epoch):
        files.append((epoch, [row.d.seconds for row in rows.collect()], len(staged_results(tmp_path / "ck"))))

    with wm.testing.thrown(staged_from=0):
        rows = a.join(b, "A.id = B.id").select("A.d")
        query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "ck"))
        assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert files == [(0, [300], 0), (1, [420], 0)]


def test_durations_anywhere_in_a_row_do_not_fit_parquet():
    nested = pa.struct({"x": pa.map_(pa.string(), pa.duration("us"))})
    assert not fits_parquet(pa.schema({"a": nested}))
    assert fits_parquet(pa.schema({"a": pa.struct({"x": pa.map_(pa.string(), pa.decimal128(9, 2))})}))
