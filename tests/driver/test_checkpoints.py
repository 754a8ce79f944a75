"""A checkpoint is used only by the query that made it, whole, and by one driver."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.model import errors

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    """A checkpoint with some state in it, and the streams it was made of."""
    folder = tmp_path_factory.mktemp("made")
    query = start(spark, folder)
    assert query.awaitTermination(120)
    return folder


@pytest.fixture
def copy(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "copy"))


def start(spark, folder, on="A.k = B.k", column="v", more=(), **options):
    flow = wm.Flow(spark)
    a = flow.stream("A", wm.testing.replay(spark, [pa.table({"k": [1, 2], "v": [1, 2]}), *more], str(folder / "A")))
    b = flow.stream("B", wm.testing.replay(spark, [pa.table({"k": [1, 1], "v": [3, 4]})], str(folder / "B")))
    rows = flow.join(a, b, on=on).select(f"A.{column} AS a", "B.v AS b")
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "ck")).options(**options)
    return writer.trigger(availableNow=True).start()


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock"}


def refused(spark, folder, kind, match, **changes):
    before = files(folder)
    with pytest.raises(kind, match=match):
        start(spark, folder, **changes)
    assert files(folder) == before, "a refused checkpoint was touched"


def test_another_query_is_refused(spark, copy):
    refused(spark, copy, errors.CheckpointMismatchError, "another query", on="A.k = B.k AND A.v = B.v")


def test_other_columns_in_state_are_refused(spark, copy):
    refused(spark, copy, errors.CheckpointMismatchError, "another query", column="k")


def test_another_number_of_groups_is_refused(spark, copy):
    refused(
        spark, copy, errors.OptionError, "partitionGroups is 7, and the checkpoint was made with 300", partitionGroups=7
    )


def test_a_missing_run_is_refused_by_name(spark, copy):
    run = next((copy / "ck/state/runs").rglob("*.arrow"))
    run.unlink()
    refused(spark, copy, errors.CheckpointCorruptError, run.name)


def test_a_damaged_run_is_refused_by_name_when_it_is_used(spark, tmp_path):
    assert start(spark, tmp_path).awaitTermination(120)
    run = next((tmp_path / "ck/state/runs/join1/B").rglob("*.arrow"))
    data = bytearray(run.read_bytes())
    data[len(data) // 2] ^= 1
    run.write_bytes(data)
    before = set(files(tmp_path / "ck/state/runs"))
    another = pa.table({"k": [1], "v": [5]})
    with pytest.raises(errors.CheckpointCorruptError, match=run.name):
        start(spark, tmp_path, more=[another]).awaitTermination(120)
    assert set(files(tmp_path / "ck/state/runs")) >= before, "nothing is deleted that could be restored"


def test_a_run_cut_short_is_refused_by_name_before_anything_is_touched(spark, copy):
    run = next((copy / "ck/state/runs").rglob("*.arrow"))
    run.write_bytes(run.read_bytes()[:-8])
    refused(spark, copy, errors.CheckpointCorruptError, run.name)


def test_a_damaged_manifest_is_refused_by_name(spark, copy):
    last = max((copy / "ck/state/manifest").iterdir())
    last.write_bytes(last.read_bytes().replace(b'"batch":0', b'"batch":1'))
    refused(spark, copy, errors.CheckpointCorruptError, last.name)


@pytest.mark.parametrize(("number", "how"), [(99, "a newer one"), (1, "finish the query with the version that wrote")])
def test_another_format_is_refused(spark, copy, number, how):
    last = max((copy / "ck/state/manifest").iterdir())
    last.write_bytes(last.read_bytes().replace(b'"format":2', f'"format":{number}'.encode()))
    refused(spark, copy, errors.CheckpointMismatchError, f"format {number}.*{how}")


def test_a_checkpoint_that_lost_its_manifests_is_refused(spark, copy):
    shutil.rmtree(copy / "ck/state")
    refused(spark, copy, errors.CheckpointCorruptError, "no manifest")


def test_a_second_driver_is_fenced_off_while_the_first_runs(spark, tmp_path):
    rates = spark.readStream.format("rate").load()
    flow = wm.Flow(spark)
    rows = flow.join(*(flow.stream(name, rates) for name in "XY"), on="X.value = Y.value")
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    first = writer.start()
    try:
        with pytest.raises(errors.CheckpointInUseError, match="in use"):
            writer.start()
    finally:
        first.stop()
    second = writer.start()
    second.stop()


def test_a_checkpoint_that_lost_its_offsets_is_refused(spark, copy):
    shutil.rmtree(copy / "ck/spark")
    refused(spark, copy, errors.CheckpointCorruptError, "same moment")


def test_a_checkpoint_that_lost_its_last_version_is_refused(spark, copy):
    max((copy / "ck/state/manifest").iterdir()).unlink()
    refused(spark, copy, errors.CheckpointCorruptError, "same moment")


def test_a_driver_killed_while_spark_wrote_its_first_offsets_is_started_again(spark, copy):
    first, *later = sorted((copy / "ck/state/manifest").iterdir())
    assert first.name.startswith("0" * 12)
    for manifest in later:
        manifest.unlink()
    for log in ("offsets", "commits", "sources"):
        shutil.rmtree(copy / "ck/spark" / log)
    (copy / "ck/spark/offsets").mkdir()
    for name in (".0.8a51.tmp", "..0.8a51.tmp.crc"):
        (copy / "ck/spark/offsets" / name).touch()
    query = start(spark, copy)
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert [report["customMetrics"]["rowsOut"] for report in query.recentProgress] == [2]


def test_a_query_goes_on_where_it_stopped_with_another_number_of_sites(spark, tmp_path):
    old = {"A": pa.table({"k": [1, 2], "v": [1, 2]}), "B": pa.table({"k": [1, 1], "v": [3, 4]})}
    new = {"A": pa.table({"k": [1], "v": [9]}), "B": pa.table({"k": [2], "v": [8]})}
    assert results_so_far(spark, tmp_path, [old], sites=2)[0] == [(1, 3), (1, 4)]
    rows, events = results_so_far(spark, tmp_path, [old, new], sites=3)
    assert rows == [(2, 8), (9, 3), (9, 4)]
    assert [event["kind"] for event in events] == ["reroute"]


def results_so_far(spark, folder, epochs, sites):
    """The results of one run over the epochs that are new to it, and the events."""
    flow = wm.Flow(spark)
    frames = {n: wm.testing.replay(spark, [epoch[n] for epoch in epochs], str(folder / n)) for n in "AB"}
    rows = flow.join(*(flow.stream(*item) for item in frames.items()), on="A.k = B.k").select("A.v AS a", "B.v AS b")
    writer = rows.writeStream.format("memory").queryName("goes_on").option("checkpointLocation", str(folder / "ck"))
    query = writer.option("sites", sites).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return sorted(map(tuple, spark.table("goes_on").collect())), query.events()
