"""Which component of a query runs when which event holds (CAPE 3.4, figure 1.5 and table 1.1).

The memory join runs whenever rows come; nothing can be said against that. Other components are called by other events:

| event | holds when | calls |
|---|---|---|
| RowsArrived | rows have come | memory join: they are joined with what is in memory |
| StreamEmpty | no input has come for some seconds | disk join: missing results of spilled groups are produced |
| InvalidationThresholdReached | more than a part of a run's rows have ended | invalidation: they are dropped |
| PurgeThresholdReached | the same of rows that can have no match by what streams promise of keys | purge |
| MemoryLimitReached | a site holds more than a part of its budget | invalidation, purge, state relocation: spilling |

A registry is a value: which component listens to which event, and the events' thresholds. Components are the policies
of the coordinator (`watersmeet.driver.coordinator`), which asks those that an event calls, in the order above; each
sees what those before it have left. When a component runs changes no result, but when it comes and what it costs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from watersmeet.adapt.policy import REWRITE_AT, MemoryOptions, View
from watersmeet.model.errors import OptionError, UnknownNameError, nearest
from watersmeet.state.sizes import live_bytes_by_site

Event = Literal["StreamEmpty", "InvalidationThresholdReached", "PurgeThresholdReached", "MemoryLimitReached"]
Component = Literal["disk join", "invalidation", "purge", "state relocation"]

LISTENERS: tuple[tuple[Event, Component], ...] = (
    ("StreamEmpty", "disk join"),
    ("InvalidationThresholdReached", "invalidation"),
    ("PurgeThresholdReached", "purge"),
    ("MemoryLimitReached", "invalidation"),
    ("MemoryLimitReached", "purge"),
    ("MemoryLimitReached", "state relocation"),
)
"""All that may be registered, in the order in which components are called. All are, unless the user says otherwise."""

THRESHOLDS: Mapping[str, float] = {
    "StreamEmpty": 1.0,
    "InvalidationThresholdReached": REWRITE_AT["invalidation"],
    "PurgeThresholdReached": REWRITE_AT["purge"],
    "MemoryLimitReached": 1.0,
}
"""Seconds; parts of a run; a part of the budget."""

_CONDITIONS = {
    "StreamEmpty": "no input for {:g} s",
    "InvalidationThresholdReached": "more than {:.0%} of a run's rows have ended",
    "PurgeThresholdReached": "more than {:.0%} of a run's rows can have no match any more",
    "MemoryLimitReached": "a site holds more than {:.0%} of memoryBudget",
}
_PARTS = ("InvalidationThresholdReached", "PurgeThresholdReached")
LONGEST = 1e9


class Entry(NamedTuple):
    """One line of a registry: an event, when it holds, and the component it calls."""

    event: str
    condition: str
    component: str


ALWAYS = Entry("RowsArrived", "rows have come", "memory join")
"""The line of every registry that cannot be changed."""


@dataclass(frozen=True)
class Registry:
    """Which component listens to which event, and the threshold of each event.

    >>> registry = Registry().without("StreamEmpty").with_threshold("MemoryLimitReached", 0.8)
    >>> registry.entries[-1]
    Entry(event='MemoryLimitReached', condition='a site holds more than 80% of memoryBudget', \
component='state relocation')
    """

    listeners: frozenset[tuple[str, str]] = frozenset(LISTENERS)
    thresholds: Mapping[str, float] = field(default_factory=lambda: THRESHOLDS)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The lines of the registry, in the order in which components are called."""
        pairs = (pair for pair in LISTENERS if pair in self.listeners)
        return (ALWAYS, *(Entry(event, self._condition(event), component) for event, component in pairs))

    def calls(self, component: str, events: frozenset[str]) -> bool:
        """Whether any of some events calls a component."""
        return any((event, component) in self.listeners for event in events)

    def has(self, component: str) -> bool:
        """Whether any event calls a component.

        >>> Registry().without("MemoryLimitReached").has("state relocation")
        False
        """
        return any(name == component for _, name in self.listeners)

    def with_threshold(self, event: str, threshold: object) -> "Registry":
        """The same with another threshold of an event."""
        _check_event(event)
        number = float(threshold) if isinstance(threshold, int | float) and not isinstance(threshold, bool) else -1.0
        is_time = event == "StreamEmpty"
        if not 0 <= number <= (1 if event in _PARTS else LONGEST) or (event == "MemoryLimitReached" and not number):
            raise OptionError(
                f"the threshold of {event} is {threshold!r}",
                why=f"the event holds with {re.sub('{.*?}', 'some' if is_time else 'a part', _CONDITIONS[event])}",
                how="give seconds, as in 1.5" if is_time else "give a part, as in 0.5",
            )
        return replace(self, thresholds={**self.thresholds, event: number})

    def with_listener(self, event: str, component: str) -> "Registry":
        """The same with a component that listens to an event."""
        _check_pair(event, component)
        return replace(self, listeners=self.listeners | {(event, component)})

    def without(self, event: str, component: str | None = None) -> "Registry":
        """The same without a component that listens to an event, or without all that do."""
        if component is None:
            _check_event(event)
        else:
            _check_pair(event, component)
        gone = {pair for pair in self.listeners if pair[0] == event and component in (None, pair[1])}
        return replace(self, listeners=self.listeners - gone)

    def rewrite_at(self, events: frozenset[str]) -> dict[str, float]:
        """For components that drop rows: the part of a run's rows above which it is written anew; absent is never."""
        pairs = (("InvalidationThresholdReached", "invalidation"), ("PurgeThresholdReached", "purge"))
        found = {
            component: self.thresholds[event] for event, component in pairs if (event, component) in self.listeners
        }
        short = [component for _, component in pairs if "MemoryLimitReached" in events]
        return found | {each: 0.0 for each in short if ("MemoryLimitReached", each) in self.listeners}

    def limited(self, options: MemoryOptions) -> MemoryOptions:
        """What the user allows, as far as the memory limit goes."""
        return replace(options, share=self.thresholds["MemoryLimitReached"])

    def _condition(self, event: str) -> str:
        return _CONDITIONS[event].format(self.thresholds[event])

    def threshold(self, event: str) -> float:
        """When an event holds."""
        _check_event(event)
        return self.thresholds[event]


