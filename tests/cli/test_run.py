import json
import os
import shutil
import signal
import subprocess

import pytest
from tests.cli.commands import (
    ENVIRONMENT,
    EXAMPLES,
    NO_JAVA,
    command,
    read_json_lines,
    succeed,
    succeed_json,
    watersmeet,
)

MOVED = {"move", "patience", "split", "park"}


@pytest.fixture
def examples(tmp_path):
    return shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("out"))


@pytest.mark.spark
@pytest.mark.processes
def test_the_example_of_orders_runs_and_its_state_can_be_looked_into(examples):
    lines = succeed("run", examples / "orders.toml").splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [["epoch", "0"], ["epoch", "1"], ["epoch", "2"]]
    assert lines[-1].endswith("4 results in 3 epochs")
    orders = read_json_lines(sorted((examples / "out/orders").rglob("*.json")))
    assert sorted((row["order_id"], row["cents"], row["carrier"]) for row in orders) == [
        (1, 1900, "post"),
        (3, 1200, "bike"),
        (4, 5000, "truck"),
        (4, 15000, "truck"),
    ]
    state = succeed_json("state", examples / "out/orders-checkpoint", env=NO_JAVA)
    assert {row["operator"] for row in state["rows"]} == {"join1", "join2"}
    events = succeed_json("events", examples / "out/orders-checkpoint", env=NO_JAVA)["events"]
    assert {event["kind"] for event in events} <= MOVED, "a slow machine may make `auto` move groups, and nothing else"


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_with_too_little_memory_shows_its_cleanup_and_gives_the_same_results(examples):
    file = examples / "orders.toml"
    file.write_text(file.read_text().replace("partitionGroups = 16", "partitionGroups = 16\nmemoryBudget = 1"))
    lines = succeed("run", file).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["epoch"] * 3
    assert {line.split()[0] for line in lines[3:-1]} == {"clean"}
    assert lines[-2].split("groups of ")[1].startswith("join2, 0 left")
    assert len(read_json_lines(sorted((examples / "out/orders").rglob("*.json")))) == 4
    events = succeed_json("events", examples / "out/orders-checkpoint", env=NO_JAVA)["events"]
    assert {event["kind"] for event in events} - MOVED == {"spill", "cleanup"}


CLICKS = """
select = ["V.n", "C.n AS click"]
[streams.V]
format = "json"
path = "views"
schema = "n INT, ts TIMESTAMP"
time = "ts"
window = "10 minutes"
watermark = "1 minute"
options = { maxFilesPerTrigger = 1 }
[streams.C]
format = "json"
path = "clicks"
schema = "n INT, ts TIMESTAMP"
time = "ts"
window = "1 minute"
[[joins]]
inputs = ["V", "C"]
on = "V.n = C.n"
how = "left"
[sink]
format = "json"
path = "out"
[options]
checkpointLocation = "checkpoint"
[trigger]
available_now = true
[spark]
master = "local[2]"
"""


@pytest.mark.spark
@pytest.mark.processes
def test_a_file_with_times_and_an_outer_join_tells_of_late_rows_and_warns_in_a_line(tmp_path):
    def rows(*times):
        return "".join(f'{{"n": {n}, "ts": "2026-01-01T{time}:00Z"}}\n' for n, time in times)

    (tmp_path / "query.toml").write_text(CLICKS)
    tables = {
        "views/1": rows((1, "10:00"), (2, "12:00")),
        "views/2": rows((3, "09:00")),
        "clicks/1": rows((1, "10:05")),
    }
    for age, (name, text) in enumerate(tables.items()):
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_700_000_000 + age, 1_700_000_000 + age))
    done = watersmeet("run", tmp_path / "query.toml")
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert "rejected" not in first
    assert second.endswith(", 1 of V rejected (late)")
    warnings = done.stderr.splitlines()
    assert [line.split(":")[0] for line in warnings] == ["warning"] * 2
    assert "stream C has a window and no watermark" in warnings[0]
    assert "rows of V that have no match never come out" in warnings[1]
    assert read_json_lines(sorted((tmp_path / "out").rglob("*.json"))) == [{"n": 1, "click": 1}]


AUCTIONS = """
group_by = ["items.id"]
aggregate = ["max(bids.cents) AS highest"]
[streams.items]
format = "json"
path = "items"
schema = "id BIGINT"
unique = "id"
options = { maxFilesPerTrigger = 1 }
[streams.bids]
format = "json"
path = "bids"
schema = "item BIGINT, cents BIGINT"
options = { maxFilesPerTrigger = 1 }
[punctuations.bids]
format = "json"
path = "auctions"
schema = "id BIGINT, state STRING"
where = "state = 'closed'"
select = ["id AS item"]
[[joins]]
inputs = ["items", "bids"]
on = "items.id = bids.item"
[sink]
format = "json"
path = "out"
[options]
checkpointLocation = "checkpoint"
[trigger]
available_now = true
[spark]
master = "local[2]"
"""


