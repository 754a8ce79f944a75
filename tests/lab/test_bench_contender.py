"""What contenders are made of: where they keep state, where results go, what they are shown."""

import pickle
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.lab.bench import delivery, remote, sinks, windows
from watersmeet.lab.bench.contender import BY_OURS, BY_SPARK
from watersmeet.lab.bench.contenders import EPOCHS, WAYS
from watersmeet.lab.bench.data import show_epochs, write_streams
from watersmeet.lab.bench.delivery import Gauged, Parquet, Rows
from watersmeet.lab.bench.outcome import Task
from watersmeet.lab.bench.pipeline import Pipeline, Step
from watersmeet.lab.bench.place import link_tree, make_place
from watersmeet.lab.bench.remote import stand_in
from watersmeet.storage.local import LocalStorage


def test_a_worker_that_knows_nothing_of_the_stand_in_can_read_from_it(tmp_path):
    storage = stand_in(tmp_path / "checkpoint", tmp_path / "copies")
    storage.create("runs/1.arrow", b"rows")
    read = "import pickle, sys; sys.stdout.buffer.write(pickle.load(sys.stdin.buffer).read('runs/1.arrow'))"
    done = subprocess.run([sys.executable, "-c", read], input=pickle.dumps(storage), capture_output=True, check=True)
    assert done.stdout == b"rows"


def test_the_stand_in_lets_one_driver_commit_and_knows_what_is_there(tmp_path):
    storage = stand_in(tmp_path / "checkpoint", tmp_path / "copies")
    assert [storage.create_new("manifest/1", data) for data in (b"first", b"second")] == [True, False]
    assert (storage.read("manifest/1"), storage.size("manifest/1"), storage.size("manifest/2")) == (b"first", 5, None)
    storage.delete(["manifest/1"])
    assert storage.list("") == []


