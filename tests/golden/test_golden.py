"""Checkpoints of every format there was, as they were written: the present one is gone on with, others are refused.

They are kept for ever; `make` tells how they are made.
"""

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from tests.golden.make import CONDITIONS, NEEDED, SCHEMA, golden_plan, make, opened, results_of, rows
from tests.support.oracle import joined, multiset

from watersmeet.cli.state import open_state
from watersmeet.model.errors import CheckpointMismatchError
from watersmeet.planning.group_columns import traced
from watersmeet.state.event_log import EventLog
from watersmeet.state.events import CleanupEvent, SpillEvent
from watersmeet.state.manifest import FORMAT

HERE = Path(__file__).parent
REASON = "this version of Watersmeet reads format 2; format 1 did not hold the query's plan"


@pytest.fixture(params=["as it was written", "as it is written now"])
def golden(request, tmp_path):
    """A golden checkpoint of the present format, to be gone on with."""
    folder = tmp_path / "golden"
    if request.param == "as it is written now":
        folder.mkdir()
        make(folder)
        return folder
    return Path(shutil.copytree(HERE / f"format{FORMAT}", folder))


def so_far(folder):
    told = json.loads((folder / "so_far.json").read_text())
    inputs = [{name: pa.table(columns, schema=SCHEMA) for name, columns in batch.items()} for batch in told["inputs"]]
    return inputs, as_multiset(told["results"])


def as_multiset(results):
    columns = [list(column) for column in zip(*results, strict=True)] or [[] for _ in NEEDED]
    return multiset(pa.table(columns, names=list(NEEDED)))


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_golden_checkpoint_has_all_that_a_checkpoint_can_have(golden):
    store, manifest = open_state(str(golden / "checkpoint"))
    kept = store.files(store.versions())
    assert [each.file.snapshot is not None for each in kept] == [True, False, False, False]
    assert manifest.plan == manifest.written == traced(golden_plan())
    assert (manifest.version, manifest.batch, manifest.groups) == (7, 5, 8)
    assert manifest.cleaning is not None
    assert all(manifest.spilled(name) and manifest.generations(name) for name in manifest.operators)
    assert all(state.output and state.statistics for state in manifest.operators.values())
    assert {type(event) for event in EventLog(store).all()} == {SpillEvent}


def test_it_is_gone_on_with_and_results_are_exact(golden):
    batches, got = so_far(golden)
    query = opened(golden / "checkpoint", planned=len(batches) - 1)
    begun = query.manifest.cleaning
    for number in range(4):
        batches.append(rows(len(batches) + number))
        got += as_multiset(results_of(query.epoch(batches[-1])))
    cleanups = [each for each in EventLog(query.loop.stepper.checkpoint.store).all() if isinstance(each, CleanupEvent)]
    assert (cleanups[0].operator, cleanups[0].groups) == (begun.operator, sorted(begun.groups))
    query.recover()
    for level in range(2):
        while any(query.manifest.spilled(operator.id) for operator in query.plan.levels[level]):
            got += as_multiset(results_of(query.clean("end", None, level)))
    tables = {name: [batch[name] for batch in batches] for name in "ABC"}
    assert got == joined(tables, CONDITIONS, ", ".join(NEEDED))
    assert got.total() > 100


def test_what_lies_beside_it_are_the_results_of_its_own_generations(golden):
    """Results so far are some of all there are: those of spilled groups are missing."""
    batches, got = so_far(golden)
    tables = {name: [batch[name] for batch in batches] for name in "ABC"}
    expected = joined(tables, CONDITIONS, ", ".join(NEEDED))
    assert got < expected
    assert Counter() < got


def test_a_checkpoint_of_format_1_is_refused_with_the_reason_and_what_to_do_and_not_touched(tmp_path):
    folder = Path(shutil.copytree(HERE / "format1", tmp_path / "golden"))
    before = files(folder)
    for open_it in (lambda: opened(folder / "checkpoint", planned=2), lambda: open_state(str(folder / "checkpoint"))):
        with pytest.raises(CheckpointMismatchError) as caught:
            open_it()
        text = str(caught.value)
        assert "manifest/000000000004.json has format 1" in text
        assert REASON in text
        assert "finish the query with the version that wrote it, or start with a new checkpointLocation" in text
    assert files(folder) == before


def test_no_golden_checkpoint_tells_of_the_machine_it_was_made_on():
    names = {path.name for path in HERE.glob("format*/checkpoint/state/*")}
    assert names == {"manifest", "runs", "events"}
