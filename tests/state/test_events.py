"""Events are told from changes: all of them, once, in order, however many versions were deleted meanwhile."""

import random
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.examples import examples
from tests.support.histories import History
from tests.support.states import JOIN, PLAN, A, batch, empty_manifest, holding, part, run_file

from watersmeet.model.ids import SiteId, Version
from watersmeet.state import event_log, versions
from watersmeet.state.changes import (
    AddRun,
    BeginCleaning,
    ChangeExecutors,
    ChangePatience,
    ChangeRegistry,
    FinishAdaptation,
    FinishCleaning,
    MergeRuns,
    MoveGroups,
    ReplacePlan,
    Reroute,
    SpillGroups,
    SplitGroup,
)
from watersmeet.state.event_log import EventLog
from watersmeet.state.events import (
    CleanupEvent,
    Entries,
    Epochs,
    Executors,
    ExecutorsEvent,
    Groups,
    LiveBytes,
    MoveEvent,
    Operators,
    PatienceEvent,
    RegistryEvent,
    ReplanEvent,
    RerouteEvent,
    SharedBy,
    Site,
    Sites,
    SpillEvent,
    SplitEvent,
    events_of,
)
from watersmeet.state.garbage import Collector
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Cleaning
from watersmeet.state.versions import VersionStore, path_of
from watersmeet.storage.faulty import Fault, FaultyStorage
from watersmeet.storage.local import LocalStorage

FIRST = empty_manifest()
PARTS = [part("x", 0, 1), part("y", 0, 1, generation=3)]
SPILLED = replace(holding(FIRST, [run_file("x", 0, 1), run_file("y", 0, 1)], PARTS), version=Version(5))
SPILL = SpillGroups(SiteId(1), {JOIN: GroupSet.of([2, 3])}, "lru", 900, 400, "too much")


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path), durable=False)


class Query:
    """Commits versions and collects garbage, as a driver does; remembers all that should be told."""

    def __init__(self, storage, first=FIRST, retained=2):
        self.storage, self.retained, self.manifest, self.told = storage, retained, first, []
        self.store = VersionStore(storage)
        self.store.begin(first)
        self._collect()

    def commit(self, changes):
        before = self.manifest
        self.manifest = self.store.commit(before, changes)
        self.told += events_of(before.version, changes, before.cleaning)
        self.collector.committed(self.manifest)

    def restart(self):
        self.store = VersionStore(self.storage)
        assert self.store.latest() == self.manifest
        self._collect()

    def _collect(self):
        self.collector = Collector(self.store, self.retained)
        self.collector.start()

    @property
    def events(self):
        return EventLog(VersionStore(self.storage)).all()


def test_a_spill_a_move_and_another_plan_are_told_with_their_reasons_and_numbers(storage):
    query = Query(storage)
    query.commit(batch(0, AddRun(run_file("x", 2, 3)), SPILL))
    query.commit([Reroute({JOIN: (0, 1, 2, 0)}, 3, "one came", 2), ReplacePlan(PLAN, {}, "better"), FinishAdaptation()])
    query.commit(batch(1, ChangeRegistry((("a", "b", "c"),), (), "all was removed")))
    query.commit([MoveGroups(JOIN, GroupSet.of([1]), SiteId(1), SiteId(0), "memory", 70, "uneven"), FinishAdaptation()])
    split = SplitGroup(JOIN, 1, A, (SiteId(0),), (SiteId(0), SiteId(2)), "auto", 70, 9, "hot")
    query.commit([split, FinishAdaptation()])
    assert query.manifest.operators[JOIN].splits
    query.commit([ChangeExecutors(2, 3, ("7",), (), True, "one has joined"), FinishAdaptation()])  # noqa: FBT003
    assert query.manifest.placement == 1
    assert query.events == [
        SpillEvent(0, "too much", LiveBytes(900), LiveBytes(500), SiteId(1), "lru", 400, {JOIN: [2, 3]}),
        RerouteEvent(1, "one came", Sites(2), Sites(3)),
        ReplanEvent(1, "better", Operators(), Operators((JOIN,))),
        RegistryEvent(2, "all was removed", Entries((("a", "b", "c"),)), Entries()),
        MoveEvent(3, "uneven", Site(SiteId(1)), Site(SiteId(0)), JOIN, [1], 70, "memory"),
        SplitEvent(4, "hot", SharedBy(split.before), SharedBy(split.after), JOIN, 1, A, 70, 9, "auto"),
        ExecutorsEvent(5, "one has joined", Executors(2), Executors(3), ("7",), (), spreads=True),
    ]


def test_a_policy_that_becomes_more_patient_is_an_event():
    [event] = events_of(7, [ChangePatience("auto", 3, 6, "the moves before got -9 ms and cost 20 ms")], None)
    assert event == PatienceEvent(7, "the moves before got -9 ms and cost 20 ms", Epochs(3), Epochs(6), "auto")


def test_what_adapts_nothing_is_no_event(storage):
    query = Query(storage)
    query.commit(batch(0, AddRun(run_file("x", 2)), AddRun(run_file("y", 2))))
    query.commit(batch(1, MergeRuns(("x", "y"), GroupSet.all(4), run_file("z", 2), reason="many")))
    assert query.events == []