def test_the_stand_in_takes_time_for_requests_and_for_bytes(tmp_path, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(remote.time, "sleep", slept.append)
    storage = stand_in(tmp_path / "checkpoint", tmp_path / "copies")
    storage.create("runs/1.arrow", bytes(1_000_000))
    assert slept == [pytest.approx(0.02 + 0.01)]
    storage.forget(["runs/1.arrow"])
    assert storage.local("runs/1.arrow").stat().st_size == 1_000_000
    assert slept[1:] == [pytest.approx(0.02 + 0.01)], "one download, and no question before it"
    storage.local("runs/1.arrow")
    assert len(slept) == 2, "there is a copy"


def test_one_that_resumes_gets_runs_as_links_and_all_else_as_copies(tmp_path):
    built = tmp_path / "built" / "state"
    (built / "runs").mkdir(parents=True)
    (built / "runs" / "1.arrow").write_bytes(b"rows")
    (built / "lock").write_bytes(b"me")
    link_tree(tmp_path / "built", tmp_path / "mine")
    mine = tmp_path / "mine" / "state"
    assert (mine / "runs" / "1.arrow").samefile(built / "runs" / "1.arrow")
    assert (mine / "lock").read_bytes() == b"me"
    assert not (mine / "lock").samefile(built / "lock")


def test_state_that_was_written_to_the_stand_in_is_found_by_all_that_resume(tmp_path):
    built, copies = tmp_path / "built", {}
    place = make_place(task("watersmeet-built", tmp_path, built), WAYS["watersmeet-built"])
    place["wrap"](None).create("runs/1.arrow", b"rows")
    for name in ("watersmeet-restarted", "watersmeet-remote-restarted", "watersmeet-remote-moved"):
        place = make_place(task(name, tmp_path, tmp_path / name), WAYS[name])
        local = LocalStorage(str(tmp_path / name / "checkpoint" / "state"))
        storage = place["wrap"](None) if place else local
        copies[name] = any((tmp_path / name / "copies").rglob("1.arrow"))
        assert storage.read("runs/1.arrow") == b"rows"
    assert copies == {
        "watersmeet-restarted": False,
        "watersmeet-remote-restarted": True,
        "watersmeet-remote-moved": False,
    }


def task(name, folder, work) -> Task:
    return Task("restart", name, str(folder / "data"), str(work), "1g", prepared=str(folder / "built"))


def test_one_that_is_shown_the_last_epoch_finds_those_before_where_they_were(tmp_path):
    write_streams(tmp_path / "data", {"A": [pa.table({"k": [epoch]}) for epoch in range(3)]})
    for part, shown in (("but last", [0, 1]), ("last", [0, 1, 2])):
        folder = show_epochs(tmp_path / "data", tmp_path / "shown", EPOCHS[part])
        assert [pq.read_table(file)["k"].to_pylist() for file in sorted((folder / "A").iterdir())] == [
            [epoch] for epoch in shown
        ]
    assert len(list((show_epochs(tmp_path / "data", tmp_path / "other", EPOCHS["last"]) / "A").iterdir())) == 1


def test_results_in_files_are_counted_in_the_files(tmp_path):
    (tmp_path / "out").mkdir()
    for name, rows in {"one.parquet": 2, "two.parquet": 3, ".hidden.parquet.crc": None}.items():
        if rows is None:
            (tmp_path / "out" / name).write_bytes(b"")
        else:
            pq.write_table(pa.table({"k": range(rows)}), tmp_path / "out" / name)
    assert Parquet(tmp_path).results([], lambda _: 0) == (5,)


def test_the_checkpoint_and_the_driver_are_weighed_before_every_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(Rows, "deliver", lambda *_: None)
    state = tmp_path / delivery.CHECKPOINT / "state"
    (state / "manifest").mkdir(parents=True)
    gauged = Gauged(tmp_path)
    for epoch in range(3):
        gauged.deliver(None, epoch)
        (state / "manifest" / f"{epoch}.json").write_bytes(bytes(10))
        (state / f"{epoch}.arrow").write_bytes(bytes(100))
    assert gauged.gauges["files"] == [0, 2, 4]
    assert gauged.gauges["manifest_bytes"] == [0, 10, 20]
    assert all(held > 1_000_000 for held in gauged.gauges["driver_bytes"])


@pytest.mark.spark
def test_a_flat_pipeline_gives_a_sink_the_same_columns_from_us_and_from_spark(spark):
    rates = spark.readStream.format("rate").load().selectExpr("value AS k", "value AS v", "'x' AS p")
    frames = dict.fromkeys("ABC", rates)
    pipeline = sinks.SUITE.pipeline
    columns = pipeline.relation(frames).columns
    assert columns == pipeline.chain(frames).columns == ["A_k", "A_v", "A_p", "B_v", "B_p", "C_v", "C_p"]


def test_a_pipeline_with_conditions_is_the_same_join_as_sql():
    within = "B.ts BETWEEN A.ts AND A.ts + INTERVAL 10 SECONDS"
    assert windows.INNER.pipeline.sql == f"SELECT A.*, B.* FROM A JOIN B ON A.k = B.k AND {within}"
    assert windows.LEFT.pipeline.sql == f"SELECT A.*, B.* FROM A LEFT JOIN B ON A.k = B.k AND {within}"
    assert windows.CHAIN.pipeline.sql.endswith(f"{within} JOIN C ON A.k = C.k AND {within.replace('B.', 'C.')}")
    step = Step("C", (("B.m", "C.m"),), how="left")
    assert Pipeline((Step("AB", (("A.k", "B.k"),)), step)).sql.endswith("JOIN B ON A.k = B.k LEFT JOIN C ON B.m = C.m")


def test_results_of_steps_without_input_count_too():
    ours = {"customMetrics": {"results": 3, "rowsOut": 9, "cleanup": {}}}
    assert (BY_OURS.results(ours), BY_OURS.is_step(ours), BY_OURS.is_step({"customMetrics": {}})) == (3, True, False)
    assert [BY_SPARK.is_step({"sink": {"numOutputRows": rows}}) for rows in (3, 0, -1)] == [True, False, False]


@pytest.mark.spark
@pytest.mark.parametrize("suite", [windows.INNER, windows.LEFT, windows.CHAIN], ids=["inner", "left", "chain"])
def test_both_engines_get_the_same_times_and_conditions(spark, suite):
    rates = spark.readStream.format("rate").load().selectExpr("value AS k", "timestamp AS ts")
    frames = dict.fromkeys(suite.pipeline.streams, rates)
    plan = suite.pipeline.relation(frames).shape.plan()
    assert len(plan.operators) == 1
    assert {stream.delay_us for stream in plan.streams} == {windows.DELAY_S * 1_000_000}
    assert plan.root.how == suite.pipeline.steps[0].how
    assert plan.root.bounds[0] == (0, 1, windows.REACH_S * 1_000_000)
    assert suite.pipeline.chain(frames).columns[:3] == ["A_k", "A_ts", "B_ts"]
