"""Versions that are not stored: each takes the place of the one before, and only events are remembered."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from watersmeet.state.applying import apply_all
from watersmeet.state.changes import Change
from watersmeet.state.events import Event, events_of
from watersmeet.state.manifest import Manifest
from watersmeet.storage.base import Storage
from watersmeet.storage.local import LocalStorage

NOWHERE = LocalStorage(os.devnull)
"""Tasks are told of a storage; those that only count never ask it for anything."""


@dataclass
class UnstoredVersions:
    """The last version of a query that nobody will ever go on with."""

    manifest: Manifest
    location: str = "memory"
    storage: Storage = NOWHERE
    has_all_batches: bool = True
    _events: list[Event] = field(default_factory=list)

    def begin(self, retained: int) -> None:
        """Nothing was left behind."""

    def check_owner(self) -> None:
        """Nobody else knows of it."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Apply some changes."""
        self._events += events_of(self.manifest.version, changes, self.manifest.cleaning)
        self.manifest = apply_all(self.manifest, changes)

    def collect(self) -> None:
        """Nothing is stored that could be deleted."""

    def events(self) -> list[Event]:
        """The adaptations so far."""
        return self._events

    def close(self) -> None:
        """Nothing is held."""