def events_of(view: View, options: MemoryOptions) -> frozenset[str]:
    """The events that hold at a moment (the paper's event generator).

    Whether a run has reached a threshold is seen run by run, by the component itself.
    """
    if view.moment == "idle":
        return frozenset({"StreamEmpty"})
    if view.moment not in ("step", "tasks"):
        return frozenset()
    limit = options.limit_bytes
    is_short = limit is not None and bool((live_bytes_by_site(view.manifest) > limit).any())
    return frozenset({*_PARTS, "MemoryLimitReached"} if is_short else _PARTS)


def listens_at(moment: str) -> frozenset[str]:
    """The components that run at a moment only if an event calls them."""
    if moment == "step":
        return frozenset({"invalidation", "purge", "state relocation"})
    return frozenset({"disk join"}) if moment == "idle" else frozenset()


def _check_event(event: str) -> None:
    if event == ALWAYS.event:
        raise OptionError(
            f"{event} was given as an event",
            why=f"it calls the {ALWAYS.component} and nothing else, whenever rows have come",
            how=f"use {' or '.join(THRESHOLDS)}",
        )
    if event not in THRESHOLDS:
        raise UnknownNameError(
            f"there is no event {event!r}",
            why=f"events are {', '.join(THRESHOLDS)}",
            how=f"correct it ({nearest(str(event), THRESHOLDS)})",
        )


def _check_pair(event: str, component: str) -> None:
    _check_event(event)
    may = [name for known, name in LISTENERS if known == event]
    if component == "memory join":
        raise OptionError(
            "memory join was given as a component", why="it runs whenever rows come", how=f"use {' or '.join(may)}"
        )
    if component not in may:
        raise UnknownNameError(
            f"{component!r} cannot listen to {event}",
            why=f"the event can call {', '.join(may)}",
            how=f"correct it ({nearest(str(component), may)})",
        )
