import json

import numpy as np
import pyarrow as pa
import pytest
from tests.cli.commands import NO_JAVA, succeed, succeed_json, watersmeet

from watersmeet.model.ids import BatchId, InputName, OperatorId, RunId, Version
from watersmeet.state.events import record
from watersmeet.state.manifest import Manifest, OperatorState, Slice
from watersmeet.state.rows import sort_rows
from watersmeet.state.runs import write_run
from watersmeet.state.versions import VersionStore
from watersmeet.storage.open import open_storage

GROUPS, SITES, ROWS = 4, 2, 100


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> str:
    """Three versions, a run of 100 rows over all groups, and one adaptation committed and one not."""
    location = str(tmp_path_factory.mktemp("checkpoint"))
    storage = open_storage(f"{location}/state")
    hashes = np.random.default_rng(1).integers(0, 2**64, ROWS, dtype=np.uint64, endpoint=False)
    rows = sort_rows(hashes, pa.record_batch({"A.x": np.arange(ROWS)}))
    run = write_run(storage, RunId("r1"), OperatorId("join1"), InputName("A"), rows, GROUPS)
    state = OperatorState(routing=(0, 0, 1, 1), slices=(Slice(run.id, run.groups),), output=(9, 0, 7, 0))
    plan: dict[str, object] = {"operators": [{"id": "join1", "inputs": [{"name": "A"}, {"name": "B"}]}]}
    manifest = Manifest("q", plan, GROUPS, SITES, {OperatorId("join1"): state}, {run.id: run}, BatchId(2), Version(3))
    VersionStore(storage).commit(manifest)
    for version, sites in ((2, 2), (7, 5)):
        before, after = {"sites": 1}, {"sites": sites}
        event = {"epoch": version, "kind": "reroute", "reason": "more sites", "before": before, "after": after}
        record(storage, Version(version), [event])
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
