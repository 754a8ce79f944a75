"""A merge of what was spilled takes no more than its share, and leaves nothing of it behind on the host."""

import numpy as np
import pyarrow as pa
import pytest
from watersmeet.driver.merges import closed_merges
from watersmeet.state.ledger import Ledger

from watersmeet.model.ids import InputName, OperatorId, RunId, SiteId
from watersmeet.site.merging import merge
from watersmeet.site.spec import InputSpec, MergeOrder, OperatorSpec
from watersmeet.state import runs
from watersmeet.state.groups import group_of
from watersmeet.state.manifest import LIVE, Manifest, OperatorState, Slice
from watersmeet.state.rows import sort_rows
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

GROUPS, SPILLED, KEPT = 16, 3, 9
JOIN, INPUT = OperatorId("join1"), InputName("A")
SCHEMA = pa.schema({"A.v": pa.int64()})
OPERATOR = OperatorSpec(JOIN, (InputSpec(0, JOIN, INPUT, 0, SCHEMA, ()),), hash_decides=True, output_tag=None)


def hashes_of(group: int, rows: int) -> np.ndarray:
    drawn = np.random.default_rng(group).integers(0, 2**64, rows * GROUPS * 2, dtype=np.uint64)
    return drawn[group_of(drawn, GROUPS) == group][:rows]


def write(storage, name, spilled_rows, kept_rows):
    hashes = np.concatenate([hashes_of(SPILLED, spilled_rows), hashes_of(KEPT, kept_rows)])
    rows = sort_rows(hashes, pa.record_batch({"A.v": np.arange(len(hashes))}))
    return runs.write_run(storage, RunId(f"000000000001-0-{name}"), JOIN, INPUT, rows, GROUPS)


def mapped(storage, written):
    return {(storage.url, run.path) for run in written}


def manifest_of(written, generation):
    closed = [Slice(run.id, ((SPILLED, SPILLED + 1),), generation, "disk") for run in written]
    live = [Slice(run.id, ((KEPT, KEPT + 1),)) for run in written]
    state = OperatorState((SiteId(0),) * GROUPS, (*closed, *live))
    return Manifest("q", {}, GROUPS, 1, {JOIN: state}, {run.id: run for run in written})


@pytest.mark.parametrize(("spilled_rows", "merges"), [(400, 0), (4, 1)])
def test_what_a_generation_really_holds_decides_and_not_the_size_of_its_runs(tmp_path, spilled_rows, merges):
    storage = LocalStorage(str(tmp_path), durable=False)
    written = [write(storage, name, spilled_rows, kept_rows=404 - spilled_rows) for name in "abcd"]
    orders = list(closed_merges(manifest_of(written, 7), OPERATOR, SiteId(0), Ledger(storage, GROUPS), 8_000))
    assert len(orders) == merges
    assert all(order.generation == 7 for order in orders)


def test_a_generation_too_large_to_merge_does_not_keep_later_ones_waiting(tmp_path):
    storage = LocalStorage(str(tmp_path), durable=False)
    large = manifest_of([write(storage, f"large{n}", 400, 1) for n in range(4)], 400)
    small = manifest_of([write(storage, f"small{n}", 4, 1) for n in range(4)], 500)
    both = OperatorState((SiteId(0),) * GROUPS, large.operators[JOIN].slices + small.operators[JOIN].slices)
    manifest = Manifest("q", {}, GROUPS, 1, {JOIN: both}, large.runs | small.runs)
    [order] = closed_merges(manifest, OPERATOR, SiteId(0), Ledger(storage, GROUPS), 8_000)
    assert order.generation == 500


def test_copies_and_pages_of_what_was_spilled_are_let_go(tmp_path):
    storage = FsspecStorage("memory://merged", str(tmp_path), {})
    written = [write(storage, name, 5, 5) for name in "ab"]
    pairs = tuple((run, Slice(run.id, ((SPILLED, SPILLED + 1),), 7, "disk")) for run in written)
    live = frozenset({written[0].path})
    change, rows = merge(
        storage, MergeOrder(JOIN, INPUT, pairs, ((0, GROUPS),), 7), GROUPS, RunId("000000000002-0-m"), live
    )
    assert (change.generation, len(rows), change.run.rows) == (7, 10, 10)
    assert not runs._mapped.keys() & mapped(storage, written)  # noqa: SLF001
    copies = {file.name for file in tmp_path.rglob("*.arrow")}
    assert copies == {"000000000001-0-a.arrow"}, "the copy of a live run stays, no other"


def test_live_runs_stay_mapped(tmp_path):
    storage = LocalStorage(str(tmp_path), durable=False)
    written = [write(storage, name, 5, 5) for name in "ab"]
    pairs = tuple((run, Slice(run.id, run.groups)) for run in written)
    change, _ = merge(
        storage, MergeOrder(JOIN, INPUT, pairs, ((0, GROUPS),)), GROUPS, RunId("000000000002-0-m"), frozenset()
    )
    assert change.generation == LIVE
    assert runs._mapped.keys() >= mapped(storage, written)  # noqa: SLF001
