import json

import pytest
from tests.cli.commands import NO_JAVA, succeed, succeed_json, watersmeet
from tests.support.states import JOIN, batch, empty_manifest, rows_of, written

from watersmeet.state.changes import AddRun, CountOutput, Reroute
from watersmeet.state.vectors import Vector
from watersmeet.state.versions import VersionStore
from watersmeet.storage.open import open_storage

GROUPS, SITES, ROWS = 4, 2, 100


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> str:
    """Three versions: a run of 100 rows over all groups, results, and a move."""
    location = str(tmp_path_factory.mktemp("checkpoint"))
    store = VersionStore(open_storage(f"{location}/state"))
    manifest = empty_manifest(GROUPS, SITES)
    run = written(store.storage, "000000000000-0-a", rows_of(ROWS), GROUPS)
    counted = CountOutput(JOIN, Vector.of([9, 0, 7, 0]), Vector.of([0] * GROUPS))
    moved = Reroute({JOIN: (0, 0, 1, 1)}, SITES, "more sites", sites_before=1)
    store.begin(manifest)
    for number, changes in enumerate([[AddRun(run)], [counted], [moved]]):
        manifest = store.commit(manifest, batch(number, *changes))
    return location


def test_state_needs_no_java_and_sums_up_by_operator_and_site(checkpoint):
    lines = [line.split() for line in succeed("state", checkpoint, env=NO_JAVA).splitlines()]
    assert lines[0][:4] == ["version", "3", "of", f"{checkpoint}:"]
    table = [line for line in lines if line[:1] == ["join1"]]
    first, second = table[0], table[1]
    assert first[1:7] == ["A,", "B", "0", "memory", "2", first[6]]
    assert int(first[6]) + int(second[4]) == ROWS
    assert first[-1] == "9"
    assert len(table) == SITES + GROUPS


def test_state_as_json_has_every_row_and_the_version(checkpoint):
    told = succeed_json("state", checkpoint)
    assert (told["version"], told["batch"], told["groups"], told["sites"]) == (3, 2, GROUPS, SITES)
    assert [(row["group"], row["site"], row["output"]) for row in told["rows"]] == [
        (0, 0, 9),
        (1, 0, 0),
        (2, 1, 7),
        (3, 1, 0),
    ]
    assert sum(row["rows"] for row in told["rows"]) == told["stateRows"] == ROWS


def test_events_are_those_of_committed_versions(checkpoint):
    assert succeed("events", checkpoint, env=NO_JAVA) == "epoch 2: reroute, more sites (sites 1 -> 2)\n"
    assert [event["epoch"] for event in succeed_json("events", checkpoint)["events"]] == [2]


@pytest.mark.parametrize("name", ["state", "events"])
def test_a_folder_that_is_no_checkpoint_is_told_in_one_paragraph(name, tmp_path):
    done = watersmeet(name, tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"[CheckpointError] {tmp_path} is not a Watersmeet checkpoint: ")
    done = watersmeet(name, tmp_path, "--output", "json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["error"]["condition"] == "CheckpointError"
    assert list(tmp_path.iterdir()) == []
