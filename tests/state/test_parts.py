"""Parts of remote runs: the rows of some groups are those of the whole run, and the others' bytes are not fetched."""

import datetime as dt
import tempfile
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import states
from tests.support.examples import examples

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import OperatorId
from watersmeet.state import held, parts
from watersmeet.state.groups import GroupSet
from watersmeet.state.parts import Wanted, fetch_part, is_worth_it, part_path, whole_path
from watersmeet.state.rows import SortedRows, merge_rows
from watersmeet.state.runs import forget_runs, open_groups, open_run, release_run, run_name
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

GROUPS = 16
VALUES = {
    pa.int64(): st.integers(-(2**40), 2**40),
    pa.int16(): st.integers(-99, 99),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=9),
    pa.binary(): st.binary(max_size=9),
    pa.date32(): st.dates(dt.date(1970, 1, 2)),
    pa.timestamp("us"): st.datetimes(dt.datetime(1970, 1, 2)),  # noqa: DTZ001 -- of no zone
    pa.decimal128(9, 2): st.integers(-9999, 9999).map(lambda number: Decimal(number) / 4),
    pa.null(): st.none(),
    pa.list_(pa.int8()): st.lists(st.integers(0, 9), max_size=3),
}
FLAT = [kind for kind in VALUES if not pa.types.is_nested(kind) and kind != pa.null()]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(parts, "SAVED_LEAST", 0)


@pytest.fixture
def storage(tmp_path):
    return FsspecStorage(f"file://{tmp_path}/state", str(tmp_path / "cache"))


def rows_of(rng, rows, columns):
    hashes = np.sort(rng.integers(0, 2**64, rows, dtype=np.uint64))
    return SortedRows(hashes, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))


def numbers(rows=3_000, seed=1):
    rng = np.random.default_rng(seed)
    texts = pa.array([f"text {number}" for number in range(rows)])
    return rows_of(rng, rows, {"A.x": pa.array(np.arange(rows)), "A.t": texts})


def written(storage, rows, epoch=0):
    run = states.written(storage, run_name(epoch, 0, "a"), rows, groups=GROUPS)
    storage.forget(storage.copied(""))  # as on another host
    return run


def together(pieces):
    whole = merge_rows(pieces)
    return whole.hashes.tolist(), whole.rows.to_pylist()


@st.composite
def drawn(draw):
    count = draw(st.integers(0, 60))
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), max_size=4))
    columns = {
        f"A.c{number}": pa.array(draw(st.lists(st.none() | VALUES[kind], min_size=count, max_size=count)), kind)
        for number, kind in enumerate(kinds)
    }
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return rows_of(rng, count, columns or {"A.c": pa.array(np.arange(count))}), kinds


@given(case=drawn(), some=st.frozensets(st.integers(0, GROUPS - 1)), head=st.sampled_from([16, 600, 1 << 14]))
@settings(max_examples=examples(300), deadline=None)
def test_a_part_has_the_rows_that_the_run_has_of_its_groups(case, some, head):
    rows, kinds = case
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as cache:
        patch.setattr(parts, "HEAD_BYTES", head)
        storage = FsspecStorage("memory://parts", cache)
        run = states.written(storage, run_name(0, 0, "a"), rows, groups=GROUPS)
        data = storage.read(run.path)
        wanted = Wanted(GroupSet.of(some) & run.groups, GROUPS)
        part = fetch_part(run, wanted, lambda ranges: [data[start:stop] for start, stop in ranges])
    if any(kind not in FLAT for kind in kinds):
        assert part is None
        return
    pieces = rows.of_groups(wanted.groups, GROUPS)
    assert len(part) == sum(map(len, pieces))
    assert part.rows.schema == rows.rows.schema
    assert not pieces or together([part]) == together(pieces)


class Counting(FsspecStorage):
    """Counts the bytes that are fetched."""

    fetched: list[int] = []  # noqa: RUF012 -- of all

    def _read_ranges(self, path, ranges):
        found = super()._read_ranges(path, ranges)
        self.fetched.append(sum(map(len, found)))
        return found


