"""The coordinator follows its registry: which component runs is a matter of events, and can change at any time."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.adapt.test_expiring import JOIN, manifest_of, run
from tests.support.in_process import InProcess
from tests.support.states import two_way_plan

from watersmeet.adapt.policy import MemoryOptions, Suggestion, View
from watersmeet.adapt.registry import Registry
from watersmeet.adapt.statistics import Observation, Statistics
from watersmeet.driver.coordinator import Coordinator
from watersmeet.model.ids import SiteId
from watersmeet.state.changes import BeginCleaning, DropRows, SpillGroups
from watersmeet.state.groups import GroupSet

NOTHING = np.zeros(4)
KNOWN = {JOIN: Statistics.cold(4).after(Observation(np.full(4, 100.0), np.arange(4.0), NOTHING, NOTHING), 1)}


def decided(registry, budget=None, moment="step"):
    """What is decided of 100 bytes that have ended and 100 that have not; two groups have missing results."""
    runs = [run("over", (0, 90)), run("not", (0, 95)), run("half", (70, 110), source="B")]
    manifest = manifest_of(*runs, A=104, B=100)
    coordinator = Coordinator.of(MemoryOptions(budget, fraction=0.01), 1, 1 << 30)
    coordinator.registry = registry
    return coordinator, coordinator.decide(View(moment, manifest, KNOWN))


def kinds(registry, budget=None):
    return [type(each) for each in decided(registry, budget)[1]]


def test_what_has_ended_is_dropped_before_anything_is_spilled():
    assert kinds(Registry(), budget=250) == [DropRows], "without it, 300 bytes would be too much"
    assert kinds(Registry(), budget=150) == [DropRows, SpillGroups]
    _, (_, spill) = decided(Registry(), budget=150)
    assert spill.live_bytes == 200


def test_without_its_event_invalidation_waits_until_memory_is_short():
    patient = Registry().without("InvalidationThresholdReached")
    assert kinds(patient, budget=300) == []
    assert kinds(patient, budget=299) == [DropRows]
    assert kinds(patient.without("MemoryLimitReached", "invalidation"), budget=299) == [SpillGroups]
    assert kinds(patient) == []


def test_the_memory_limit_is_a_part_of_the_budget_and_need_not_be_kept():
    tight = Registry().with_threshold("MemoryLimitReached", 0.5)
    assert kinds(tight, budget=399) == [DropRows, SpillGroups]
    _, (_, spill) = decided(tight, budget=399)
    assert spill.reason == "live state of 200 bytes at site 0 exceeds memoryBudget 199, 50% of 399"
    assert kinds(Registry().without("MemoryLimitReached"), budget=1) == [DropRows]


def test_runs_are_written_anew_when_the_registry_says_so():
    def rewritten(registry, budget=None):
        coordinator, _ = decided(registry, budget)
        manifest = manifest_of(run("half", (70, 110), source="B"), A=104, B=100)
        return [name for merge in coordinator.merges(View("tasks", manifest)) for name in merge.runs]

    eager = Registry().with_threshold("InvalidationThresholdReached", 0.3)
    assert (rewritten(eager), rewritten(Registry().with_threshold("InvalidationThresholdReached", 0.99))) == (
        ["half"],
        [],
    )
    assert rewritten(Registry().without("InvalidationThresholdReached")) == []
    assert rewritten(Registry().without("InvalidationThresholdReached"), budget=99) == ["half"], "memory is short"


@pytest.fixture
def query(tmp_path):
    options = MemoryOptions(4_000, strategy="random", fraction=0.3, seed=1)
    made = InProcess(two_way_plan(), str(tmp_path), options=options)
    epoch(made, 1)
    return made


def epoch(query, seed):
    rng = np.random.default_rng(seed)
    return query.epoch({name: pa.table({"k": rng.integers(0, 50, 200), "v": np.arange(200)}) for name in "AB"})


def test_a_query_goes_on_with_another_registry_from_the_next_step_on(query):
    coordinator = query.loop.stepper.coordinator
    coordinator.change_registry(Registry().without("MemoryLimitReached"), "room for more")
    before = len(query.manifest.generations(JOIN))
    epoch(query, 2)
    assert len(query.manifest.generations(JOIN)) == before
    coordinator.change_registry(Registry().with_threshold("MemoryLimitReached", 0.5), "less room")
    epoch(query, 3)
    assert len(query.manifest.generations(JOIN)) == before + 1
    told = [each for each in query.loop.stepper.checkpoint.events() if each.__struct_config__.tag == "registry"]
    assert [each.reason for each in told] == ["room for more", "less room"]
    assert [each.epoch for each in told] == [1, 2]
    assert len(told[0].before.entries) == len(told[1].after.entries) == 7
    assert told[1].after.entries[-1][1] == "a site holds more than 50% of memoryBudget"


def test_missing_results_wait_for_the_end_if_nothing_calls_the_disk_join(query):
    epoch(query, 2)
    coordinator = query.loop.stepper.coordinator
    assert any(isinstance(each, BeginCleaning) for each in coordinator.decide(query.loop.stepper.view("idle")))
    coordinator.change_registry(Registry().without("StreamEmpty"), "never mind")
    assert not query.loop.clean("idle")
    assert query.loop.clean("asked")


@pytest.mark.parametrize(
    ("registry", "spilled"), [(Registry(), True), (Registry().without("MemoryLimitReached"), False)]
)
def test_who_has_taken_spilling_out_wants_none_whichever_policy_asks(registry, spilled):
    """Active-disk spills before it has to, so no threshold is asked; but spilling has to be registered."""
    forced = SpillGroups(SiteId(0), {JOIN: GroupSet.of([1])}, reason="room for better groups")
    parked = replace(forced, epoch_ms=(2, 1), groups={JOIN: GroupSet.of([2])})
    movers = [Asked([Suggestion(each, each.groups) for each in (forced, parked)])]
    coordinator = Coordinator.of(MemoryOptions(10_000), 1, 1 << 30, movers=movers)
    coordinator.registry = registry
    found = coordinator.decide(View("step", manifest_of(run("not", (0, 95)), A=104, B=100), KNOWN))
    assert (forced in found) == spilled
    assert parked in found


@dataclass
class Asked:
    """Suggests what it was given."""

    suggestions: list[Suggestion]
    moments: frozenset[str] = frozenset({"step"})

    def suggest(self, _):
        return iter(self.suggestions)
