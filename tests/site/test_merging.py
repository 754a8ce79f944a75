"""A merge of what was spilled takes no more than its share, and leaves nothing of it behind on the host."""

import numpy as np
import pyarrow as pa
import pytest
from tests.support.states import JOIN, A, empty_manifest, holding, part, rows_in, written

from watersmeet.adapt.merging.policy import CLOSED_PARTS, MergePolicy
from watersmeet.adapt.policy import View
from watersmeet.model.ids import RunId
from watersmeet.operators.spec import InputSpec
from watersmeet.site.merging import merge
from watersmeet.site.spec import MergeOrder
from watersmeet.state import runs
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import LIVE, Bounds
from watersmeet.state.rows import merge_rows
from watersmeet.state.runs import open_run
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

GROUPS, SPILLED, KEPT = 16, 3, 9
EMPTY = empty_manifest(groups=GROUPS, sites=1)
SOURCE = InputSpec(0, JOIN, A, 0, pa.schema({"A.v": pa.int64()}), (), bounded=("A.v",))
ALL = GroupSet.all(GROUPS)
MERGED = RunId("000000000002-0-m")


def write(storage, name, spilled_rows, kept_rows):
    rows = merge_rows([rows_in(SPILLED, spilled_rows, GROUPS), rows_in(KEPT, kept_rows, GROUPS)])
    return written(storage, f"000000000001-0-{name}", rows, GROUPS)


def mapped(storage, written):
    return {(storage.url, run.path) for run in written}


def slices_of(written, generation):
    closed = [part(run.id, SPILLED, generation=generation) for run in written]
    return [*closed, *(part(run.id, KEPT) for run in written)]


def closed_merges(manifest, limit_bytes):
    policy = MergePolicy(limit_bytes * CLOSED_PARTS, merges_closed=True)
    found = [each.what for each in policy.suggest(View("tasks", manifest))]
    return [each for each in found if each.generation != LIVE]


@pytest.mark.parametrize(("spilled_rows", "merges"), [(400, 0), (4, 1)])
def test_what_a_generation_really_holds_decides_and_not_the_size_of_its_runs(tmp_path, spilled_rows, merges):
    storage = LocalStorage(str(tmp_path), durable=False)
    made = [write(storage, name, spilled_rows, kept_rows=404 - spilled_rows) for name in "abcd"]
    orders = closed_merges(holding(EMPTY, made, slices_of(made, 7)), 2_000)
    assert len(orders) == merges
    assert all(order.generation == 7 for order in orders)


def test_a_generation_too_large_to_merge_does_not_keep_later_ones_waiting(tmp_path):
    storage = LocalStorage(str(tmp_path), durable=False)
    large = [write(storage, f"large{n}", 400, 1) for n in range(4)]
    small = [write(storage, f"small{n}", 4, 1) for n in range(4)]
    manifest = holding(EMPTY, [*large, *small], [*slices_of(large, 400), *slices_of(small, 500)])
    [order] = closed_merges(manifest, 2_000)
    assert order.generation == 500


def test_a_merge_has_the_rows_of_its_groups_alone_and_tells_their_bounds(tmp_path):
    storage = LocalStorage(str(tmp_path), durable=False)
    made = [write(storage, name, 5, 7) for name in "ab"]
    pairs = tuple((run, part(run.id, SPILLED, KEPT)) for run in made)
    change = merge(storage, MergeOrder(SOURCE, pairs, GroupSet.of([KEPT]), reason="many"), GROUPS, MERGED, frozenset())
    assert (change.run.groups, change.groups, change.reason) == (GroupSet.of([KEPT]), GroupSet.of([KEPT]), "many")
    assert change.run.bounds == {"A.v": Bounds(0, 6)}
    found = open_run(storage, change.run)
    assert sorted(found.rows.column("A.v").to_pylist()) == sorted([*range(7), *range(7)])
    assert (np.diff(found.hashes.astype(object)) >= 0).all()


def test_copies_and_pages_of_what_was_spilled_are_let_go(tmp_path):
    storage = FsspecStorage("memory://merged", str(tmp_path), {})
    made = [write(storage, name, 5, 5) for name in "ab"]
    pairs = tuple((run, part(run.id, SPILLED, generation=7)) for run in made)
    live = frozenset({made[0].path})
    change = merge(storage, MergeOrder(SOURCE, pairs, ALL, 7), GROUPS, MERGED, live)
    assert (change.generation, change.run.rows) == (7, 10)
    assert not runs._mapped.keys() & mapped(storage, made)  # noqa: SLF001
    copies = {file.name for file in tmp_path.rglob("*.arrow")}
    assert copies == {"000000000001-0-a.arrow"}, "the copy of a live run stays, no other"


def test_live_runs_stay_mapped(tmp_path):
    storage = LocalStorage(str(tmp_path), durable=False)
    made = [write(storage, name, 5, 5) for name in "ab"]
    pairs = tuple((run, part(run.id, *run.groups)) for run in made)
    change = merge(storage, MergeOrder(SOURCE, pairs, ALL), GROUPS, MERGED, frozenset())
    assert (change.generation, change.run.rows) == (LIVE, 20)
    assert runs._mapped.keys() >= mapped(storage, made)  # noqa: SLF001