@pytest.mark.spark
@pytest.mark.processes
def test_a_file_with_punctuations_gives_final_groups_and_tells_what_it_rejects(tmp_path):
    (tmp_path / "query.toml").write_text(AUCTIONS)
    tables = {
        "items/1": [{"id": 1}, {"id": 2}],
        "auctions/1": [{"id": 1, "state": "closed"}, {"id": 2, "state": "open"}],
        "bids/1": [{"item": 1, "cents": 10}, {"item": 2, "cents": 20}],
        "bids/2": [{"item": 1, "cents": 99}, {"item": 2, "cents": 30}],
    }
    for age, (name, rows) in enumerate(tables.items()):
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(map(json.dumps, rows)))
        os.utime(path, (1_700_000_000 + age, 1_700_000_000 + age))
    lines = succeed("run", tmp_path / "query.toml").splitlines()
    assert "rejected" not in lines[0]
    assert lines[1].endswith(", 1 of bids rejected (punctuated)")
    assert read_json_lines(sorted((tmp_path / "out").rglob("*.json"))) == [{"id": 1, "highest": 10}]


GROUPS = """
where = "V.n < 9"
group_by = ["V.n"]
aggregate = ["count(*) AS views", "max(V.ts) AS latest"]
having = "views > 1"
select = ["n", "views"]
[streams.V]
format = "json"
path = "views"
schema = "n INT, ts TIMESTAMP"
[sink]
format = "json"
path = "out"
[options]
checkpointLocation = "checkpoint"
endOfInput = true
[trigger]
available_now = true
[spark]
master = "local[2]"
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_file_with_groups_of_a_single_stream_runs(tmp_path):
    (tmp_path / "query.toml").write_text(GROUPS)
    (tmp_path / "views").mkdir()
    rows = "".join(f'{{"n": {n}, "ts": "2026-01-01T10:00:00Z"}}\n' for n in (1, 1, 2, 9, 9))
    (tmp_path / "views" / "1.json").write_text(rows)
    done = watersmeet("run", tmp_path / "query.toml")
    assert done.returncode == 0, done.stderr
    assert read_json_lines(sorted((tmp_path / "out").rglob("*.json"))) == [{"n": 1, "views": 2}]
    file = tmp_path / "query.toml"
    file.write_text(GROUPS.replace('path = "out"', 'path = "out"\noutput_mode = "update"'))
    wrong = watersmeet("run", file)
    assert wrong.returncode == 1
    assert "outputMode is 'update' and the sink json" in wrong.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_stops_a_query_that_never_ends_after_a_whole_epoch(examples):
    file = examples / "rates.toml"
    file.write_text(file.read_text().replace('"console"', '"noop"').replace("numRows = 3, truncate = false", ""))
    arguments, env = command("run", file, "--output", "json"), ENVIRONMENT | {"TMPDIR": str(examples)}
    with subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, noise = process.communicate(timeout=60)
    last = json.loads(rest.splitlines()[-1])
    assert (process.returncode, first["epoch"], noise) == (130, 0, "")
    assert last["summary"]["stopped"]
    assert last["summary"]["epochs"] == len(rest.splitlines())


def test_a_wrong_file_is_told_in_one_paragraph_before_spark_starts(examples):
    file = examples / "orders.toml"
    file.write_text(file.read_text().replace("[sink]", "[sinc]"))
    done = watersmeet("run", file, env=NO_JAVA)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("[UnknownNameError]")
    assert "did you mean 'sink'?" in done.stderr
    done = watersmeet("run", file, "--output", "json", env=NO_JAVA)
    assert (done.returncode, json.loads(done.stdout)["error"]["condition"]) == (1, "UnknownNameError")


def test_without_java_the_message_says_what_to_install(examples):
    done = watersmeet("run", examples / "orders.toml", env=NO_JAVA)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Java 17 or later" in done.stderr
    assert "openjdk-17" in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_a_file_with_the_last_rows_of_groups_runs(tmp_path):
    over = GROUPS.replace('having = "views > 1"', "over = { rows = 1 }")
    over = over.replace('schema = "n INT, ts TIMESTAMP"', 'schema = "n INT, ts TIMESTAMP"\ntime = "ts"')
    (tmp_path / "query.toml").write_text(over)
    (tmp_path / "views").mkdir()
    rows = "".join(f'{{"n": {n}, "ts": "2026-01-01T10:00:0{n}Z"}}\n' for n in (1, 1, 2, 9))
    (tmp_path / "views" / "1.json").write_text(rows)
    done = watersmeet("run", tmp_path / "query.toml")
    assert done.returncode == 0, done.stderr
    got = read_json_lines(sorted((tmp_path / "out").rglob("*.json")))
    assert sorted(got, key=str) == [{"n": 1, "views": 2}, {"n": 2, "views": 1}]
