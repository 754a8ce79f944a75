"""A restart looks at manifests alone; state is described without being read; leftovers are no reason to stop."""

import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.in_process import InProcess
from tests.support.oracle import joined, multiset
from tests.support.states import JOIN, two_way_plan

from watersmeet.driver import checkpoint
from watersmeet.model.errors import StorageError
from watersmeet.state.inspect import state_table
from watersmeet.storage.local import LocalStorage

TABLES = [{name: pa.table({"k": [1, 2, epoch], "v": [epoch] * 3}) for name in "AB"} for epoch in range(3)]
ON = ["A.k = B.k"]


@pytest.fixture
def query(tmp_path):
    made = InProcess(two_way_plan(), str(tmp_path))
    for tables in TABLES[:2]:
        made.epoch(tables)
    return made


def everything(results):
    return multiset(pa.concat_tables(results).flatten())


def test_a_restart_reads_no_run(query, monkeypatch):
    read = []
    monkeypatch.setattr(LocalStorage, "local", lambda self, path: read.append(path) or Path(self.root, path))
    kept, whole = LocalStorage.read, []
    monkeypatch.setattr(LocalStorage, "read", lambda self, path: whole.append(path) or kept(self, path))
    query.recover()
    assert whole, "manifests are read"
    assert not [path for path in [*read, *whole] if str(path).startswith("runs/")]


def test_the_state_is_described_without_a_run(query, tmp_path):
    shutil.rmtree(tmp_path / "state" / "runs")
    table = state_table(query.manifest)
    assert set(table.column("operator").to_pylist()) == {JOIN}
    assert sum(table.column("rows").to_pylist()) == 12


def test_leftovers_that_cannot_be_deleted_are_told_and_stop_nothing(tmp_path, monkeypatch, caplog):
    def fails(*_):
        raise StorageError("effects cannot be deleted", why="the disk says no", how="ask it again")

    query = InProcess(two_way_plan(), str(tmp_path))
    monkeypatch.setattr(checkpoint, "clear_effects", fails)
    with caplog.at_level(logging.WARNING, "watersmeet"):
        results = [query.epoch(tables) for tables in TABLES]
    assert "stay for now" in caplog.text
    wanted = joined({name: [tables[name] for tables in TABLES] for name in "AB"}, ON)
    assert everything(results) == wanted
