"""Switches for tests: they make the engine wrong or slow, or its storage unreliable, on purpose."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from watersmeet.storage.base import Storage


@dataclass(frozen=True)
class Switches:
    """``forget_pairs`` never joins new rows with new rows; ``wrap`` puts a storage in front of the real one.

    Without ``trace``, results are not traced back to their groups, to measure the cost of tracing. Without
    ``shortcut``, all epochs go through exchanges. Steps that expect at least ``staged_from`` results write them to
    files for the sink to read. ``slow`` maps sites to the factor by which they are slowed down, in ``slow_epochs`` or
    always.
    """

    forget_pairs: bool = False
    trace: bool = True
    shortcut: bool = True
    staged_from: int | None = None
    slow: Mapping[int, float] = field(default_factory=dict)
    slow_epochs: range | None = None
    wrap: Callable[[Storage], Storage] = lambda storage: storage


_current = Switches()


def switches() -> Switches:
    """The current switches."""
    return _current


@contextmanager
def thrown(**changes: object) -> Iterator[None]:
    """Run queries that are started inside the block with other switches."""
    global _current  # noqa: PLW0603 -- a switch is a process-wide thing
    before, _current = _current, replace(_current, **changes)  # type: ignore[arg-type]
    try:
        yield
    finally:
        _current = before
