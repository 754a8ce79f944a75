"""What a host has of a remote run is not fetched again, whoever asks for which groups, and is not kept twice."""

import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state.test_parts import GROUPS, numbers, together, written
from tests.support.examples import examples
from tests.support.processes import start

from watersmeet.model.ids import OperatorId
from watersmeet.state import held, parts
from watersmeet.state.files import COPY_TRIES, map_rows, serialise
from watersmeet.state.groups import GroupSet
from watersmeet.state.held import superseded
from watersmeet.state.parts import Wanted, part_bytes, part_path
from watersmeet.state.runs import forget_runs, open_groups, open_run, release_run
from watersmeet.state.stored import to_json
from watersmeet.storage.base import Part
from watersmeet.storage.remote import FsspecStorage

JOIN = OperatorId("join1")
ROWS = 40_000
SOME = range(3, 8)


class Counting(FsspecStorage):
    """Counts the bytes that are fetched, and the whole runs."""

    fetched: list[int] = []  # noqa: RUF012 -- of all
    whole: list[str] = []  # noqa: RUF012

    def _read_ranges(self, path, ranges):
        found = super()._read_ranges(path, ranges)
        self.fetched.append(sum(map(len, found)))
        return found

    def local(self, path):
        if path not in self.copied(""):
            self.whole.append(path)
        return super().local(path)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(parts, "SAVED_LEAST", 0)
    for known in (Counting.fetched, Counting.whole, held._mapped, held._told):  # noqa: SLF001
        known.clear()


