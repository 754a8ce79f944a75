"""Golden checkpoints of queries of other kinds: `python -m tests.golden.kinds tests/golden/format<n>-kinds`.

- ``grouped``: windows and watermarks, punctuations and a unique key below an aggregate whose groups come when final.
- ``outer``: rows without a match, which punctuations and watermarks decide on.
- ``ring``: a band without an equality, below a join on a key.

Each has spilled groups, groups that have moved, that are split and that are parked. Keys are whole numbers, which have
Spark's hashes.
"""

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from tests.golden.make import drawn_the_same, left_out
from tests.support.in_process import InProcess, Moving
from tests.support.law_runs import steps_to_the_end
from tests.support.oracle import multiset
from tests.support.punctuations import Punctuated

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, JoinNode, Node, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.planning.windows import WINDOW_TYPE
from watersmeet.runners.local import LocalOffsets

BIGINT = pa.int64()
SCHEMA = pa.schema({"k0": BIGINT, "id": BIGINT, "ts": pa.timestamp("us", "UTC")})
WINDOW_US, DELAY_US = 8, 4
EPOCHS, MORE, ROWS = 6, 4, 8
OPTIONS = MemoryOptions(budget_bytes=1500, strategy="lru", fraction=0.3)
KINDS = ("grouped", "outer", "ring")
AUTO, STILL = Moving(), Moving("none")
"""With so little memory, `auto` would make groups whole again that are split."""


def stream(name: str, **more: object) -> StreamNode:
    return StreamNode(name, SCHEMA, "ts", WINDOW_US, DELAY_US, **more)


def query_of(kind: str) -> Query:
    a, b, c = stream("A", unique=("id",)), stream("B", punctuated=("k0",)), stream("C")
    if kind == "ring":
        band = JoinNode((stream("A"), stream("B")), "ABS(A.id - B.id) <= 3")
        return Query(JoinNode((band, c), "B.k0 = C.k0"), ("A.id", "B.id", "C.id"))
    if kind == "outer":
        return Query(JoinNode((a, b), "A.k0 = B.k0", "left"), ("A.k0", "A.id", "B.id"))
    keys = GroupKey("k", "A.k0", BIGINT), GroupKey("window", "window(A.ts, '4 microseconds')", WINDOW_TYPE)
    told = Aggregate("n", "count", BIGINT), Aggregate("total", "sum", BIGINT, "B.id", BIGINT)
    rows: Node = JoinNode((a, b), "A.k0 = B.k0")
    return Query(AggregateNode(rows, keys, told, "append"))


def promises(kind: str) -> Mapping[str, Punctuated]:
    """Of B, two keys in every other epoch, and a range in the end."""
    if kind == "ring":
        return {}
    told = tuple(({"k0": (epoch + 20, epoch + 21)},) if epoch % 2 else () for epoch in range(EPOCHS + MORE - 1))
    return {"B": Punctuated(("k0",), (*told, ({"k0": (0, 9)},)))}


def rows(kind: str, epoch: int) -> dict[str, pa.Table]:
    """The rows of an epoch: few keys, so that they meet; some have no match."""
    numbers = [epoch * ROWS + n for n in range(ROWS)]
    times = pa.array([4 * epoch + n % 6 for n in range(ROWS)], BIGINT).cast(SCHEMA.field("ts").type)
    ids = {"A": numbers, "B": [n + 1 for n in numbers], "C": numbers}
    keys = {"A": [n % 5 for n in numbers], "B": [n % 7 for n in numbers], "C": [n % 3 for n in numbers]}
    names = "ABC" if kind == "ring" else "AB"
    tables = {name: pa.table([keys[name], ids[name], times], schema=SCHEMA) for name in names}
    return tables | {f"{name}#promises": each.table(epoch, SCHEMA) for name, each in promises(kind).items()}


def opened(
    kind: str, folder: Path, *, planned: int = -1, options: MemoryOptions = OPTIONS, moving: Moving = AUTO
) -> InProcess:
    """A driver of a golden query; ``planned`` is the last batch that its log of the input has."""
    plan_ = plan(query_of(kind), lambda sql, _: pa.bool_() if "<" in sql else BIGINT)
    return InProcess(
        plan_, str(folder), groups=8, retained=2, options=options, offsets=LocalOffsets(planned), moving=moving
    )


def told(table: pa.Table) -> Counter[str]:
    return multiset(table.flatten())


def disturb(query: InProcess, chance: random.Random) -> None:
    """Groups move, are split and are parked."""
    query.move([0, 3], 0, 1)
    query.split(chance)
    query.park(chance)


def ended(query: InProcess) -> Counter[str]:
    """All that is missing, and then what comes when the input has ended."""
    steps = steps_to_the_end(query, (), random.Random(1), disturb=False, ends=True)
    return sum((told(table) for _, table in steps), start=Counter())


def make(kind: str, folder: Path) -> None:
    """Make the checkpoint below a folder, with the results so far beside it."""
    with drawn_the_same():
        query, chance = opened(kind, folder / "checkpoint", moving=STILL), random.Random(1)
        got = Counter[str]()
        for epoch in range(EPOCHS):
            if epoch == EPOCHS - 2:
                disturb(query, chance)
            got += told(query.epoch(rows(kind, epoch)))
        query.loop.close()
    (folder / "so_far.json").write_text(json.dumps(dict(sorted(got.items())), indent=1) + "\n")
    left_out(folder)


if __name__ == "__main__":
    for each in KINDS:
        target = Path(sys.argv[1]) / each
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        make(each, target)
