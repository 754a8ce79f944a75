"""Manifests of a join of two streams, and its runs, made by hand."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from watersmeet.model.ids import BatchId, InputName, OperatorId, RunId, SiteId
from watersmeet.model.plan import Plan
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.changes import Change, FinishBatch
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import LIVE, Manifest, OperatorState, RowSet, RunFile, Slice
from watersmeet.state.rows import SortedRows, sort_rows
from watersmeet.state.runs import RunName, write_run
from watersmeet.state.vectors import Vector
from watersmeet.storage.base import Storage

JOIN, A = OperatorId("join1"), InputName("A")
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})


def two_way_plan(on: str = "A.k = B.k") -> Plan:
    return plan(Query(JoinNode(tuple(StreamNode(name, SCHEMA) for name in "AB"), on)))


PLAN = two_way_plan()


def empty_manifest(groups: int = 4, sites: int = 2, query_id: str = "q") -> Manifest:
    """No rows yet; groups are spread evenly."""
    routing = tuple(SiteId(group * sites // groups) for group in range(groups))
    return Manifest(query_id, PLAN, groups, sites, {JOIN: OperatorState(routing)})


def run_file(name: str, *groups: int, rows: int = 5, bytes_each: int = 100) -> RunFile:
    """A run that no file is behind."""
    sizes = (Vector.of([rows] * len(groups), "<u4"), Vector.of([bytes_each] * len(groups), "<u4"))
    return RunFile(RunId(name), f"runs/{JOIN}/A/{name}.arrow", JOIN, A, GroupSet.of(groups), rows, 100, 0, *sizes)


def part(run: str, *groups: int, generation: int = LIVE) -> Slice:
    """Some groups of a run, live or closed."""
    return Slice(RunId(run), RowSet(GroupSet.of(groups)), generation, "memory" if generation == LIVE else "disk")


def holding(manifest: Manifest, runs: Iterable[RunFile], slices: Iterable[Slice]) -> Manifest:
    """The same with other runs and slices."""
    state = OperatorState(manifest.operators[JOIN].routing, tuple(slices))
    found = {run.id: run for run in runs}
    return Manifest(manifest.query_id, manifest.plan, manifest.groups, manifest.sites, {JOIN: state}, found)


def batch(number: int, *changes: Change) -> list[Change]:
    """The changes of an epoch."""
    return [*changes, FinishBatch(BatchId(number))]


def rows_of(count: int, seed: int = 0) -> SortedRows:
    """Random rows with a number and a text."""
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, 2**64, count, dtype=np.uint64)
    texts = [f"s{number}" for number in range(count)]
    return sort_rows(hashes, pa.record_batch({"A.x": rng.integers(0, 9, count), "A.s": texts}))


def rows_in(group: int, count: int, groups: int) -> SortedRows:
    """Rows of one group."""
    drawn = np.random.default_rng(group).integers(0, 2**64, (count + 9) * groups * 2, dtype=np.uint64)
    hashes = drawn[group_of(drawn, groups) == group][:count]
    return sort_rows(hashes, pa.record_batch({"A.v": np.arange(count)}))


def written(storage: Storage, name: str, rows: SortedRows, groups: int = 8, operator: OperatorId = JOIN) -> RunFile:
    """A run with a file behind it."""
    return write_run(storage, RunName(RunId(name), operator, A), rows, groups)
