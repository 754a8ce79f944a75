"""Files of results are seen when the version that brings them is committed: not before, not twice, and not never."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from tests.support.in_process import InProcess, Killed
from tests.support.oracle import joined, multiset
from tests.support.states import SCHEMA, empty_manifest, two_way_plan

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.driver import publish as publishing
from watersmeet.driver.publish import publish, tidy
from watersmeet.model.errors import CheckpointInUseError, StorageError
from watersmeet.model.ids import Version
from watersmeet.site.result_files import ResultFormat
from watersmeet.state.manifest import ResultFiles

COLUMNS = ("A.k", "A.v", "B.v")
FORM = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})


class Query:
    """Joins batches into files."""

    def __init__(self, folder):
        self.folder, self.out, self.batches = folder, folder / "out", []
        self.running = self._started()

    def _started(self, **more):
        form = ResultFormat(str(self.out), FORM, COLUMNS, query="query")
        return InProcess(two_way_plan(), str(self.folder / "ck"), files=form, **more)

    def epoch(self, number):
        self.batches.append(batch(number))
        self.running.epoch(self.batches[-1])

    def another(self):
        """Another driver of the same query, on a storage that has no locks."""
        self.running.loop.stepper.checkpoint.close()
        return self._started(offsets=self.running.offsets)

    def at(self, point, do):
        """When a point is reached, do something, once."""

        def reach(reached, _):
            if reached == point and not done:
                done.append(point)
                do()

        done = []
        self.running.loop.stepper.reach = reach
        return done

    @property
    def visible(self):
        return [name for name in self._names() if not name.startswith(".")]

    @property
    def hidden(self):
        return [name for name in self._names() if name.startswith(".")]

    def _names(self):
        return sorted(file.name for file in self.out.iterdir()) if self.out.exists() else []

    @property
    def rows(self):
        tables = [pq.read_table(self.out / name) for name in self.visible]
        return sum((multiset(table) for table in tables), start=Counter())

    @property
    def expected(self):
        tables = {name: [each[name] for each in self.batches] for name in "AB"}
        return joined(tables, ["A.k = B.k"], "A.k, A.v, B.v")


def batch(number):
    """Some keys of both sites."""
    values = [number * 10 + n for n in range(9)]
    return {name: pa.table({"k": range(9), "v": values}, schema=SCHEMA) for name in "AB"}


def killed():
    raise Killed


@pytest.fixture
def query(tmp_path):
    return Query(tmp_path)


def test_results_are_hidden_until_their_version_is_committed(query):
    seen = {}
    for point in ("after-sink", "before-commit", "after-commit", "epoch-end"):
        query.at(point, lambda at=point: seen.update({at: (bool(query.hidden), query.visible)}))
        query.epoch(len(seen))
    first, *_ = seen.values()
    assert first == (True, [])
    before = ["epoch-000000000000-query-0.parquet", "epoch-000000000000-query-1.parquet"]
    assert seen["before-commit"] == (True, before)
    assert (len(seen["after-commit"][1]), seen["after-commit"][0]) == (4, True)
    assert (len(seen["epoch-end"][1]), seen["epoch-end"][0]) == (8, False)
    assert query.rows == query.expected


def test_the_version_names_the_files_it_brings(query):
    query.epoch(0)
    results = query.running.manifest.results
    assert (results.version, results.path) == (1, str(query.out))
    assert sorted(name for _, name in results.names) == query.visible
    assert all(hidden.startswith(".epoch-000000000000-query-") for hidden, _ in results.names)


def test_a_driver_that_is_killed_between_commit_and_publishing_is_made_good_by_the_next_start(query):
    query.epoch(0)
    query.at("after-commit", killed)
    with pytest.raises(Killed):
        query.epoch(1)
    assert query.rows != query.expected
    assert query.hidden
    query.running.recover()
    assert query.hidden == []
    assert query.rows == query.expected
    query.epoch(2)
    assert query.rows == query.expected


def test_a_driver_that_is_killed_while_it_publishes_is_made_good_by_the_next_start(query, monkeypatch):
    files, root = publishing.open_files(str(query.out))

    class OneMove:
        def __init__(self):
            self.moves = 0

        def __getattr__(self, name):
            return getattr(files, name)

        def mv(self, source, target):
            if self.moves:
                raise Killed
            self.moves += 1
            files.mv(source, target)

    monkeypatch.setattr(publishing, "open_files", lambda _: (OneMove(), root))
    with pytest.raises(Killed):
        query.epoch(0)
    monkeypatch.undo()
    assert (len(query.visible), len(query.hidden)) == (1, 1)
    query.running.recover()
    assert (len(query.visible), len(query.hidden)) == (2, 0)
    assert query.rows == query.expected


def test_results_that_cannot_be_published_end_the_run_and_the_next_start_makes_them_good(query, monkeypatch):
    query.epoch(0)
    monkeypatch.setattr(publishing, "open_files", lambda path: (_ for _ in ()).throw(StorageError(f"{path} is gone")))
    with pytest.raises(StorageError, match="is gone"):
        query.epoch(1)
    monkeypatch.undo()
    assert query.running.loop.error is not None
    query.running.recover()
    assert query.rows == query.expected


def test_a_driver_that_loses_the_commit_publishes_nothing(query):
    query.epoch(0)
    others = []
    query.at("before-commit", lambda: others.append(query.another()) or others[0].epoch(query.batches[-1]))
    with pytest.raises(CheckpointInUseError, match="was committed by another driver"):
        query.epoch(1)
    assert query.rows == query.expected
    assert query.hidden == [], "what it has written was never seen, and is cleared away"
    [query.running] = others
    query.epoch(2)
    assert query.rows == query.expected


def test_a_driver_that_was_taken_over_from_gives_nothing_more_to_the_sink(query):
    query.epoch(0)
    old, query.running = query.running, query.another()
    with pytest.raises(CheckpointInUseError, match="was taken over"):
        old.epoch(batch(1))
    assert query.hidden == []
    query.epoch(1)
    assert query.rows == query.expected


def test_a_driver_whose_files_another_has_cleared_away_is_told_of_that_driver(query, monkeypatch):
    query.epoch(0)
    old, real = query.running, query.running.runner._run_level  # noqa: SLF001

    def taken_over_amid_a_level(*arguments):
        results = real(*arguments)
        monkeypatch.undo()
        query.running = query.another()
        query.epoch(1)
        query.epoch(2)
        return results

    monkeypatch.setattr(old.runner, "_run_level", taken_over_amid_a_level)
    with pytest.raises(CheckpointInUseError, match="was taken over"):
        old.epoch(batch(1))
    assert isinstance(old.loop.error, CheckpointInUseError)
    assert query.rows == query.expected
    assert query.hidden == []


def test_two_drivers_may_publish_the_same_version_at_once(query, monkeypatch):
    files, root = publishing.open_files(str(query.out))

    class Overtaken:
        def __getattr__(self, name):
            return getattr(files, name)

        def mv(self, source, target):
            files.mv(source, target)
            files.mv(source, target)

    monkeypatch.setattr(publishing, "open_files", lambda _: (Overtaken(), root))
    query.epoch(0)
    assert query.rows == query.expected
    assert query.hidden == []


def test_leftovers_of_attempts_that_were_never_committed_are_cleared(query):
    query.epoch(0)
    for _ in range(2):
        query.running.attempt(batch(1))
    assert len(query.hidden) == 4
    query.epoch(1)
    assert query.hidden == []
    assert query.rows == query.expected


def test_the_work_of_another_driver_or_another_query_in_the_same_folder_stays(query):
    query.epoch(0)
    query.running.recover()
    now = query.running.manifest.version
    stay = [f".epoch-{now + 1:012d}-query-0-abc.parquet", f".epoch-{now:012d}-other-0-abc.parquet", ".notes"]
    gone = [f".epoch-{now:012d}-query-0-abc.parquet", f".epoch-{now - 1:012d}-query-1-abc.parquet"]
    for name in [*stay, *gone]:
        (query.out / name).write_bytes(b"x")
    query.epoch(1)
    assert query.hidden == sorted(stay)
    assert query.rows == query.expected


def test_results_of_cleanup_are_published_as_those_of_epochs_are(query):
    query.running.options = MemoryOptions(budget_bytes=1, strategy="random")
    query.running.recover()
    for number in range(3):
        query.epoch(number)
    assert query.rows != query.expected
    query.at("after-commit", killed)
    with pytest.raises(Killed):
        query.running.clean("idle", None)
    query.running.recover()
    while query.running.is_missing:
        query.running.clean("idle", None)
    assert query.rows == query.expected
    assert query.hidden == []


def test_a_query_without_results_leaves_a_readable_folder(query):
    query.batches.append({name: SCHEMA.empty_table() for name in "AB"})
    query.running.epoch(query.batches[-1])
    assert query.visible == ["epoch-000000000000-query-none.parquet"]
    assert pq.read_table(query.out).schema == FORM


MADE = replace(empty_manifest(), version=Version(7))


def test_files_in_a_hidden_folder_come_out_of_it_with_their_own_folders(tmp_path):
    staging = tmp_path / ".epoch-000000000006-q-abc"
    for name in ("part-0.json", "day=1/part-1.json", "_SUCCESS"):
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_text(name)
    names = tuple((f"{staging.name}/{name}", name) for name in ("part-0.json", "day=1/part-1.json"))
    manifest = replace(MADE, results=ResultFiles(Version(7), str(tmp_path), names))
    for _ in range(2):
        publish(manifest)
        found = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
        assert found == {"part-0.json", "day=1/part-1.json"}
        assert not staging.exists()


def test_files_of_an_earlier_version_are_not_published_again(tmp_path):
    (tmp_path / ".a").write_text("late")
    publish(replace(MADE, results=ResultFiles(Version(6), str(tmp_path), ((".a", "a"),))))
    publish(MADE)
    assert [file.name for file in tmp_path.iterdir()] == [".a"]


def test_hidden_folders_are_tidied_up_as_hidden_files_are(tmp_path):
    for epoch in (5, 6, 7):
        (tmp_path / f".epoch-{epoch:012d}-q-abc" / "day=1").mkdir(parents=True)
    tidy(str(tmp_path), MADE)
    assert [file.name for file in tmp_path.iterdir()] == [".epoch-000000000007-q-abc"]
