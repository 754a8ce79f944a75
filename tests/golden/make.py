"""Makes the golden checkpoint of the present format: `python -m tests.golden.make tests/golden/format<n>`.

A golden checkpoint of every format there was is kept for ever. This one has two operators, several versions with a
snapshot among them, spilled groups in closed generations, and a step of cleanup that was begun. Beside it lie the rows
that were joined so far, and the results that the sink got.

Names and numbers are drawn the same each time; what tells a host or a process is left out.
"""

import json
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from tests.support.in_process import InProcess

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.model.plan import Plan
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.runners.local import LocalOffsets
from watersmeet.state import versions

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.string(), "id": pa.int64()})
CONDITIONS = ("A.k = B.k", "B.t = C.t")
NEEDED = ("A.id", "B.id", "B.t", "C.id")
EPOCHS, ROWS = 6, 5
OPTIONS = MemoryOptions(budget_bytes=700, strategy="lru", fraction=0.3)


def golden_plan() -> Plan:
    """A and B by a number, then C by a text."""
    a, b, c = (StreamNode(name, SCHEMA) for name in "ABC")
    return plan(Query(JoinNode((JoinNode((a, b), CONDITIONS[0]), c), CONDITIONS[1]), NEEDED))


def rows(epoch: int) -> dict[str, pa.Table]:
    """The rows of an epoch: few keys, so that they meet."""
    numbers = [epoch * ROWS + n for n in range(ROWS)]
    columns = ([n * 7 % 8 for n in numbers], [f"t{n * 5 % 6}" for n in numbers], numbers)
    return {name: pa.table(list(columns), schema=SCHEMA) for name in "ABC"}


def opened(folder: Path, *, planned: int = -1) -> InProcess:
    """A driver of the golden query; ``planned`` is the last batch that its log of the input has."""
    offsets = LocalOffsets(planned)
    return InProcess(golden_plan(), str(folder), groups=8, sites=1, retained=2, options=OPTIONS, offsets=offsets)


def results_of(table: pa.Table) -> list[list[object]]:
    """Results as lists of values."""
    names = [text.split(".") for text in NEEDED]
    columns = [pa.compute.struct_field(table.column(stream), field).to_pylist() for stream, field in names]
    return [list(row) for row in zip(*columns, strict=True)]


def make(folder: Path) -> None:
    """Make the checkpoint below a folder, with the inputs and results so far beside it."""
    with drawn_the_same():
        query = opened(folder / "checkpoint")
        batches = [rows(epoch) for epoch in range(EPOCHS)]
        results = [row for batch in batches for row in results_of(query.epoch(batch))]
        query.attempt_cleaning(None)
        query.loop.close()
    inputs = [{name: table.to_pydict() for name, table in batch.items()} for batch in batches]
    (folder / "so_far.json").write_text(json.dumps({"inputs": inputs, "results": sorted(results)}) + "\n")
    left_out(folder)


@contextmanager
def drawn_the_same() -> Iterator[None]:
    """Names are the same each time, and there is a snapshot soon."""
    numbers = count(1)
    with (
        patch.object(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers) << 80)),
        patch.object(versions, "SNAPSHOT_LEAST", 4),
        patch.object(versions, "SNAPSHOT_MOST", 4),
    ):
        yield


def left_out(folder: Path) -> None:
    """Leave out what tells a host or a process."""
    for name in ("owners", "effects"):
        shutil.rmtree(folder / "checkpoint/state" / name)
    (folder / "checkpoint/state/lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
