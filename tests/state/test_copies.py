"""A host's copies of runs: those that are not live any more go with the next task, whichever process made them."""

import signal

import numpy as np
import pyarrow as pa
import pytest
from tests.support import states
from tests.support.processes import start

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import OperatorId
from watersmeet.state.files import COPY_TRIES
from watersmeet.state.rows import SortedRows
from watersmeet.state.runs import forget_runs, open_run, run_name
from watersmeet.storage.faulty import FaultyStorage
from watersmeet.storage.remote import FsspecStorage

JOIN, OTHER = OperatorId("join1"), OperatorId("join2")


@pytest.fixture
def storage(tmp_path):
    return FsspecStorage(f"file://{tmp_path}/state", str(tmp_path / "cache"))


def written(storage, epoch, operator=JOIN):
    rows = SortedRows(np.arange(3, dtype=np.uint64), pa.record_batch({"A.x": [1, 2, 3]}))
    return states.written(storage, run_name(epoch, 0, "a"), rows, operator=operator)


def epochs(storage, operator=JOIN):
    """Which epochs' runs have copies here."""
    return [int(path.rsplit("/", 1)[-1].split("-")[0]) for path in storage.copied(f"runs/{operator}")]


WRITE_MAP_AND_DIE = """
import os, signal, sys
from tests.state.test_copies import OTHER, open_run, written
from watersmeet.storage.remote import FsspecStorage
storage = FsspecStorage(*sys.argv[1:])
for epoch in range(5):
    open_run(storage, written(storage, epoch))
written(storage, 0, OTHER)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_task_clears_what_a_process_that_died_has_left_and_keeps_what_is_live_or_new(storage):
    dead = start(WRITE_MAP_AND_DIE, storage.url, storage.cache)
    dead.communicate(timeout=60)
    assert dead.returncode == -signal.SIGKILL
    assert epochs(storage) == [0, 1, 2, 3, 4]
    live = next(path for path in storage.list("runs/join1") if "000000000001" in path)
    forget_runs(storage, {JOIN}, {live}, epoch=3)
    assert epochs(storage) == [1, 3, 4]
    assert epochs(storage, OTHER) == [0], "tasks of its level know what is live there"
    assert len(storage.list("runs")) == 6, "only copies go"


def test_copies_of_runs_that_were_spilled_go_though_this_process_has_never_mapped_them(storage):
    spilled, live = written(storage, 0), written(storage, 1)
    storage.forget(storage.copied(""))
    for run in (spilled, live):
        storage.local(run.path)
    forget_runs(storage, {JOIN}, {live.path}, epoch=2)
    assert epochs(storage) == [1]


def test_a_run_that_was_forgotten_and_is_needed_again_is_downloaded(storage):
    run = written(storage, 0)
    open_run(storage, run)
    forget_runs(storage, {JOIN}, set(), epoch=1)
    assert epochs(storage) == []
    assert len(open_run(storage, run)) == 3
    assert epochs(storage) == [0]


class Dropping(FaultyStorage):
    """Another task drops a copy right after it was asked for, several times."""

    def local(self, path):
        file = super().local(path)
        if self._count("dropped", 1) < COPY_TRIES:
            self.forget([path])
        return file


def test_a_copy_that_other_tasks_drop_while_it_is_mapped_is_downloaded_again(storage):
    run = written(storage, 0)
    assert len(open_run(Dropping(storage), run)) == 3


def test_a_run_that_is_missing_is_refused_whatever_copies_there_were(storage):
    run = written(storage, 0)
    storage.delete([run.path])
    with pytest.raises(CheckpointCorruptError, match="it is missing"):
        open_run(storage, run)