def test_few_groups_of_a_run_are_fetched_in_few_requests_and_without_the_rest(tmp_path):
    storage = Counting(f"file://{tmp_path}/state", str(tmp_path / "cache"))
    rows = numbers(200_000)
    run, some = written(storage, rows), GroupSet.of([3, 4])
    storage.fetched.clear()
    assert together(open_groups(storage, run, some, GROUPS)) == together(rows.of_groups(some, GROUPS))
    assert len(storage.fetched) <= 4
    assert sum(storage.fetched) < run.bytes * 2 / GROUPS + 3 * parts.HEAD_BYTES
    assert storage.copied("") == [part_path(run, Wanted(some, GROUPS))], "the whole run is not here"
    storage.fetched.clear()
    open_groups(storage, run, some, GROUPS)
    release_run(storage, run)
    open_groups(storage, run, some, GROUPS)
    assert storage.fetched == [], "another process of this host finds the part"


def test_most_of_a_run_is_fetched_as_a_whole(storage):
    run, most = written(storage, numbers()), GroupSet.of(range(GROUPS - 1))
    assert not is_worth_it(run, Wanted(most, GROUPS))
    open_groups(storage, run, most, GROUPS)
    assert storage.copied("") == [run.path]


def test_a_small_run_is_fetched_as_a_whole(storage, monkeypatch):
    monkeypatch.setattr(parts, "SAVED_LEAST", 1 << 20)
    run = written(storage, numbers())
    open_groups(storage, run, GroupSet.of([3]), GROUPS)
    assert storage.copied("") == [run.path]


@pytest.mark.parametrize("remote", [False, True])
def test_what_is_at_hand_is_not_fetched_again(tmp_path, remote):
    here = LocalStorage(str(tmp_path / "state"))
    storage = FsspecStorage(f"file://{tmp_path}/state", str(tmp_path / "cache")) if remote else here
    run = written(storage, numbers())
    if remote:
        storage.local(run.path)
    open_groups(storage, run, GroupSet.of([3]), GROUPS)
    assert storage.copied("") == ([run.path] if remote else [])


def test_whoever_asks_for_more_than_a_part_gets_all(storage):
    rows = numbers()
    run = written(storage, rows)
    assert len(open_groups(storage, run, GroupSet.of([3]), GROUPS)[0]) < len(rows)
    assert len(open_run(storage, run)) == len(rows)
    assert together(open_groups(storage, run, GroupSet.of([4]), GROUPS)) == together(
        rows.of_groups(GroupSet.of([4]), GROUPS)
    )


def test_parts_go_with_their_run(storage):
    live, dead = written(storage, numbers(), 0), written(storage, numbers(seed=2), 1)
    for run in (live, dead):
        open_groups(storage, run, GroupSet.of([3]), GROUPS)
    assert [whole_path(path) for path in storage.copied("")] == [live.path, dead.path]
    forget_runs(storage, {OperatorId("join1")}, {live.path}, epoch=2)
    assert [whole_path(path) for path in storage.copied("")] == [live.path]
    mapped = [path for url, path in held._mapped if url == storage.url]  # noqa: SLF001
    assert mapped == [live.path]


def test_a_part_that_was_dropped_by_another_task_is_fetched_again(storage):
    rows = numbers()
    run, some = written(storage, rows), GroupSet.of([3])
    open_groups(storage, run, some, GROUPS)
    release_run(storage, run)
    storage.forget(storage.copied(""))
    assert together(open_groups(storage, run, some, GROUPS)) == together(rows.of_groups(some, GROUPS))


def test_rows_of_other_groups_than_those_asked_for_are_refused(storage, tmp_path):
    run, other = written(storage, numbers()), written(storage, numbers(seed=2), 1)
    (tmp_path / "state" / run.path).write_bytes((tmp_path / "state" / other.path).read_bytes())
    with pytest.raises(CheckpointCorruptError, match="not those in the manifest"):
        open_groups(storage, run, GroupSet.of([0]), GROUPS)


def test_a_run_that_is_missing_is_refused(storage):
    run = written(storage, numbers())
    storage.delete([run.path])
    with pytest.raises(CheckpointCorruptError, match="it is missing"):
        open_groups(storage, run, GroupSet.of([3]), GROUPS)
