"""Opening a checkpoint: everything that can be wrong with it is found before anything in it is touched.

<checkpointLocation>/spark   Spark's own offsets and commits
<checkpointLocation>/state   manifest/, runs/, effects/, events/, lock
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from watersmeet.adapt.moving.distribution import spread
from watersmeet.driver.ports import Offsets
from watersmeet.model.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointInUseError,
    CheckpointMismatchError,
    OptionError,
    StorageError,
    StorageFullError,
    WatersmeetError,
)
from watersmeet.model.ids import EpochId
from watersmeet.model.plan import Plan
from watersmeet.planning.describe import difference, fingerprint
from watersmeet.planning.restart import continued
from watersmeet.site.effects import clear_effects
from watersmeet.state.changes import Change
from watersmeet.state.event_log import EventLog
from watersmeet.state.events import Event
from watersmeet.state.garbage import Collector
from watersmeet.state.manifest import Manifest, OperatorState
from watersmeet.state.owner import Ownership, take
from watersmeet.state.runs import forget_runs, missing_runs
from watersmeet.state.stored import corrupt
from watersmeet.state.versions import VersionStore
from watersmeet.storage.base import Storage
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.lock import Lock
from watersmeet.storage.open import open_storage

PROBE = "probe"
_LOG = logging.getLogger("watersmeet")


@dataclass
class Checkpoint:
    """An open checkpoint, owned by this driver."""

    location: str
    store: VersionStore
    manifest: Manifest
    lock: Lock | None
    offsets: Offsets
    ownership: Ownership
    collector: Collector | None = None

    @property
    def storage(self) -> Storage:
        """Where state is stored."""
        return self.store.storage

    @property
    def has_all_batches(self) -> bool:
        """Whether all batches that were planned are part of the state."""
        return self.offsets.planned() <= self.manifest.batch

    def commit(self, changes: Sequence[Change]) -> None:
        """Commit the next version with some changes."""
        self.manifest = self.store.commit(self.manifest, changes)

    def check_owner(self) -> None:
        """Raise if another driver has taken over, before rows go to the sink or a version is committed."""
        self.ownership.check()

    def begin(self, retained: int) -> None:
        """Delete leftovers of earlier drivers, and set the number of versions to retain."""
        clear_effects(self.storage, EpochId(self.manifest.version))
        self.collector = Collector(self.store, retained)
        self.collector.start()

    def collect(self) -> None:
        """Delete files that no retained version names; those that cannot be deleted now are deleted later."""
        try:
            clear_effects(self.storage, EpochId(self.manifest.version))
        except StorageError as error:
            _LOG.warning("effects of steps before version %d stay for now: %s", self.manifest.version, error)
        if self.collector is not None:
            self.collector.committed(self.manifest)

    def events(self) -> list[Event]:
        """The adaptations so far."""
        return EventLog(self.store).all()

    def close(self) -> None:
        """Release the checkpoint for other drivers."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None


@dataclass(frozen=True)
class Expectation:
    """What a checkpoint must agree with to be used by a query.

    If ``sites_follow``, their number is that of the tasks which can run at once, whatever it becomes.
    """

    query_id: str
    plan: Plan
    groups: int | None
    default_groups: int
    sites: int
    weights: tuple[float, ...] = ()
    sites_follow: bool = False

    def first_manifest(self) -> Manifest:
        """The state of a query without any rows."""
        groups = self.groups or self.default_groups
        routing = spread(groups, self.sites, self.weights)
        states = {operator.id: OperatorState(routing) for operator in self.plan.operators}
        return Manifest(self.query_id, self.plan, groups, self.sites, states)


def open_checkpoint(
    location: str,
    expected: Expectation,
    offsets: Offsets,
    driver: str = "",
    wrap: Callable[[Storage], Storage] = lambda storage: storage,
    *,
    copies: str | None = None,
) -> Checkpoint:
    """Check a checkpoint, take it over, and give its last manifest; a new one is made where there is none."""
    location = location.rstrip("/")
    storage = state_storage(location, copies=copies)
    store = VersionStore(wrap(storage), driver)
    manifest = store.latest()
    if manifest is None:
        _refuse_foreign(location)
    else:
        _check(store.storage, manifest, expected)
        _check_offsets(location, offsets, manifest)
    lock = _take(storage)
    try:
        _check_writable(store.storage)
        ownership = take(store.storage, driver)
        latest = store.latest()
        if latest is None:
            latest = expected.first_manifest()
            store.begin(latest)
        elif latest != manifest:
            _check(store.storage, latest, expected)
        offsets.repair()
    except Exception:
        if lock is not None:
            lock.release()
        raise
    return Checkpoint(location, store, latest, lock, offsets, ownership)


