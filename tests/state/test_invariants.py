"""A manifest that breaks a rule is refused: before it is committed, and when it is read."""

import pytest
from msgspec.structs import replace
from tests.support.states import JOIN, A, batch, empty_manifest, holding, part, run_file

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import InputName, OperatorId, RunId, Version
from watersmeet.state.applying import apply_all
from watersmeet.state.changes import AddRun, KeepStatistics, Reroute, SpillGroups
from watersmeet.state.groups import GroupSet
from watersmeet.state.invariants import check
from watersmeet.state.manifest import RowSet, Slice, Split
from watersmeet.state.stored import seal
from watersmeet.state.versions import VersionFile, VersionStore, path_of
from watersmeet.storage.local import LocalStorage

X = run_file("x", 0, 1)
SOUND = replace(holding(empty_manifest(), [X], [part("x", 0), part("x", 1, generation=3)]), version=Version(5))
STATE = SOUND.operators[JOIN]
OTHER = OperatorId("other")


def having(*slices, runs=(X,)):
    return replace(holding(SOUND, runs, slices), version=Version(5))


def tiered(run, tier, generation):
    return Slice(RunId(run), RowSet(GroupSet.of([0])), generation, tier)


def splitting(*splits):
    return replace(SOUND, operators={JOIN: replace(STATE, splits=splits)})


BROKEN = {
    "an operator without state": replace(SOUND, operators={}, runs={}),
    "a state without operator": replace(SOUND, operators={**SOUND.operators, OTHER: replace(STATE, slices=())}),
    "too short a routing table": replace(SOUND, operators={JOIN: replace(STATE, routing=(0, 0, 1))}),
    "too long a routing table": replace(SOUND, operators={JOIN: replace(STATE, routing=(0, 0, 1, 1, 1))}),
    "a site that is not there": replace(SOUND, sites=1),
    "a site below nought": replace(SOUND, operators={JOIN: replace(STATE, routing=(0, 0, -1, 1))}),
    "a split of a group that is elsewhere": splitting(Split(2, A, (0, 1))),
    "a split of a group that is not there": splitting(Split(4, A, (0, 1))),
    "a split over one site": splitting(Split(0, A, (0,))),
    "a split over a site twice": splitting(Split(0, A, (0, 1, 1))),
    "a split over a site that is not there": splitting(Split(0, A, (0, 2))),
    "a group that is split twice": splitting(Split(0, A, (0, 1)), Split(0, A, (0, 1))),
    "a split by no input": splitting(Split(0, InputName("C"), (0, 1))),
    "a slice of no run": having(part("x", 0), part("y", 1)),
    "a slice of another's run": having(part("x", 0), part("y", 1), runs=(X, replace(run_file("y", 1), operator=OTHER))),
    "a run without slice": having(part("x", 0), runs=(X, run_file("y", 1))),
    "a group that counts twice": having(part("x", 0, 1), part("x", 1, generation=3)),
    "a group its run has not": having(part("x", 0, 2)),
    "a slice of no rows": having(part("x", 0), part("x")),
    "what is live on disk": having(tiered("x", "disk", 0)),
    "what is closed in memory": having(tiered("x", "memory", 3)),
    "a generation of a version to come": having(part("x", 0, generation=6)),
    "a generation below nought": having(part("x", 0, generation=-1)),
}


def test_a_sound_manifest_is_accepted():
    check(SOUND)
    check(splitting(Split(0, A, (0, 1)), Split(2, A, (1, 0))))


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_every_rule_that_is_broken_is_told(broken):
    with pytest.raises(CheckpointCorruptError, match="contradicts itself"):
        check(broken)


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_breaks_a_rule_is_neither_begun_with_nor_read(broken, tmp_path):
    store = VersionStore(LocalStorage(str(tmp_path), durable=False))
    with pytest.raises(CheckpointCorruptError):
        store.begin(broken)
    assert store.versions() == []
    store.storage.create(path_of(5), seal(VersionFile(Version(5), snapshot=broken)))
    with pytest.raises(CheckpointCorruptError, match=r"000000000005\.json of version 5 contradicts itself"):
        store.latest()


CHANGES = {
    "a run twice": [AddRun(X), AddRun(X)],
    "too few sites": [Reroute({JOIN: (0, 0, 1, 5)}, 2)],
    "too short a table": [Reroute({JOIN: (0, 0, 1)}, 2)],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_changes_that_break_a_rule_are_neither_committed_nor_read(changes, tmp_path):
    store = VersionStore(LocalStorage(str(tmp_path), durable=False))
    first = empty_manifest()
    store.begin(first)
    with pytest.raises(CheckpointCorruptError):
        store.commit(first, batch(0, *changes))
    assert store.versions() == [0]
    store.storage.create(path_of(1), seal(VersionFile(Version(1), tuple(batch(0, *changes)))))
    with pytest.raises(CheckpointCorruptError, match=r"000000000001\.json of version 1 contradicts itself"):
        store.latest()


def test_changes_that_are_sound_are_committed(tmp_path):
    store = VersionStore(LocalStorage(str(tmp_path), durable=False))
    first = empty_manifest()
    store.begin(first)
    sound = batch(0, AddRun(X), SpillGroups(0, {JOIN: GroupSet.of([0])}), KeepStatistics(JOIN, {}))
    assert store.commit(first, sound) == store.latest() == apply_all(first, sound)
