"""What happened to a query besides its epochs: a small file per version that brought an adaptation."""

import msgspec

from watersmeet.model.ids import Version
from watersmeet.storage.base import Storage

FOLDER = "events"
RETAINED_FILES = 10_000

Event = dict[str, object]


def record(storage: Storage, version: Version, events: list[Event]) -> None:
    """Keep the adaptations that a version brings, instead of those of an attempt that was not committed.

    The oldest files go when there are too many.
    """
    path = f"{FOLDER}/{version:012d}.json"
    if events:
        storage.create(path, msgspec.json.encode(events))
        storage.delete(storage.list(FOLDER)[:-RETAINED_FILES])
    else:
        storage.delete([path])


def recorded(storage: Storage, last: Version) -> list[Event]:
    """All adaptations up to a committed version, oldest first."""
    paths = (path for path in storage.list(FOLDER) if int(path.rsplit("/", 1)[-1].removesuffix(".json")) <= last)
    return [event for path in paths for event in msgspec.json.decode(storage.read(path), type=list[Event])]
