"""What a site task did, as a small file per attempt.

A task that is repeated leaves several files; they describe the same rows under different run names, so any one of them
will do, and the runs of the others are garbage. The driver takes one for each level and site.

Each driver has a folder of its own for effects: a task that outlives its driver may have worked with another routing.
"""

import uuid

import msgspec

from watersmeet.model.ids import EpochId, OperatorId, SiteId
from watersmeet.state.changes import AddRun, CountOutput, MergeRuns
from watersmeet.storage.base import Storage

FOLDER = "effects"


class Effects(msgspec.Struct, frozen=True):
    """Changes to the manifest, and what they cost. Times are in milliseconds."""

    level: int
    site: SiteId
    changes: tuple[AddRun | MergeRuns | CountOutput, ...]
    rows_in: dict[str, int]
    rows_out: dict[OperatorId, int]
    busy_ms: float
    host: str
    executor: int
    worker: int
    files: tuple[str, ...] = ()


def write_effects(storage: Storage, driver: str, epoch: EpochId, effects: Effects) -> None:
    """Leave a task's effects for the driver."""
    name = f"{effects.level}-{effects.site}-{uuid.uuid4().hex[:12]}"
    storage.create(f"{_folder(driver, epoch)}/{name}.json", msgspec.json.encode(effects))


def read_effects(storage: Storage, driver: str, epoch: EpochId) -> dict[tuple[int, SiteId], Effects]:
    """One attempt's effects for each level and site that finished."""
    found = (msgspec.json.decode(storage.read(path), type=Effects) for path in storage.list(_folder(driver, epoch)))
    return {(effects.level, effects.site): effects for effects in found}


def clear_effects(storage: Storage, driver: str | None = None) -> None:
    """Delete the effects left for one driver, or for all."""
    storage.delete(storage.list(f"{FOLDER}/{driver}" if driver else FOLDER))


def _folder(driver: str, epoch: int) -> str:
    return f"{FOLDER}/{driver}/{epoch:012d}"
