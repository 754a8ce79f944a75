"""The registry as a value: its default is the paper's table, and what makes no sense is refused."""

import pytest
from msgspec.structs import replace
from tests.support.states import empty_manifest, holding, part, run_file

from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.adapt.registry import ALWAYS, LISTENERS, Entry, Registry, events_of
from watersmeet.model.errors import WatersmeetError
from watersmeet.model.ids import Version

PARTS = {"InvalidationThresholdReached", "PurgeThresholdReached"}


def manifest(sites=1):
    """Four groups of 100 bytes each."""
    held = holding(empty_manifest(sites=sites), [run_file("x", 0, 1, 2, 3)], [part("x", 0, 1, 2, 3)])
    return replace(held, version=Version(3))


def test_the_default_is_the_papers_table_with_invalidation():
    pairs = [("RowsArrived", "memory join"), *LISTENERS]
    assert [(each.event, each.component) for each in Registry().entries] == pairs
    assert Entry("StreamEmpty", "no input for 1 s", "disk join") in Registry().entries
    short = [each.component for each in Registry().entries if each.event == "MemoryLimitReached"]
    assert short == ["invalidation", "purge", "state relocation"], "what can go goes before anything is spilled"


def test_a_registry_is_a_value_and_keeps_its_order_whatever_order_it_was_made_in():
    emptied = Registry()
    for event in dict(LISTENERS):
        emptied = emptied.without(event)
    assert emptied.entries == (ALWAYS,), "rows that come are joined in any case"
    for event, component in reversed(LISTENERS):
        emptied = emptied.with_listener(event, component)
    assert emptied == Registry()
    assert Registry().without("MemoryLimitReached", "purge") != Registry()


@pytest.mark.parametrize(
    ("call", "message"),
    {
        "an unknown event": (lambda r: r.with_threshold("StreamEmty", 1), "StreamEmty.*mean 'StreamEmpty'"),
        "an unknown event to be removed": (lambda r: r.without("Purge"), "no event 'Purge'"),
        "an unknown component": (lambda r: r.with_listener("StreamEmpty", "disc join"), "mean 'disk join'"),
        "the memory join": (lambda r: r.with_listener("StreamEmpty", "memory join"), "whenever rows come"),
        "the event that always holds": (lambda r: r.without("RowsArrived"), "RowsArrived was given.*memory join"),
        "one that cannot listen": (
            lambda r: r.with_listener("StreamEmpty", "state relocation"),
            "cannot listen to StreamEmpty.*can call disk join",
        ),
        "more than all": (
            lambda r: r.with_threshold("InvalidationThresholdReached", 1.5),
            "1.5.*more than a part of a run.*0.5",
        ),
        "less than nothing": (lambda r: r.with_threshold("StreamEmpty", -1), "-1.*some s.*1.5"),
        "no memory": (lambda r: r.with_threshold("MemoryLimitReached", 0), "MemoryLimitReached is 0"),
        "a text": (lambda r: r.with_threshold("PurgeThresholdReached", "half"), "'half'"),
        "a truth": (lambda r: r.with_threshold("PurgeThresholdReached", threshold=True), "True"),
        "not a number": (lambda r: r.with_threshold("PurgeThresholdReached", float("nan")), "nan"),
    }.values(),
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(WatersmeetError, match=message) as caught:
        call(Registry())
    assert caught.value.what
    assert caught.value.why
    assert caught.value.how


@pytest.mark.parametrize(
    ("moment", "budget", "share", "found"),
    [
        ("idle", None, 1.0, {"StreamEmpty"}),
        ("asked", None, 1.0, set()),
        ("step", None, 1.0, PARTS),
        ("step", 400, 1.0, PARTS),
        ("step", 399, 1.0, {*PARTS, "MemoryLimitReached"}),
        ("tasks", 400, 0.99, {*PARTS, "MemoryLimitReached"}),
        ("step", 300, 2.0, PARTS),
    ],
)
def test_events_hold_by_what_is_known_at_a_moment(moment, budget, share, found):
    options = Registry().with_threshold("MemoryLimitReached", share).limited(MemoryOptions(budget))
    assert events_of(View(moment, manifest()), options) == found


def test_runs_are_written_anew_by_their_threshold_or_at_once_if_memory_is_short():
    registry = Registry().with_threshold("InvalidationThresholdReached", 0.9)
    assert registry.rewrite_at(frozenset(PARTS)) == {"invalidation": 0.9, "purge": 0.25}
    assert registry.rewrite_at(frozenset({"MemoryLimitReached"})) == {"invalidation": 0.0, "purge": 0.0}
    without = registry.without("InvalidationThresholdReached").without("MemoryLimitReached", "purge")
    assert without.rewrite_at(frozenset()) == {"purge": 0.25}
    assert without.rewrite_at(frozenset({"MemoryLimitReached"})) == {"invalidation": 0.0, "purge": 0.25}