@pytest.mark.parametrize("between", ["nothing", "a restart", "a snapshot", "a snapshot and a restart"])
def test_a_cleanup_is_told_whatever_comes_between_its_begin_and_its_end(storage, between, monkeypatch):
    query = Query(storage, SPILLED, retained=1)
    if "snapshot" in between:
        monkeypatch.setattr(versions, "SNAPSHOT_LEAST", 1)
        monkeypatch.setattr(versions, "SNAPSHOT_MOST", 1)
    query.commit([BeginCleaning(Cleaning(JOIN, (1, 0), 100, reason="all was missing"))])
    if "restart" in between:
        query.restart()
    if "snapshot" in between:
        assert query.store.versions() == [6], "only the version that has begun is left"
        assert storage.list("events") == ["events/000000000006.json"]
    query.commit([FinishCleaning(GroupSet.of([0]), GroupSet.of([1]), read_bytes=70, results=7, missing=2)])
    cleanup = CleanupEvent(6, "all was missing", Groups(2), Groups(0), JOIN, [0, 1], 70, 7)
    assert query.events == query.told == [cleanup]
    query.restart()
    assert query.events == [cleanup]


@given(seed=st.integers(0, 2**32), retained=st.integers(1, 5), most=st.integers(1, 7), fill=st.sampled_from([4, 500]))
@settings(max_examples=examples(15), deadline=None)
def test_all_that_happened_is_told_once_and_in_order_and_in_few_files(seed, retained, most, fill):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        patch.setattr(versions, "SNAPSHOT_LEAST", 1)
        patch.setattr(versions, "SNAPSHOT_MOST", most)
        patch.setattr(event_log, "FILE_EVENTS", fill)
        patch.setattr(event_log, "RETAINED_FILES", 3)
        chance, history = random.Random(seed), History(seed)
        query = Query(LocalStorage(folder, durable=False), retained=retained)
        for _ in range(60):
            query.commit(history.changes(query.manifest))
            if chance.random() < 0.1:
                query.restart()
        found, told = query.events, query.told
        assert found == told[len(told) - len(found) :], "the last ones, all of them"
        assert len(found) >= min(len(told), fill)
        assert len(query.storage.list("events")) <= 3
        assert len(found) == len(told) or fill == 4


def test_a_driver_that_dies_while_it_folds_tells_nothing_twice(storage):
    query = Query(storage)
    for number in range(3):
        query.commit(batch(number, AddRun(run_file(f"x{number}", 2)), SPILL))
    query.restart()
    query.commit(batch(3, AddRun(run_file("x3", 2)), SPILL))
    died = FaultyStorage(storage, plan=(Fault("delete"),))
    with pytest.raises(Exception, match="delete"):
        EventLog(VersionStore(died)).fold()
    assert len(storage.list("events")) == 2, "what it replaces is still there"
    assert query.events == query.told
    query.commit(batch(4, AddRun(run_file("x4", 2)), SPILL))
    query.restart()
    assert query.events == query.told
    assert len(query.told) == 5


def test_who_looks_while_events_are_folded_misses_none(storage):
    """Between two looks at the folder, the query folds all there is."""
    query = Query(storage)
    for number in range(3):
        query.commit(batch(number, AddRun(run_file(f"x{number}", 2)), SPILL))

    class Folding(FaultyStorage):
        def list(self, folder):
            found = super().list(folder)
            if folder == "events":
                EventLog(VersionStore(storage)).fold()
            return found

    storage.delete(storage.list("events"))
    assert EventLog(VersionStore(Folding(storage))).all() == query.told


def test_who_looks_while_versions_are_deleted_finds_their_events_where_they_were_folded(storage):
    query = Query(storage)
    for number in range(3):
        query.commit(batch(number, AddRun(run_file(f"x{number}", 2)), SPILL))

    class Deleting(FaultyStorage):
        def read(self, path):
            if path == path_of(1):
                EventLog(VersionStore(storage)).fold()
                storage.delete([path_of(0), path_of(1)])
            return super().read(path)

    assert EventLog(VersionStore(Deleting(storage))).all() == query.told


def test_a_version_that_is_damaged_before_it_was_folded_keeps_no_other_event_from_being_told(storage, monkeypatch):
    monkeypatch.setattr(versions, "SNAPSHOT_LEAST", 3)
    monkeypatch.setattr(versions, "SNAPSHOT_MOST", 3)
    query = Query(storage, retained=9)
    for number in range(5):
        query.commit(batch(number, AddRun(run_file(f"x{number}", 2)), SPILL))
        if number == 1:
            storage.create(path_of(2), b"x")
            assert query.events == query.told[:1]
    query.restart()
    assert query.events == [query.told[0], *query.told[2:]]


def test_no_more_events_are_kept_than_the_limit_and_the_last_ones_stay(storage, monkeypatch):
    monkeypatch.setattr(event_log, "FILE_EVENTS", 3)
    monkeypatch.setattr(event_log, "RETAINED_FILES", 2)
    query = Query(storage)
    for number in range(20):
        query.commit(batch(number, AddRun(run_file(f"x{number}", 2)), SPILL))
        query.restart()
    assert len(storage.list("events")) == 2
    assert query.events == query.told[-len(query.events) :]
    assert 3 <= len(query.events) <= 6