def plan_to_go_on_with(location: str, plan: Plan) -> Plan:
    """The plan of a query on a checkpoint: the stored one where its state can serve the query, else the query's own.

    Errors of the checkpoint are raised when it is opened.
    """
    try:
        manifest = VersionStore(state_storage(location), "").latest()
    except WatersmeetError:
        return plan
    if manifest is None or fingerprint(manifest.written) == fingerprint(plan):
        return plan
    return continued(manifest.written, plan) or plan


def state_storage(location: str, *, copies: str | None = None) -> Storage:
    """The storage of a checkpoint's state; ``copies`` is where hosts keep copies of it, if it is remote."""
    return open_storage(f"{location.rstrip('/')}/state", cache=copies)


def _check(storage: Storage, manifest: Manifest, expected: Expectation) -> None:
    stored, wanted = fingerprint(manifest.written), fingerprint(expected.plan)
    if stored != wanted:
        raise CheckpointMismatchError(
            f"{storage.url} belongs to another query",
            why=difference(stored, wanted),
            how="use a new checkpointLocation for the changed query, or start the query that made the checkpoint; "
            "docs/how-to/recover.md lists what may change",
        )
    if manifest.original not in (None, expected.plan):
        raise CheckpointMismatchError(
            f"{storage.url} belongs to this query, but its output has changed, and it goes on with another plan",
            why="the output is part of that plan",
            how="start the query with the output it had, or use a new checkpointLocation for the changed one",
        )
    if expected.groups is not None and expected.groups != manifest.groups:
        raise OptionError(
            f"partitionGroups is {expected.groups}, and the checkpoint was made with {manifest.groups}",
            why="rows are stored by group",
            how=f"set it to {manifest.groups} or leave it out; a new number needs a new checkpointLocation",
        )
    damaged = missing_runs(storage, [*manifest.runs.values(), *manifest.promise_runs])
    if damaged:
        raise corrupt(storage.url, damaged[0])
    live = {part.run for state in manifest.operators.values() for part in state.slices if part.tier == "memory"}
    paths = {run.path for run in manifest.runs.values() if run.id in live}
    forget_runs(storage, manifest.operators, paths, manifest.version)


def _check_offsets(location: str, offsets: Offsets, manifest: Manifest) -> None:
    """Check that the log of the input and the manifest match; otherwise input would be repeated or skipped."""
    planned, finished = offsets.planned(), offsets.finished()
    if planned < manifest.batch or finished > manifest.batch:
        raise CheckpointCorruptError(
            f"{location}/spark has planned batch {planned} and finished {finished}, state has {manifest.batch}",
            why="the offsets and the manifest are not of the same moment, or one of them was lost",
            how="restore both from one copy, or start with a new checkpointLocation",
        )


def _refuse_foreign(location: str) -> None:
    found = open_storage(location).list("")
    if found and all(path.startswith("spark/") for path in found):
        raise CheckpointCorruptError(
            f"{location} has Spark's offsets but no manifest",
            why="its folder state/manifest is missing or empty",
            how="restore it from a copy, or start with a new checkpointLocation",
        )
    foreign = [path for path in found if not path.startswith(("state/", "spark/"))]
    if foreign:
        raise CheckpointMismatchError(
            f"{location} is not a Watersmeet checkpoint",
            why=f"it holds other files, such as {foreign[0]}",
            how="choose an empty or new folder as checkpointLocation",
        )


def _take(storage: Storage) -> Lock | None:
    """On a local file system a lock keeps a second driver out; elsewhere the exclusive commit does."""
    if not isinstance(storage, LocalStorage):
        return None
    try:
        lock = Lock.acquire(Path(storage.root) / "lock")
    except (OSError, StorageError) as error:
        raise _unwritable(storage, error) from error
    if lock is None:
        raise CheckpointInUseError(
            f"{storage.url} is in use",
            why=f"another query holds its lock, in {Lock.holder(Path(storage.root) / 'lock')}",
            how="stop that query first, or use another checkpointLocation",
        )
    return lock


def _check_writable(storage: Storage) -> None:
    try:
        storage.create(PROBE, b"")
        storage.delete([PROBE])
    except StorageFullError:
        raise
    except (OSError, StorageError) as error:
        raise _unwritable(storage, error) from error


def _unwritable(storage: Storage, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"cannot write to {storage.url}",
        why=f"{error.what}: {error.why}" if isinstance(error, StorageError) else str(error),
        how="make the folder writable for the user that runs the driver, or choose another checkpointLocation",
    )
