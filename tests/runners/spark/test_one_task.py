"""The local exchange: which epochs take it, that it can be given up, and that it is the same to everyone else."""

from contextlib import suppress

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.support.oracle import joined, multiset
from tests.support.spark_runs import PATIENCE_S

import watersmeet as wm
from watersmeet.runners.spark import one_task, runner
from watersmeet.runners.spark.one_task import Load, LocalWay, Pace
from watersmeet.site.spec import MergeOrder

EPOCHS, ROWS = 3, 40
CONDITIONS = ("A.k = B.k", "B.t = C.t")


def parts(name: str) -> list[pa.Table]:
    other = [[f"{row % 7}" for row in range(ROWS)], [row % 5 for row in range(ROWS)]]
    return [
        pa.table(
            {"k": range(ROWS), "t": other[1], "s": other[0], "id": [f"{name}{epoch}-{row}" for row in range(ROWS)]}
        )
        for epoch in range(EPOCHS)
    ]


STREAMS = {name: parts(name) for name in "ABC"}


def tree(spark, on: str = "B.t = C.t", streams=STREAMS) -> wm.Relation:
    flow = wm.Flow(spark)
    a, b, c = (flow.stream(name, wm.testing.replay(spark, tables)) for name, tables in streams.items())
    return a.join(b, on="A.k = B.k").join(c, on=on)


def partitions_of_epochs(rows: wm.Relation) -> list[int]:
    """How many tasks made each epoch's rows, first to last."""
    seen: dict[int, int] = {}

    def note(batch, epoch):
        seen[epoch] = len(set(batch.selectExpr("spark_partition_id() AS p").toPandas().p))

    query = rows.writeStream.foreachBatch(note).option("sites", 2).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return [count for _, count in sorted(seen.items())]


@pytest.mark.spark
def test_small_epochs_are_one_task_once_an_epoch_was_small(spark):
    assert partitions_of_epochs(tree(spark)) == [2, 1, 1]


@pytest.mark.long
@pytest.mark.spark
def test_rows_that_only_spark_can_hash_go_the_long_way(spark):
    assert partitions_of_epochs(tree(spark, on="B.s = C.s")) == [2, 2, 2]


@pytest.mark.long
@pytest.mark.spark
def test_it_can_be_switched_off(spark):
    with wm.testing.thrown(shortcut=False):
        assert partitions_of_epochs(tree(spark)) == [2, 2, 2]


@pytest.mark.spark
@pytest.mark.parametrize(("most", "repeated"), [(10**6, 0), (100, 1)])
def test_a_first_epoch_may_give_it_up_without_a_trace(spark, tmp_path, monkeypatch, most, repeated):
    again: list[object] = []
    long_way = runner.Job.long_way
    monkeypatch.setattr(runner.Job, "long_way", lambda job: (again.append(job), long_way(job))[1])
    monkeypatch.setattr(one_task, "FIRST_ROWS", most)
    monkeypatch.setattr(Pace, "learn", lambda *_: None)  # how busy the machine is decides nothing here
    rows = tree(spark).select("A.id AS a", "B.id AS b", "C.id AS c")
    writer = rows.writeStream.format("parquet").option("path", str(tmp_path / "out")).option("sites", 2)
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    assert len(again) == repeated, "an epoch that was given up is run once more, and no other"
    files = sorted((tmp_path / "out").iterdir())
    assert all(file.name.startswith("epoch-") for file in files), "hidden files of an attempt that was given up"
    got = multiset(ds.dataset([str(file) for file in files]).to_table(columns=["a", "b", "c"]))
    assert got == joined(STREAMS, CONDITIONS, "A.id AS a, B.id AS b, C.id AS c")


@pytest.mark.slow
@pytest.mark.spark
def test_a_sink_that_reads_a_part_of_the_rows_changes_nothing(spark):
    kept: dict[int, int] = {}

    def note(batch, epoch):
        kept[epoch] = len(batch.limit(1).collect())

    query = tree(spark).writeStream.foreachBatch(note).option("sites", 2).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    made = [report["customMetrics"]["rowsOut"] for report in query.recentProgress]
    assert sum(made) == joined(STREAMS, CONDITIONS, "A.id").total()


@pytest.mark.long
@pytest.mark.spark
def test_epochs_without_rows_take_it_too(spark):
    full, none = parts("A")[0], parts("A")[0].slice(0, 0)
    streams = {name: [full, none, full, none] for name in "ABC"}
    got: list[pa.Table] = []
    rows = tree(spark, streams=streams).select("A.id AS a", "B.id AS b", "C.id AS c")
    writer = rows.writeStream.foreachBatch(lambda batch, _: got.append(batch.toArrow()))
    assert writer.option("sites", 2).trigger(availableNow=True).start().awaitTermination(PATIENCE_S)
    assert multiset(pa.concat_tables(got)) == joined(streams, CONDITIONS, "A.id AS a, B.id AS b, C.id AS c")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["function", "memory", "csv"])
