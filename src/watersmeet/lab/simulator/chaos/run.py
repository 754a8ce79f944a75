"""Schedules by the thousand: each is drawn from its seed, run, and judged; what fails is told with its seed."""

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from watersmeet.lab.simulator.chaos.judge import judge
from watersmeet.lab.simulator.chaos.mishaps import happens
from watersmeet.lab.simulator.chaos.schedule import Schedule, draw
from watersmeet.lab.simulator.chaos.world import World
from watersmeet.state.events import Event

IN_MEMORY = Path("/dev/shm")  # noqa: S108 -- a folder of the system's


@dataclass
class Told:
    """What happened in some schedules: mishaps and adaptations by kind, and what failed, with its seed."""

    schedules: int = 0
    epochs: int = 0
    drivers: int = 0
    results: int = 0
    seconds: float = 0.0
    happened: Counter[str] = field(default_factory=Counter)
    adapted: Counter[str] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def add(self, world: World, events: Iterable[Event]) -> None:
        """A run is over."""
        self.epochs += world.schedule.epochs
        self.drivers += world.drivers
        self.results += sum(int(each.sum()) for each in world.results.values())
        self.happened += world.happened
        self.adapted += Counter(str(type(each).__struct_config__.tag) for each in events)
        self.policies[world.schedule.adaptation] += 1


def run_schedule(schedule: Schedule, told: Told | None = None) -> None:
    """Run one schedule; raises if anything does not hold that has to."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder, _quiet():
        world = World(schedule, Path(folder))
        try:
            for epoch in range(schedule.epochs):
                for mishap in schedule.before(epoch):
                    happens(world, mishap)
                world.epoch(epoch)
            world.end()
            judge(world)
            if told is not None:
                told.add(world, world.loop.stepper.checkpoint.events())
        finally:
            world.close()


def chaos(seeds: Iterable[int], say: Callable[[str], None] = print, before: Told | None = None) -> Told:
    """Run the schedules of some seeds, after others; one that fails is said with all that happened in it."""
    told, started = before or Told(), time.monotonic()
    for seed in seeds:
        schedule = draw(seed)
        told.schedules += 1
        try:
            run_schedule(schedule, told)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is a finding
            told.failures[seed] = f"{type(error).__name__}: {error}"
            say(f"{schedule}\n  {told.failures[seed]}")
    told.seconds += time.monotonic() - started
    return told


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings of what cannot be deleted for now would fill the screen."""
    log = logging.getLogger("watersmeet")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
