"""Where a run of ours keeps its state: in a folder, or on a stand-in for remote storage; empty, or what another left.

Runs are never changed, so those that another left are linked and not copied. The manifest names them by paths within
the checkpoint: it may lie anywhere, and state that was written to the stand-in can be read as local files, too.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from watersmeet.lab.bench.contenders import Way
from watersmeet.lab.bench.delivery import CHECKPOINT
from watersmeet.lab.bench.outcome import Task
from watersmeet.lab.bench.remote import stand_in
from watersmeet.storage.base import Storage

COPIES = "copies"


def make_place(task: Task, way: Way) -> dict[str, object]:
    """Bring what the run goes on with; gives the switches that lead it to its storage."""
    if way.resumes:
        link_tree(Path(task.prepared, CHECKPOINT), Path(task.work, CHECKPOINT))
    if way.has_copies:
        link_tree(Path(task.prepared, COPIES), Path(task.work, COPIES))
    return {"wrap": _remote(Path(task.work))} if way.storage == "remote" else {}


def link_tree(source: Path, target: Path) -> None:
    """Copy a folder; of runs, which never change, only the names."""
    shutil.copytree(source, target, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    if source.endswith(".arrow"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _remote(work: Path) -> Callable[[Storage], Storage]:
    storage = stand_in(work / CHECKPOINT, work / COPIES)
    return lambda _: storage
