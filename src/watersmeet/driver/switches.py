"""Switches that tests throw to make the engine wrong or its storage unreliable on purpose."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from watersmeet.storage.base import Storage


@dataclass(frozen=True)
class Switches:
    """``forget_pairs`` never joins new rows with new rows; ``wrap`` puts a storage in front of the real one.

    Without ``trace`` results are not traced back to the groups they came through: for measuring what that costs.
    Without ``shortcut`` small epochs go the way of large ones. Steps that expect as many results as ``staged_from``
    write them to files for the sink to read. Sites that are ``slow`` take so many times as long, in some epochs if
    these are given.
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
    """The switches as they are now."""
    return _current


@contextmanager
def thrown(**changes: object) -> Iterator[None]:
    """Queries started inside the block run with some switches thrown."""
    global _current  # noqa: PLW0603 -- a switch is a process-wide thing
    before, _current = _current, replace(_current, **changes)  # type: ignore[arg-type]
    try:
        yield
    finally:
        _current = before
