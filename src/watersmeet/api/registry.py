"""`QueryRegistry`: which component of a query runs when which event holds, to be read and changed while it runs."""

import threading
from collections.abc import Callable, Iterator

from watersmeet.adapt.registry import Entry, Registry
from watersmeet.driver.coordinator import Coordinator
from watersmeet.model.errors import OptionError


class QueryRegistry:
    """The registry of a running query, as `Query.registry` gives it: its entries, and what changes them.

    A change takes effect with the next step, and is told in `Query.events`. It changes when results come and what that
    costs, and never which results there are. A restarted query begins with the registry that its options say.

    >>> import watersmeet as wm
    >>> flow = wm.Flow(spark)
    >>> a, b = (flow.stream(name, spark.readStream.format("rate").load()) for name in "AB")
    >>> joined = a.join(b, "value").select("value")
    >>> query = joined.writeStream.format("memory").queryName("rates").option("memoryBudget", "64m").start()
    >>> query.registry.set("MemoryLimitReached", 0.8)
    >>> query.registry.remove("StreamEmpty")
    >>> query.registry
    event                         condition                                                component
    RowsArrived                   rows have come                                             memory join
    InvalidationThresholdReached  more than 50% of a run's rows have ended                 invalidation
    PurgeThresholdReached         more than 25% of a run's rows can have no match any more  purge
    MemoryLimitReached            a site holds more than 80% of memoryBudget               invalidation
    MemoryLimitReached            a site holds more than 80% of memoryBudget               purge
    MemoryLimitReached            a site holds more than 80% of memoryBudget               state relocation
    >>> [event for event, condition, component in query.registry if component == "purge"]
    ['PurgeThresholdReached', 'MemoryLimitReached']
    >>> query.stop()
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._changing = threading.Lock()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._coordinator.registry.entries)

    def __len__(self) -> int:
        return len(self._coordinator.registry.entries)

    def __repr__(self) -> str:
        rows = [Entry("event", "condition", "component"), *self]
        widths = [max(len(row[place]) for row in rows) for place in range(len(Entry._fields))]
        lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    def threshold(self, event: str) -> float:
        """When an event holds: seconds of StreamEmpty, the part of a run or of the budget of the others.

        >>> from watersmeet.driver.coordinator import Coordinator
        >>> from watersmeet.adapt.policy import MemoryOptions
        >>> QueryRegistry(Coordinator.of(MemoryOptions(), 1, 1)).threshold("InvalidationThresholdReached")
        0.5
        """
        return self._coordinator.registry.threshold(event)

    def set(self, event: str, threshold: float) -> None:
        """Let an event hold at another threshold."""
        if event == "MemoryLimitReached" and not self._coordinator.options.is_limited:
            raise OptionError(
                f"the threshold of {event} is set, and the query has no memoryBudget",
                why="it is a part of the budget",
                how="start the query with option('memoryBudget', ...)",
            )
        self._change(lambda old: old.with_threshold(event, threshold), f"{event} was set to {threshold}")

    def add(self, event: str, component: str) -> None:
        """Let an event call a component."""
        self._change(lambda old: old.with_listener(event, component), f"{component} was added to {event}")

    def remove(self, event: str, component: str | None = None) -> None:
        """Let an event not call a component any more, or none at all."""
        self._change(lambda old: old.without(event, component), f"{component or 'all'} of {event} was removed")

    def reset(self) -> None:
        """Go back to what is registered where nobody says otherwise."""
        self._change(lambda _: Registry(), "the registry was reset")

    def _change(self, change: Callable[[Registry], Registry], reason: str) -> None:
        """One change after the other, whichever threads they come from; what changes nothing is not told."""
        with self._changing:
            old = self._coordinator.registry
            new = change(old)
            if new != old:
                self._coordinator.change_registry(new, reason)
