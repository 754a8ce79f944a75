"""What a site task did, as a small file per attempt.

A task that is repeated leaves several files; they describe the same rows under different run names, so any one of them
will do, and the runs of the others are garbage. But only of attempts that Spark itself saw succeed: one whose input was
cut off, because Spark killed it or needed no more of its output, may not have noticed. So the names of the files are
reported through an accumulator (`watersmeet.runners.spark.reports`), of which Spark counts what successful tasks added.

Each driver has a folder of its own for effects: a task that outlives its driver may have worked with another routing.
Results that are staged for the sink lie there as well (`watersmeet.site.result_files`).
"""

import uuid
from collections.abc import Iterable
from typing import Protocol

import msgspec

from watersmeet.model.ids import EpochId, OperatorId, SiteId
from watersmeet.operators.costs import Cost
from watersmeet.state.changes import AddPromises, AddRun, MergePromises, MergeRuns
from watersmeet.state.looks import Looked
from watersmeet.state.stored import from_json, to_json
from watersmeet.state.vectors import Vector
from watersmeet.storage.base import Storage

FOLDER = "effects"


class Rejected(msgspec.Struct, frozen=True):
    """Rows of a stream that were not accepted, and why."""

    stream: str
    reason: str
    rows: int


class Effects(msgspec.Struct, frozen=True):
    """Changes to the manifest, what they cost, and what was counted by group (`watersmeet.site.counts`).

    A task is busy while it makes results and state, receives while it takes rows up and sorts them, and else waits.
    A part of being busy is what ``promises`` take: their stores, and finding and dropping rows that they let go.
    Times are in milliseconds, but for the ``latest`` event times of the streams' rows, and for those before which
    punctuations promise none, which are in microseconds. By other punctuations, streams have ``ended``. Rows that
    nothing can come for any more are joined and ``not_stored``. So many bytes are left ``to_fetch`` of groups that are
    going to come. ``costs`` tell what each of an operator's tests has taken and dropped. Slices that were ``looked`` at
    for rows that can go are told if they stay as they are.
    """

    level: int
    site: SiteId
    changes: tuple[AddRun | MergeRuns | AddPromises | MergePromises, ...]
    rows_in: dict[str, int]
    rows_out: dict[OperatorId, int]
    busy_ms: float = 0.0
    receive_ms: float = 0.0
    promises_ms: float = 0.0
    host: str = ""
    executor: int = 0
    worker: int = 0
    files: tuple[str, ...] = ()
    local: dict[OperatorId, Vector] = {}
    traced: dict[OperatorId, Vector] = {}
    inter_bytes: dict[OperatorId, Vector] = {}
    cleaned_results: int = 0
    cleaned_bytes: int = 0
    latest: dict[str, int] = {}
    rejected: tuple[Rejected, ...] = ()
    rejected_files: tuple[str, ...] = ()
    not_stored: int = 0
    ended: tuple[str, ...] = ()
    promised_until: dict[str, int] = {}
    to_fetch: int = 0
    costs: dict[OperatorId, tuple[Cost, ...]] = {}
    looked: tuple[Looked, ...] = ()


class Report(Protocol):
    """Takes the name of a successful attempt's effects to the driver."""

    def add(self, name: str) -> None:
        """Report a name."""


def folder_of(driver: str) -> str:
    """Where the tasks of a driver leave their effects."""
    return f"{FOLDER}/{driver}"


def write_effects(storage: Storage, driver: str, epoch: EpochId, effects: Effects) -> str:
    """Leave a task's effects for the driver; gives their name."""
    name = f"{folder_of(driver)}/{epoch:012d}-{effects.level}-{effects.site}-{uuid.uuid4().hex[:12]}.json"
    storage.create(name, to_json(effects))
    return name


def read_effects(storage: Storage, names: Iterable[str]) -> dict[tuple[int, SiteId], Effects]:
    """One attempt's effects for each level and site."""
    found = (from_json(storage.read(name), Effects) for name in sorted(set(names)))
    return {(effects.level, effects.site): effects for effects in found}


def clear_effects(storage: Storage, before: EpochId) -> None:
    """Delete the effects and staged results of epochs that are committed, whichever driver they were left for."""
    paths = storage.list(FOLDER)
    storage.delete(path for path in paths if int(path.rsplit("/", 1)[-1].split("-", 1)[0]) < before)
