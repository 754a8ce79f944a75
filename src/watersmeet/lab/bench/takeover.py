"""What it costs that groups move to another host of a remote checkpoint; beside `restart`, without Spark.

Two sites are on two hosts, each with copies of its own, over the stand-in for remote storage (`remote`). After some
epochs that build up state, a few groups of the first move to the second, in three ways:

- *whole*: at once; the new host fetches every run that has any rows of the groups.
- *part*: at once; it fetches the rows of the groups.
- *announced*: the same, in the background, before the groups move.

Sites work one after the other in this process, so that the time of each is its own. Told is what the new host fetches,
in all and while the epoch of the move waits for it, which is judged, and how long its task takes then, which is not.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.driver.checkpoint import Expectation, open_checkpoint
from watersmeet.driver.loop import Loop
from watersmeet.driver.start import DriverOptions, start_driver
from watersmeet.lab.bench.remote import PROTOCOL, StandInStorage
from watersmeet.lab.bench.report import Count, Section
from watersmeet.lab.bench.suite import share
from watersmeet.lab.columns import plain_column
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.runners.local import LocalOffsets, LocalRunner
from watersmeet.runners.local.messages import Tables
from watersmeet.site.messages import SITE
from watersmeet.site.spec import LevelSpec
from watersmeet.site.task import SiteTask
from watersmeet.state import parts
from watersmeet.state.changes import AnnounceMove, MoveGroups
from watersmeet.state.groups import GroupSet
from watersmeet.state.runs import forget_runs
from watersmeet.storage.base import Pieces, Ranges

Way = Literal["whole", "part", "announced"]
JOIN, OLD, NEW = OperatorId("join1"), SiteId(0), SiteId(1)
GROUPS, MOVED = 300, 15
SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


@dataclass(frozen=True)
class Size:
    """Epochs that build up state, and then those that are watched; rows of each stream in each, of some length."""

    epochs: int
    rows: int
    characters: int
    watched: int = 8


FULL, QUICK = Size(epochs=10, rows=40_000, characters=300), Size(epochs=3, rows=300, characters=20)


@dataclass
class Measured:
    """What the new host fetched in all, and while the epoch of the move waited; the times of its tasks."""

    fetched_bytes: int = 0
    waited_bytes: int = 0
    usual_ms: float = 0.0
    takeover_ms: float = 0.0
    results: int = 0


@dataclass(frozen=True)
class Host(StandInStorage):
    """The storage as one host sees it, which counts what it fetches."""

    fetched: list[int] = field(default_factory=list, hash=False, compare=False)

    def local(self, path: str) -> Path:
        """A run that is not at hand is fetched as a whole."""
        if path not in self.copied(path.rpartition("/")[0]):
            self.fetched.append(self.size(path) or 0)
        return super().local(path)

    def _read_ranges(self, path: str, ranges: Ranges) -> Pieces:
        found = super()._read_ranges(path, ranges)
        self.fetched.append(sum(map(len, found)))
        return found


@dataclass
class Hosts(LocalRunner):
    """Runs the tasks of each site on a host of its own; tells how long those of the last step took."""

    hosts: Mapping[SiteId, Host] = field(default_factory=dict)
    took_ms: dict[SiteId, float] = field(default_factory=dict)

    def _run_level(self, spec: LevelSpec, messages: pa.Table, names: list[str]) -> pa.Table:
        outputs = [spec.outgoing.schema.empty_table()]
        for site, host in self.hosts.items():
            mine = messages.filter(pc.equal(messages.column(SITE), spec.site_keys[site]))
            started = time.monotonic()
            task = SiteTask(replace(spec, storage=host), site)
            outputs += [pa.Table.from_batches([batch]) for batch in task.run(self._batches(mine))]
            self.took_ms[site] = (time.monotonic() - started) * 1000
            names.append(task.effects_name)
        return pa.concat_tables(outputs)


def run_takeover(quick: bool, progress: Callable[[str], None]) -> list[Section]:  # noqa: FBT001 -- the seam
    """All ways, compared."""
    size, found = QUICK if quick else FULL, dict[str, Measured]()
    for way in get_args(Way):
        found[way] = measure(way, size)
        progress(f"takeover: {way}, the new host's task took {found[way].takeover_ms:.0f} ms")
    whole, part, announced = found.values()
    comparisons = (
        share("bytes fetched of runs, whole", part.fetched_bytes, whole.fetched_bytes, "bytes", at_most=0.2),
        share("bytes waited for, announced", announced.waited_bytes, part.waited_bytes, "bytes", at_most=0.5),
        share("task of the move's epoch, whole", part.takeover_ms, whole.takeover_ms, "ms"),
        share("task of the move's epoch, announced", announced.takeover_ms, whole.takeover_ms, "ms"),
        share(
            "task of the move's epoch, announced, against any other", announced.takeover_ms, announced.usual_ms, "ms"
        ),
    )
    counts = (Count("results", {name: each.results for name, each in found.items()}),)
    title = f"{MOVED} of {GROUPS} groups move to another host, after {size.epochs} epochs of {size.rows:,} rows"
    return [Section("takeover", title, (), comparisons, counts)]


def measure(way: Way, size: Size) -> Measured:
    """Build up state, move some groups, and watch."""
    with tempfile.TemporaryDirectory(prefix="watersmeet-takeover-") as folder, _driver(Path(folder), way) as loop:
        runner, epochs, measured = loop.stepper.runner, tables(size), Measured()
        if not isinstance(runner, Hosts):
            raise TypeError(runner)
        new, times = runner.hosts[NEW], list[float]()
        for number in range(size.epochs):
            _epoch(loop, number, next(epochs))
            times.append(runner.took_ms[NEW])
        kind, groups = AnnounceMove if way == "announced" else MoveGroups, GroupSet.of(range(MOVED))
        loop.stepper.adapt([kind(JOIN, groups, OLD, NEW, reason="to see what it costs")])
        new.fetched.clear()
        for number in range(size.epochs, size.epochs + size.watched):
            is_there = loop.stepper.view("step").manifest.operators[JOIN].routing[0] == NEW
            fetched = len(new.fetched)
            _epoch(loop, number, next(epochs))
            if is_there and not measured.takeover_ms:
                measured.takeover_ms, measured.waited_bytes = runner.took_ms[NEW], sum(new.fetched[fetched:])
                measured.fetched_bytes = sum(new.fetched)
        measured.usual_ms = float(np.median(times[-5:]))
        measured.results = sum(len(rows) for rows in runner.results.values())
        return measured


def tables(size: Size) -> Iterator[Tables]:
    """Two streams whose keys are anywhere in the state."""
    rng, text = np.random.default_rng(7), "x" * size.characters
    while True:
        keys = {name: rng.integers(0, 20 * size.rows, size.rows) for name in "AB"}
        yield {name: pa.table([some, [text] * size.rows], schema=SCHEMA) for name, some in keys.items()}


@contextmanager
def _driver(folder: Path, way: Way) -> Iterator[Loop[Tables]]:
    """The shipped driver on two hosts."""
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "state-too").symlink_to(folder / "checkpoint" / "state")  # maps of one are not the other's
    hosts = {
        OLD: Host(f"{PROTOCOL}://state", str(folder / "copies0"), {"folder": str(folder / "checkpoint")}),
        NEW: Host(f"{PROTOCOL}://state-too", str(folder / "copies1"), {"folder": str(folder / "elsewhere")}),
    }
    join = JoinNode(tuple(StreamNode(name, SCHEMA) for name in "AB"), "A.k = B.k")
    expected = Expectation("takeover", plan(Query(join, ("A.text", "B.text"))), GROUPS, GROUPS, len(hosts))
    checkpoint = open_checkpoint(str(folder / "checkpoint"), expected, LocalOffsets(), "bench", lambda _: hosts[OLD])
    runner = Hosts(hosts[OLD], plain_column, hosts=hosts)
    worth, parts.WORTH = parts.WORTH, 0.0 if way == "whole" else parts.WORTH
    loop = start_driver(checkpoint, runner, DriverOptions("bench", expected, MemoryOptions(), adaptation="none"))
    try:
        yield loop
    finally:
        loop.close()
        parts.WORTH = worth
        forget_runs(hosts[OLD], [JOIN], (), loop.manifest.version + 1)


def _epoch(loop: Loop[Tables], number: int, batch: Tables) -> None:
    """A batch is joined; one that the offsets do not know of would be taken for missing."""
    offsets = vars(loop.stepper.checkpoint)["offsets"]
    offsets.last = number
    loop.batch(batch, number)