@pytest.fixture
def storage(tmp_path):
    return Counting(f"file://{tmp_path}/state", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def rows():
    return numbers(ROWS)


@pytest.fixture(params=["the same process", "another process"])
def next_step(request):
    """What comes before the next step on the host: a task drops what is useless; another process has mapped nothing."""

    def begin(storage, run):
        forget_runs(storage, {JOIN}, {run.path}, epoch=1)
        if request.param == "another process":
            release_run(storage, run)
        Counting.fetched.clear()

    return begin


def asked(storage, run, some, *, once=False):
    """The rows of some groups, and how many bytes were fetched for them."""
    before = sum(storage.fetched)
    pieces = open_groups(storage, run, GroupSet.of(some), GROUPS, once=once)
    return together(pieces), sum(storage.fetched) - before


def path_of(run, some):
    return part_path(run, Wanted(GroupSet.of(some), GROUPS))


def bytes_of(run, some):
    return part_bytes(run, Wanted(GroupSet.of(some), GROUPS))


def expected(rows, some):
    return together(rows.of_groups(GroupSet.of(some), GROUPS))


def test_groups_that_are_asked_for_no_more_make_nothing_be_fetched(storage, rows, next_step):
    run = written(storage, rows)
    assert asked(storage, run, SOME)[1] > bytes_of(run, SOME)
    for fewer in ([3, 4, 5, 6], [4, 6], [4]):
        next_step(storage, run)
        assert asked(storage, run, fewer) == (expected(rows, fewer), 0)
    assert storage.copied("") == [path_of(run, SOME)]


def test_of_more_groups_only_the_rest_is_fetched_and_the_old_part_goes_with_the_next_task(storage, rows, next_step):
    run, more = written(storage, rows), [4, 5, 6, 7, 12]
    asked(storage, run, SOME)
    next_step(storage, run)
    found, fetched = asked(storage, run, more)
    assert found == expected(rows, more)
    assert fetched < bytes_of(run, [12]) + 2 * parts.HEAD_BYTES + 4096 < bytes_of(run, more)
    next_step(storage, run)
    assert storage.copied("") == [path_of(run, [*SOME, 12])], "one part has all that was asked for"
    assert asked(storage, run, [3, 12]) == (expected(rows, [3, 12]), 0)


def test_of_more_than_half_of_a_run_the_rest_is_fetched_if_there_is_little(storage, rows, next_step):
    run, most = written(storage, rows), range(2, 12)
    asked(storage, run, SOME)
    next_step(storage, run)
    assert asked(storage, run, most)[0] == expected(rows, most)
    assert sum(storage.fetched) < bytes_of(run, [2, 8, 9, 10, 11]) + 3 * parts.HEAD_BYTES
    assert storage.whole == []


def test_if_most_of_a_run_is_not_there_it_comes_as_a_whole_and_parts_go(storage, rows, next_step):
    run = written(storage, rows)
    asked(storage, run, SOME)
    next_step(storage, run)
    assert asked(storage, run, range(4, GROUPS))[0] == expected(rows, range(4, GROUPS))
    assert storage.whole == [run.path]
    next_step(storage, run)
    assert storage.copied("") == [run.path]
    assert (storage.url, run.path) not in held._mapped  # noqa: SLF001
    assert asked(storage, run, SOME) == (expected(rows, SOME), 0)


def test_parts_of_two_sites_stay_apart_until_someone_asks_for_rows_of_both(storage, rows, next_step):
    run, first, second = written(storage, rows), [3, 4], [8, 9]
    for _ in range(2):
        for some in (first, second):
            assert asked(storage, run, some)[0] == expected(rows, some)
        next_step(storage, run)
    assert storage.copied("") == sorted([path_of(run, first), path_of(run, second)])
    assert asked(storage, run, [4, 8]) == (expected(rows, [4, 8]), 0)
    next_step(storage, run)
    assert storage.copied("") == [path_of(run, [*first, *second])]


def test_parts_that_overlap_become_one(storage, rows, next_step):
    run, first, second = written(storage, rows), [2, 3, 4], [4, 5, 6]
    for some in (first, second):
        asked(storage, run, some, once=True)
    next_step(storage, run)
    assert len(storage.copied("")) == 2
    assert asked(storage, run, range(2, 7)) == (expected(rows, range(2, 7)), 0)
    next_step(storage, run)
    assert storage.copied("") == [path_of(run, range(2, 7))]


def test_what_is_asked_for_once_copies_no_more_than_it_needs(storage, rows, next_step):
    run, block = written(storage, rows), [7, 8]
    asked(storage, run, SOME)
    next_step(storage, run)
    found, fetched = asked(storage, run, block, once=True)
    assert found == expected(rows, block)
    assert fetched < bytes_of(run, [8]) + 2 * parts.HEAD_BYTES + 4096
    assert storage.copied("") == sorted([path_of(run, SOME), path_of(run, block)])
    assert asked(storage, run, [3, 4], once=True) == (expected(rows, [3, 4]), 0)


def test_nothing_is_fetched_of_what_another_process_has_made(storage, rows):
    run = written(storage, rows)
    script = """
import sys
from watersmeet.state import parts
parts.SAVED_LEAST = 0
from watersmeet.state.groups import GroupSet
from watersmeet.state.stored import from_json
from watersmeet.state.manifest import RunFile
from watersmeet.state.runs import open_groups
from watersmeet.storage.remote import FsspecStorage
run = from_json(sys.argv[3].encode(), RunFile)
open_groups(FsspecStorage(*sys.argv[1:3]), run, GroupSet.of(range(3, 8)), 16)
"""
    maker = start(script, storage.url, storage.cache, to_json(run).decode())
    maker.communicate(timeout=60)
    assert maker.returncode == 0
    assert asked(storage, run, [4, 5]) == (expected(rows, [4, 5]), 0)


def test_a_process_lets_go_of_a_part_that_another_one_has_made_useless(storage, rows):
    run, groups = written(storage, rows), [3, 4]
    asked(storage, run, groups)
    storage.part(run.path, lambda _: made_elsewhere(run, rows, SOME))
    assert superseded(storage, storage.copied("")) == {path_of(run, groups)}
    forget_runs(storage, {JOIN}, {run.path}, epoch=1)
    assert storage.copied("") == [path_of(run, SOME)]
    assert not held._mapped  # noqa: SLF001
    assert asked(storage, run, groups) == (expected(rows, groups), 0)


def made_elsewhere(run, rows, some):
    wanted = GroupSet.of(some)
    [piece] = rows.of_groups(wanted, GROUPS)
    return Part(part_path(run, Wanted(wanted, GROUPS)), serialise(piece, wanted))


def test_pages_of_groups_that_were_spilled_are_given_back(storage, rows):
    run, wanted = written(storage, rows), Wanted(GroupSet.of(SOME), GROUPS)

    def opened(counted):
        return open_run(storage, run, counted, wanted)

    before = opened(run.groups)
    assert opened(run.groups) is before
    after = opened(run.groups - GroupSet.of([3]))
    assert after.hashes.ctypes.data != before.hashes.ctypes.data
    assert len(storage.copied("")) == 1
    assert opened(run.groups - GroupSet.of([3])) is after


class Dropping(Counting):
    """Another task drops a part just before it is mapped, several times."""

    times = 0

    def part(self, path, choose):
        file = super().part(path, choose)
        if file is not None and self.times < COPY_TRIES - 1:
            type(self).times += 1
            self.forget([each for each in self.copied("") if "~" in each])
        return file


def test_a_part_that_other_tasks_drop_before_it_is_mapped_is_made_again(tmp_path, rows):
    storage = Dropping(f"file://{tmp_path}/state", str(tmp_path / "cache"))
    run = written(storage, rows)
    assert asked(storage, run, SOME)[0] == expected(rows, SOME)
    assert (storage.times, storage.whole) == (COPY_TRIES - 1, [])


def test_a_part_that_does_not_tell_what_it_has_is_not_used_and_goes(storage, rows):
    run, path = written(storage, rows), "~0123456789ab.arrow"
    [piece] = rows.of_groups(GroupSet.of([9]), GROUPS)
    other = run.path.removesuffix(".arrow") + path
    storage.part(run.path, lambda _: Part(other, serialise(piece)))
    assert asked(storage, run, SOME)[0] == expected(rows, SOME)
    forget_runs(storage, {JOIN}, {run.path}, epoch=1)
    assert storage.copied("") == [path_of(run, SOME)]


def test_what_a_part_tells_is_no_property_of_its_rows(tmp_path, rows):
    file = tmp_path / "part.arrow"
    file.write_bytes(serialise(rows, GroupSet.of(SOME)))
    assert map_rows(file).rows.schema.equals(rows.rows.schema, check_metadata=True)


def test_a_small_run_is_not_looked_for_in_parts(storage, rows, monkeypatch):
    monkeypatch.setattr(parts, "SAVED_LEAST", 1 << 30)
    run = written(storage, rows)
    monkeypatch.setattr(Counting, "part", lambda *_: pytest.fail("it was"))
    assert asked(storage, run, SOME)[0] == expected(rows, SOME)


def test_a_process_keeps_parts_of_no_more_runs_mapped_than_the_limit(storage, monkeypatch):
    monkeypatch.setattr(held, "LIMIT", 2)
    for epoch in range(4):
        asked(storage, written(storage, numbers(seed=epoch), epoch), SOME)
    assert len(held._mapped) == 2  # noqa: SLF001
    assert len(held._told) <= 2  # noqa: SLF001


STEPS = st.lists(
    st.tuples(
        st.frozensets(st.integers(0, GROUPS - 1), min_size=1, max_size=9),
        st.booleans(),
        st.sampled_from(["", "task", "process", "lost"]),
    ),
    max_size=12,
)


@given(steps=STEPS)
@settings(max_examples=examples(60), deadline=None)
def test_whatever_is_asked_for_in_which_order_the_rows_are_those_of_the_run(steps):
    rows = numbers(600)
    with tempfile.TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "SAVED_LEAST", 0)
        patch.setattr(parts, "WORTH", 1.0)
        storage = Counting("memory://held", cache)
        run, known = written(storage, rows), GroupSet()
        for some, once, then in steps:
            before, wanted = len(storage.fetched), GroupSet.of(some)
            assert asked(storage, run, some, once=once)[0] == expected(rows, some)
            assert len(storage.fetched) == before or wanted - known, "nothing was fetched that was here"
            known |= wanted
            if then:
                forget_runs(storage, {JOIN}, {run.path}, epoch=1)
                assert not superseded(storage, storage.copied(""))
            if then == "process":
                release_run(storage, run)
            if then == "lost":
                release_run(storage, run)
                storage.forget(storage.copied(""))
                known = GroupSet()
        forget_runs(storage, {JOIN}, (), epoch=1)


def test_threads_that_ask_for_other_groups_while_tasks_begin_get_their_rows(storage, rows):
    run = written(storage, rows)
    wanted = [range(at, at + 2 + at % 3) for at in range(10)]
    right = [expected(rows, some) for some in wanted]

    def ask(number):
        if number % 4 == 0:
            forget_runs(storage, {JOIN}, {run.path}, epoch=1)
        if number % 7 == 0:
            release_run(storage, run)
        return asked(storage, run, wanted[number % 10])[0] == right[number % 10]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(120)))
    forget_runs(storage, {JOIN}, {run.path}, epoch=1)
    assert not superseded(storage, storage.copied(""))
