"""`QueryRegistry`: maps events to the components of a query; it can be read and changed while the query runs."""

import threading
from collections.abc import Callable, Iterator

from watersmeet.adapt.registry import Entry, Registry
from watersmeet.driver.coordinator import Coordinator
from watersmeet.model.errors import OptionError


class QueryRegistry:
    """The registry of a running query, as returned by `Query.registry`: its entries, and methods that change them.

    A change takes effect with the next step, and appears in `Query.events`. It changes when results come and at what
    cost, never which results. A restarted query begins with the registry that its options imply.

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
        """The threshold of an event: seconds for StreamEmpty, a fraction of a run or of the budget for the others.

        >>> from watersmeet.driver.coordinator import Coordinator
        >>> from watersmeet.adapt.policy import MemoryOptions
        >>> QueryRegistry(Coordinator.of(MemoryOptions(), 1, 1)).threshold("InvalidationThresholdReached")
        0.5
        """
        return self._coordinator.registry.threshold(event)

    def set(self, event: str, threshold: float) -> None:
        """Change an event's threshold."""
        if event == "MemoryLimitReached" and not self._coordinator.options.is_limited:
            raise OptionError(
                f"the threshold of {event} is set, and the query has no memoryBudget",
                why="it is a part of the budget",
                how="start the query with option('memoryBudget', ...)",
            )
        self._change(lambda old: old.with_threshold(event, threshold), f"{event} was set to {threshold}")

    def add(self, event: str, component: str) -> None:
        """Add a component to an event."""
        self._change(lambda old: old.with_listener(event, component), f"{component} was added to {event}")

    def remove(self, event: str, component: str | None = None) -> None:
        """Remove a component from an event, or all of them."""
        self._change(lambda old: old.without(event, component), f"{component or 'all'} of {event} was removed")

    def reset(self) -> None:
        """Restore the default registry."""
        self._change(lambda _: Registry(), "the registry was reset")

    def _change(self, change: Callable[[Registry], Registry], reason: str) -> None:
        """Apply changes one at a time, from any thread; a change without effect is no event."""
        with self._changing:
            old = self._coordinator.registry
            new = change(old)
            if new != old:
                self._coordinator.change_registry(new, reason)
