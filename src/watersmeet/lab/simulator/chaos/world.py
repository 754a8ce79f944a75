"""One run of a query: drivers, one after the other, on one checkpoint, while all goes wrong that is on a schedule.

A driver lives until it is killed, or a step of it fails; then the next one opens the checkpoint, and is given the same
batch again. Whatever else happens than what has to is a `ChaosError`.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from watersmeet.adapt.moving.flux import FluxPolicy
from watersmeet.adapt.policy import Policy
from watersmeet.driver.checkpoint import Checkpoint, Expectation, open_checkpoint
from watersmeet.driver.loop import Loop
from watersmeet.driver.observer import Observer
from watersmeet.driver.start import DriverOptions, start_driver
from watersmeet.driver.upkeep import Upkeep
from watersmeet.lab.simulator.chaos.cluster import Executors
from watersmeet.lab.simulator.chaos.query import Batch, Query, draw_batches
from watersmeet.lab.simulator.chaos.records import Ints
from watersmeet.lab.simulator.chaos.schedule import Schedule
from watersmeet.lab.simulator.chaos.tasks import ChaosError, ChaosRunner
from watersmeet.model.errors import CheckpointCorruptError, CheckpointError, StorageError
from watersmeet.model.ids import EpochId
from watersmeet.runners.local import LocalOffsets
from watersmeet.site.effects import Effects
from watersmeet.state.changes import Change
from watersmeet.state.manifest import Manifest
from watersmeet.state.sizes import live_bytes_by_site
from watersmeet.state.versions import path_of
from watersmeet.storage.base import Storage
from watersmeet.storage.faulty import FaultyStorage
from watersmeet.storage.local import LocalStorage

KEYS, ROWS = 16, 12
TRIES_MOST = 40
"""A step that fails more often than storage was made to fail will never succeed."""

OVERHEAD_MS = 20.0
FAILING, ROOM_BYTES = 0.03, 200
"""Which part of all calls fails while storage does, and is done all the same; how little room a full disk has."""

TORN = "torn at "


class Killed(BaseException):
    """The driver dies here."""


@dataclass
class SimulatedTime(Observer):
    """Learns of the time that epochs take by what sites tell, as no clock would be the same twice."""

    def observe(self, manifest: Manifest, effects: Sequence[Effects], duration_ms: float = 0.0) -> list[Change]:  # noqa: ARG002
        """As if all sites had worked beside each other."""
        busy = np.zeros((manifest.plan.root.level + 1, manifest.sites))
        for each in effects:
            busy[each.level, each.site] += each.busy_ms
        return super().observe(manifest, effects, float(busy.max(axis=1).sum()) + OVERHEAD_MS)


@dataclass
class World:
    """All that outlives a driver, and the driver there is."""

    schedule: Schedule
    folder: Path
    results: dict[EpochId, Ints] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    offsets: LocalOffsets = field(default_factory=LocalOffsets)
    loop: Loop[Batch] = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.schedule.seed + 1)
        self.query = Query.of(self.schedule.shape, KEYS)
        self.batches = draw_batches(self.query, self.schedule.epochs, ROWS, self.chance)
        self.memory, self.sites = self.schedule.memory, self.schedule.sites
        self.executors = Executors()
        self.drivers, self.failing, self.full = 0, 0, 0
        self.deadly = ("", 0)
        self.start()

    @property
    def manifest(self) -> Manifest:
        """The last version."""
        return self.loop.manifest

    def epoch(self, epoch: int) -> None:
        """A batch is given to one driver after the other, until one has it, and knows it."""
        self.offsets.last = epoch
        self.tried(lambda: self.loop.batch(self.batches[epoch], epoch))

    def end(self) -> None:
        """All goes well from now on: what is missing is produced, and another driver tidies up."""
        self.failing, self.full, self.deadly = 0, 0, ("", 0)
        self.restart()
        Upkeep(self.loop, lambda: True, threading.Event()).at_end()
        self.restart()

    def file(self, path: str) -> Path:
        """An object of the state, as a file."""
        return self.folder / "state" / path

    def close(self) -> None:
        """Let the checkpoint go."""
        self.loop.close()

    def tried(self, do: Callable[[], object]) -> None:
        """Do something with one driver after the other, until one survives it."""
        for _ in range(TRIES_MOST):
            try:
                do()
            except Killed:
                self.restart()
            except StorageError:
                self.happened["step failed"] += 1
                self.restart()
            else:
                return
        raise ChaosError(f"a step failed {TRIES_MOST} times")

    def restart(self) -> None:
        """Another driver goes on with the last version."""
        self.loop.close()
        self.start()

    def start(self) -> None:
        """Another driver opens the checkpoint; it fails only because storage does."""
        for _ in range(TRIES_MOST):
            try:
                self.loop = self._opened()
            except (StorageError, CheckpointError) as error:
                if isinstance(error, CheckpointCorruptError):
                    raise
                self.happened["start failed"] += 1
            else:
                return
        raise ChaosError(f"no driver could start in {TRIES_MOST} tries")

    def _opened(self) -> Loop[Batch]:
        self.drivers += 1
        driver, schedule = f"driver{self.drivers}", self.schedule
        weights = (1.0, *([0.0] * (self.sites - 1))) if schedule.starts_uneven else ()
        plan, groups = self.query.plan, schedule.groups
        expected = Expectation("chaos", plan, groups, groups, self.sites, weights, schedule.sites_follow)
        checkpoint = open_checkpoint(str(self.folder), expected, self.offsets, driver, self._storage)
        try:
            return self._driven(
                checkpoint,
                DriverOptions(driver, expected, self.memory, schedule.retained, adaptation=schedule.adaptation),
            )
        except BaseException:
            checkpoint.close()
            raise

    def _driven(self, checkpoint: Checkpoint, options: DriverOptions) -> Loop[Batch]:
        self.runner = ChaosRunner(checkpoint.storage, self.query, self.executors, self.results)
        loop = start_driver(checkpoint, self.runner, options)
        loop.stepper.observer = SimulatedTime(**vars(loop.stepper.observer))
        for policy in loop.stepper.coordinator.policies if self.schedule.is_hasty else ():
            hurry(policy)
        loop.stepper.reach = self._reached
        return loop

    def _storage(self, _: Storage) -> Storage:
        inner = LocalStorage(str(self.folder / "state"), durable=False)
        rate, self.failing = (FAILING if self.failing else 0.0), max(self.failing - 1, 0)
        room, self.full = (ROOM_BYTES * self.full if self.full else None), max(self.full - 1, 0)
        return FaultyStorage(inner, self.schedule.seed * 1000 + self.drivers, rate, rate, full_after_bytes=room)

    def _reached(self, point: str, _: int) -> None:
        """The driver is at a point of a step; at the ``deadly`` one it dies, once it has passed it so many times."""
        if point == "epoch-end":
            self._check_memory()
        where, left = self.deadly
        if where.removeprefix(TORN) == point:
            self.deadly = (where, left - 1) if left else ("", 0)
            if left == 0:
                self._die(is_torn=where.startswith(TORN))

    def _die(self, *, is_torn: bool) -> None:
        self.happened["driver killed"] += 1
        if is_torn:  # half of the next version, under the name it has until it is whole
            half = self.file(path_of(self.manifest.version + 1))
            half.with_name(f".{half.name}-torn.tmp").write_bytes(b'{"format":2,"checksum":1,"body":{"ver')
        raise Killed

    def _check_memory(self) -> None:
        budget = self.memory.budget_bytes
        live = live_bytes_by_site(self.manifest)
        if budget is not None and live.max() > budget + self.runner.came_bytes:
            raise ChaosError(
                f"{live.max():.0f} bytes are live at a site, of {budget} and {self.runner.came_bytes} that came"
            )


def hurry(policy: Policy) -> None:
    """Have a policy that moves groups do so as often as it can."""
    hasty = {"theta_d": 0.99, "span": 1, "sample": 1, "theta_f": 1.0, "th_imb": 1.0, "th_util": 1.0, "wanted": 1}
    vars(policy).update({name: value for name, value in hasty.items() if name in vars(policy)})
    if isinstance(policy, FluxPolicy):
        policy.rounds.delta_min_ms = 0.0