def test_a_burst_of_unknown_size_is_given_to_a_sink_that_takes_rows_once(spark, tmp_path, monkeypatch, kind):
    ways: list[str] = []
    give = runner.Job.give_to_sink
    monkeypatch.setattr(runner.Job, "give_to_sink", lambda job: (give(job), ways.append(job.way))[0])
    monkeypatch.setattr(Pace, "rows_limit", lambda *_: 200)
    monkeypatch.setattr(Pace, "prefers_local", lambda *_: True)
    small, large = parts("A")[0], pa.concat_tables([part.slice(0, 20) for part in parts("A") * 6])
    streams = {name: [small, small, large, small] for name in "ABC"}
    got: list[pa.Table] = []
    rows = tree(spark, streams=streams).select("A.id AS a", "B.id AS b", "C.id AS c")
    writer = rows.writeStream.option("sites", 2).trigger(availableNow=True).queryName("burst")
    if kind == "function":
        writer = writer.foreachBatch(lambda batch, _: got.append(batch.toArrow()))
    else:
        writer = writer.format(kind).option("checkpointLocation", str(tmp_path / "ck"))
        writer = writer.option("path", str(tmp_path / "out")) if kind == "csv" else writer
    assert writer.start().awaitTermination(PATIENCE_S)
    assert ways == ["long", "local", "local", "local"]
    if kind == "memory":
        got.append(spark.table("burst").toArrow())
    elif kind == "csv":
        got.append(spark.read.schema("a string, b string, c string").csv(str(tmp_path / "out")).toArrow())
    assert multiset(pa.concat_tables(got)) == joined(streams, CONDITIONS, "A.id AS a, B.id AS b, C.id AS c")


@pytest.mark.spark
@pytest.mark.parametrize("sites", [3])
def test_a_function_that_passes_over_errors_is_called_once_an_epoch_and_gets_all_results(spark, sites):
    """Epochs after one without rows were given up by failing the function's own actions."""
    none = parts("A")[0].slice(0, 0)
    streams = {name: [part for full in parts(name) for part in (full, none)] for name in "ABC"}
    got: list[tuple[int, pa.Table]] = []

    def passing_over(batch, epoch):
        with suppress(Exception):
            got.append((epoch, batch.toArrow()))

    rows = tree(spark, streams=streams).select("A.id AS a", "B.id AS b", "C.id AS c")
    query = rows.writeStream.foreachBatch(passing_over).option("sites", sites).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    assert [epoch for epoch, _ in got] == list(range(2 * EPOCHS))
    expected = joined(streams, CONDITIONS, "A.id AS a, B.id AS b, C.id AS c")
    assert multiset(pa.concat_tables([table for _, table in got])) == expected


@pytest.mark.parametrize(
    ("load", "sites", "suits"),
    [
        (Load(1_000, 1_000, 30), 2, True),
        (Load(450_000, 0, 900), 2, True),
        (Load(450_000, 10_000_000, 900), 2, False),
        (Load(1_000, 1_000, 30), 64, True),
        (Load(450_000, 0, 900), 16, False),
    ],
)
def test_the_more_cores_there_are_the_smaller_an_epoch_has_to_be(load, sites, suits):
    assert Pace().prefers_local(load, sites, levels=1) is suits


def test_what_epochs_really_took_corrects_the_estimates():
    pace, load = Pace(), Load(450_000, 0, 900)
    assert pace.prefers_local(load, sites=2, levels=1)
    for _ in range(6):
        pace.learn("local", load, 5_000, sites=2, levels=1)
    assert not pace.prefers_local(load, sites=2, levels=1)


def test_a_way_that_once_was_slow_is_tried_again_some_day():
    pace, load = Pace(), Load(2_000, 0, 20)
    for _ in range(6):
        pace.learn("local", load, 5_000.0, sites=2, levels=1)
    assert not pace.prefers_local(load, sites=2, levels=1)
    epochs = 0
    while not pace.prefers_local(load, sites=2, levels=1):
        pace.learn("long", load, load.estimate_ms("long", 2, 1), sites=2, levels=1)
        epochs += 1
    assert 100 < epochs < 1_000


def test_rows_beyond_which_one_task_is_not_worth_it_are_foretold():
    small = Load(2_000, 0, 20)
    assert Pace().rows_limit(small, sites=2, levels=2) is None, "with two cores it always is"
    many_cores = Pace().rows_limit(small, sites=16, levels=2)
    assert many_cores is not None
    assert small.came < many_cores < 500 * small.came
    assert Pace().rows_limit(Load(0, 0, 30), sites=16, levels=2) == one_task.LEAST_ROWS, "of an epoch without rows"


class Level:
    """As much of a level's specification as the decision looks at."""

    def __init__(self, *, packed: bool = True, files: object = None, merges: tuple[MergeOrder, ...] = ()) -> None:
        self.packed, self.files = packed, files
        self.sites = {site: type("Slice", (), {"merges": merges}) for site in range(2)}


def test_of_a_first_epoch_only_one_that_can_be_repeated_tries():
    assert not LocalWay().suits([Level()])
    assert LocalWay().suits([Level(files=object())])
    assert not LocalWay(allowed=False).suits([Level(files=object())])


def test_large_merges_are_shared_by_the_sites():
    run = type("Run", (), {"bytes": one_task.MERGED_BYTES_MAX + 1})
    small, large = (MergeOrder(None, ((run, None),) * count, None) for count in (0, 1))
    decided = LocalWay(last=Load(10, 10, 1))
    assert decided.suits([Level(merges=(small,))])
    assert not decided.suits([Level(merges=(large,))])


def test_input_that_is_known_to_be_much_larger_goes_the_long_way_at_once():
    decided = LocalWay(last=Load(2_000, 2_000, 20), last_bytes=10_000)
    assert decided.suits([Level()], 12_000)
    assert not decided.suits([Level()], 10_000 * 500)
    assert decided.suits([Level()], None), "a source that does not tell"


@pytest.mark.spark
def test_the_size_of_files_is_known_before_they_are_read(spark):
    sizes = []
    frame = wm.testing.replay(spark, [STREAMS["A"][0], pa.concat_tables(STREAMS["A"] * 30)])
    writer = frame.writeStream.foreachBatch(lambda rows, _: sizes.append(one_task.input_bytes(rows)))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sizes[1] > sizes[0] > 0
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    query = rates.writeStream.foreachBatch(lambda rows, _: sizes.append(one_task.input_bytes(rows))).start()
    while len(sizes) < 3:
        query.awaitTermination(1)
    query.stop()
    assert sizes[2] is None
